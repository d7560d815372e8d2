"""Series, their rounds, and their charges."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def upgrade() -> None:
    """Make both tables; no log had a series before."""
    op.create_table(
        "series",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        _number("position"),
        sa.Column("account", sa.String(253), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("epsilon", sa.String(32), nullable=False),
        sa.Column("delta", sa.String(32), nullable=False),
        _number("starts_at"),
        _number("ends_at"),
        sa.PrimaryKeyConstraint("hash"),
        sa.UniqueConstraint("position"),
    )
    op.create_index("series_by_account", "series", ["account", "ends_at"])
    op.create_table(
        "series_rounds",
        sa.Column("series_hash", sa.LargeBinary(32), nullable=False),
        _number("number"),
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("series_hash", "number"),
        sa.UniqueConstraint("recipe_hash"),
        sa.ForeignKeyConstraint(["series_hash"], ["series.hash"]),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )


def downgrade() -> None:
    """Drop both tables; the log's entries stay."""
    op.drop_table("series_rounds")
    op.drop_table("series")
