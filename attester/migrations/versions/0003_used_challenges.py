"""Challenges are stored when they are used, no longer when they are issued.

Challenges that were issued and not yet used are lost: their devices ask for new ones.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the table ``challenges`` by ``used_challenges``."""
    op.drop_table("challenges")
    _challenges("used_challenges")
    op.create_table(
        "challenge_floor",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("only"),
    )


def downgrade() -> None:
    """Put back the previous table, empty."""
    for table in ("challenge_floor", "used_challenges"):
        op.drop_table(table)
    _challenges("challenges")


def _challenges(name: str) -> None:
    op.create_table(
        name,
        sa.Column("challenge", sa.LargeBinary(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("challenge"),
    )
    op.create_index(op.f(f"ix_{name}_expires"), name, ["expires"], unique=False)
