"""The model of each recipe, which says whose opt-ins and void leaves count."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Every recipe that was admitted before has the one model that existed then."""
    op.add_column("recipes", sa.Column("model", sa.String(32), nullable=False, server_default="secure-aggregation"))


def downgrade() -> None:
    """Drop the column ``model``."""
    op.drop_column("recipes", "model")
