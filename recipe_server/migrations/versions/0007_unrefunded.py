"""Schema 7: record which charges a void leaf gives back."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Charges of recipes with importance sampling are never given back, those in the log already included."""
    op.add_column("charges", sa.Column("refundable", sa.Boolean(), nullable=False, server_default=sa.true()))
    connection = op.get_bind()
    logged = sa.text("SELECT recipes.hash, entries.leaf FROM recipes JOIN entries USING (position)")
    kept = sa.text("UPDATE charges SET refundable = :no WHERE recipe_hash = :hash").bindparams(
        sa.bindparam("no", type_=sa.Boolean()), sa.bindparam("hash", type_=sa.LargeBinary())
    )
    for row in connection.execute(logged).all():
        if "importance" in json.loads(bytes(row.leaf))["body"]["sampling"]:
            connection.execute(kept, {"no": False, "hash": bytes(row.hash)})


def downgrade() -> None:
    """Drop the column ``refundable``."""
    op.drop_column("charges", "refundable")
