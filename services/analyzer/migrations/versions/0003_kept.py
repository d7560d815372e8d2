"""Reports that are kept until they are searched, and what was found in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Sums that were released before have no search."""
    op.create_table(
        "kept",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("first", sa.LargeBinary(), nullable=False),
        sa.Column("records", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "first"),
    )
    with op.batch_alter_table("aggregates") as table:
        table.add_column(sa.Column("search", sa.LargeBinary(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the column ``search`` and the table ``kept``."""
    with op.batch_alter_table("aggregates") as table:
        table.drop_column("search")
    op.drop_table("kept")
