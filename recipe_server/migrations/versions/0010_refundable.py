"""Which recipes are refunded by a void leaf: one column for recipes and for the rounds of series."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_REFUNDING = ("secure-aggregation", "pan-private")


def upgrade() -> None:
    """Add the column. Never refunded are recipes whose server opens single reports, and recipes in which answers decide
    who sends, including those already in the log."""
    op.add_column("recipes", sa.Column("refundable", sa.Boolean(), nullable=False, server_default=sa.false()))
    connection = op.get_bind()
    logged = sa.text("SELECT recipes.hash, recipes.model, entries.leaf FROM recipes JOIN entries USING (position)")
    given_back = sa.text("UPDATE recipes SET refundable = :yes WHERE hash = :hash").bindparams(
        sa.bindparam("yes", type_=sa.Boolean()), sa.bindparam("hash", type_=sa.LargeBinary())
    )
    for row in connection.execute(logged).all():
        if row.model in _REFUNDING and "importance" not in json.loads(bytes(row.leaf))["body"]["sampling"]:
            connection.execute(given_back, {"yes": True, "hash": bytes(row.hash)})
    op.drop_column("charges", "refundable")
