"""The void leaf of a task that was closed without a release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Existing tasks have no void leaf."""
    with op.batch_alter_table("tasks") as tasks:
        tasks.add_column(sa.Column("void", sa.LargeBinary(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    """Drop the void leaves. Tasks that they closed stay closed."""
    with op.batch_alter_table("tasks") as tasks:
        tasks.drop_column("void")
