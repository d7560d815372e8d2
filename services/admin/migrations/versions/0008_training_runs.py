"""Questions whose text is the plan of a training run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns. No earlier question is a training run."""
    op.add_column("questions", sa.Column("trains", sa.Boolean(), nullable=False, server_default=sa.false()))
    with op.batch_alter_table("questions") as questions:
        questions.alter_column("trains", server_default=None)
    op.add_column("questions", sa.Column("over_at", sa.BigInteger()))
