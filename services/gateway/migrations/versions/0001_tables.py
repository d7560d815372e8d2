"""Schema 1: create the gateway's replay window."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.upsert import Int64

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the table ``seen_requests``."""
    op.create_table(
        "seen_requests",
        sa.Column("enc", sa.LargeBinary(), nullable=False),
        sa.Column("date", Int64, nullable=False),
        sa.PrimaryKeyConstraint("enc"),
    )
    op.create_index("seen_requests_by_date", "seen_requests", ["date"], unique=False)
