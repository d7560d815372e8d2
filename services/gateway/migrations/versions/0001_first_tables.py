"""The replay window."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.upsert import Int64

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "seen_requests",
        sa.Column("enc", sa.LargeBinary(), nullable=False),
        sa.Column("date", Int64, nullable=False),
        sa.PrimaryKeyConstraint("enc"),
    )
    op.create_index("seen_requests_by_date", "seen_requests", ["date"], unique=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_index("seen_requests_by_date", "seen_requests")
    op.drop_table("seen_requests")
