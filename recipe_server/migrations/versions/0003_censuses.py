"""Which recipes are censuses, and the shares of them that were published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables, empty: no recipe of an earlier version is a census."""
    op.create_table(
        "censuses",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("cells", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("recipe_hash"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )
    op.create_table(
        "census_shares",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("recipe_hash", "role"),
        sa.UniqueConstraint("position"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["censuses.recipe_hash"]),
    )


def downgrade() -> None:
    """Drop both tables; the log's entries stay."""
    op.drop_table("census_shares")
    op.drop_table("censuses")
