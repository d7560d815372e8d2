"""Accounts of a sign-in provider: the person of each, invitations, and completed sign-ins."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column ``people.identity``, and the tables of invitations and completed sign-ins."""
    op.add_column("people", sa.Column("identity", sa.String(64), nullable=True))
    op.create_index("people_identity", "people", ["identity"], unique=True)
    op.create_table(
        "invitations",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "used_flows",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )


def downgrade() -> None:
    """Drop the column and both tables."""
    op.drop_table("used_flows")
    op.drop_table("invitations")
    op.drop_index("people_identity", "people")
    op.drop_column("people", "identity")
