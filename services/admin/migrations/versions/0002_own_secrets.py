"""A table for the service's own secrets. Failed sign-ins are forgotten, because they are now counted differently."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of secrets, and forget failed sign-ins."""
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.execute("DELETE FROM failures")


def downgrade() -> None:
    """Drop the table of secrets."""
    op.drop_table("secrets")
