"""Key sets of gateways by period, in place of configurations with a lifetime of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def upgrade() -> None:
    """Make the table; earlier configurations have no period, and no reader uses them any more."""
    op.drop_table("ohttp_configs")
    op.create_table(
        "key_sets",
        sa.Column("gateway", sa.String(253), nullable=False),
        _number("period"),
        _number("rotation_seconds"),
        _number("position"),
        sa.PrimaryKeyConstraint("gateway", "period"),
        sa.UniqueConstraint("position"),
    )


def downgrade() -> None:
    """Drop the table; the log's entries stay."""
    op.drop_table("key_sets")
    op.create_table(
        "ohttp_configs",
        _number("position"),
        _number("not_after"),
        sa.PrimaryKeyConstraint("position"),
    )
