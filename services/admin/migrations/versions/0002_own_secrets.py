"""Secrets of the service's own; failures to sign in begin anew, under other places."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.execute("DELETE FROM failures")


def downgrade() -> None:
    """Drop it."""
    op.drop_table("secrets")
