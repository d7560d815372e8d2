"""The cost of recipes and series against an aggregator together with the relay."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column to both tables, and fill it for what is already in the log."""
    for table in ("charges", "series"):
        column = sa.Column("epsilon_with_relay", sa.String(32), nullable=False, server_default=sa.text("'0'"))
        op.add_column(table, column)
    _fill("charges", "recipe_hash", "recipes", "privacy")
    _fill("series", "hash", "series", "claim")


def _fill(table: str, key: str, logged: str, member: str) -> None:
    connection = op.get_bind()
    leaves = sa.text(f"SELECT {logged}.hash, entries.leaf FROM {logged} JOIN entries USING (position)")  # noqa: S608
    update = sa.text(f"UPDATE {table} SET epsilon_with_relay = :epsilon WHERE {key} = :hash")  # noqa: S608
    for row in connection.execute(leaves).all():
        epsilon = json.loads(bytes(row.leaf))["body"][member]["epsilon"]["aggregator_with_relay"]
        connection.execute(
            update.bindparams(sa.bindparam("hash", type_=sa.LargeBinary())),
            {"epsilon": epsilon, "hash": bytes(row.hash)},
        )


def downgrade() -> None:
    """Drop the columns ``epsilon_with_relay``."""
    for table in ("charges", "series"):
        op.drop_column(table, "epsilon_with_relay")
