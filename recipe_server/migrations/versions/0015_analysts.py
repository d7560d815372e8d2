"""Whose recipes and series are in the log, in which order results were published, and which leaf ended a series."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0012"

_LOGGED = {
    "recipes": "SELECT recipes.hash, entries.leaf FROM recipes JOIN entries USING (position)",
    "series": "SELECT series.hash, entries.leaf FROM series JOIN entries USING (position)",
}
_NAMED = {
    "recipes": "UPDATE recipes SET analyst = :analyst WHERE hash = :hash",
    "series": "UPDATE series SET analyst = :analyst, signing_key = :key WHERE hash = :hash",
}


def upgrade() -> None:
    """Add the columns. Leaves say who signed a recipe or a series, its analyst; no series was ended before."""
    op.add_column("recipes", sa.Column("analyst", sa.String(253), nullable=False, server_default=""))
    op.add_column("series", sa.Column("signing_key", sa.String(43), nullable=False, server_default=""))
    op.add_column("series", sa.Column("analyst", sa.String(253), nullable=False, server_default=""))
    for name in ("end_position", "shown_until"):
        op.add_column("series", sa.Column(name, sa.BigInteger(), nullable=True))
    connection = op.get_bind()
    for table, logged in _LOGGED.items():
        named = sa.text(_NAMED[table]).bindparams(sa.bindparam("hash", type_=sa.LargeBinary()))
        for row in connection.execute(sa.text(logged)).all():
            body = json.loads(bytes(row.leaf))["body"]
            analyst = body.get("template", body).get("parties", {}).get("analyst", {})
            given = {"analyst": analyst.get("operator", ""), "hash": bytes(row.hash)}
            connection.execute(named, given | ({"key": analyst.get("signing_key", "")} if table == "series" else {}))
    _number_results(connection)


def _number_results(connection: sa.Connection) -> None:
    op.add_column("results", sa.Column("number", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    published = sa.text("SELECT recipe_hash, batch_id FROM results ORDER BY published_at, recipe_hash, batch_id")
    update = sa.text("UPDATE results SET number = :number WHERE recipe_hash = :hash AND batch_id = :batch")
    numbered = update.bindparams(sa.bindparam("hash", type_=sa.LargeBinary()))
    for number, row in enumerate(connection.execute(published).all()):
        values = {"number": number, "hash": bytes(row.recipe_hash), "batch": row.batch_id}
        connection.execute(numbered, values)
    op.create_index("results_by_number", "results", ["number"], unique=True)
