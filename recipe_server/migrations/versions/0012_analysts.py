"""Whose rounds name the models: each analyst has a share of the room for their files."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column, and fill it in from the leaves of the rounds."""
    column = sa.Column("analyst", sa.String(253), nullable=False, server_default="")
    op.add_column("round_models", column)
    connection = op.get_bind()
    logged = sa.text(
        "SELECT round_models.recipe_hash, entries.leaf FROM round_models "
        "JOIN recipes ON recipes.hash = round_models.recipe_hash JOIN entries ON entries.position = recipes.position"
    )
    named = sa.text("UPDATE round_models SET analyst = :analyst WHERE recipe_hash = :hash").bindparams(
        sa.bindparam("hash", type_=sa.LargeBinary())
    )
    for row in connection.execute(logged).all():
        analyst = json.loads(bytes(row.leaf))["body"]["parties"]["analyst"]["operator"]
        connection.execute(named, {"analyst": analyst, "hash": bytes(row.recipe_hash)})
