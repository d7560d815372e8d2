"""Which model a recipe has: its model says whose opt-ins and void leaves count."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; every recipe that was admitted before is of the one model that there was."""
    op.add_column("recipes", sa.Column("model", sa.String(32), nullable=False, server_default="secure-aggregation"))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("recipes", "model")
