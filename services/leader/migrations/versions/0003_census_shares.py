"""Released shares of censuses, on their way into the log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.upsert import Int64

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The table starts empty: no census was released before."""
    op.create_table(
        "census_shares",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("report_count", Int64, nullable=False),
        sa.Column("agg_share", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )


def downgrade() -> None:
    """Drop the shares. Those in the log stay there."""
    op.drop_table("census_shares")
