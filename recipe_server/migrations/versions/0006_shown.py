"""The checkpoint that witnesses have cosigned."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table ``shown``."""
    op.create_table(
        "shown",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("note", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("only"),
    )


def downgrade() -> None:
    """Drop the table ``shown`` again."""
    op.drop_table("shown")
