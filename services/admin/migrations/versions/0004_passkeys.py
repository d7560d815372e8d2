"""Passkeys, and the challenges that they have to sign."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of passkeys and challenges."""
    op.create_table(
        "passkeys",
        sa.Column("id", sa.LargeBinary(512), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("credential", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("passkeys_person", "passkeys", ["person"])
    op.create_table(
        "challenges",
        sa.Column("challenge", sa.LargeBinary(32), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("challenge"),
    )


def downgrade() -> None:
    """Drop the tables of passkeys and challenges."""
    op.drop_table("challenges")
    op.drop_table("passkeys")
