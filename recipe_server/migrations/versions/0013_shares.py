"""Whose recipes and series are in the log: what analysts share is divided among them."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0013"
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
    """Add the columns, and fill them from the leaves: a recipe's and a series' signer is its analyst."""
    connection = op.get_bind()
    op.add_column("series", sa.Column("signing_key", sa.String(43), nullable=False, server_default=""))
    for table, logged in _LOGGED.items():
        op.add_column(table, sa.Column("analyst", sa.String(253), nullable=False, server_default=""))
        named = sa.text(_NAMED[table]).bindparams(sa.bindparam("hash", type_=sa.LargeBinary()))
        for row in connection.execute(sa.text(logged)).all():
            body = json.loads(bytes(row.leaf))["body"]
            analyst = body.get("template", body).get("parties", {}).get("analyst", {})
            given = {"analyst": analyst.get("operator", ""), "hash": bytes(row.hash)}
            connection.execute(named, given | ({"key": analyst.get("signing_key", "")} if table == "series" else {}))
