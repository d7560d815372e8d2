"""The collector's tables at revision 2, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.upsert import Int64

revision = "0002"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "log_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "leaves",
        sa.Column("position", Int64, autoincrement=False, nullable=False),
        sa.Column("leaf", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_table(
        "collections",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("recipe_hash", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("recipe_hash", "number"),
    )
    op.create_table(
        "results",
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("recipe_hash", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("published", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("collection"),
        sa.UniqueConstraint("recipe_hash", "number"),
    )
    op.create_table(
        "releases",
        sa.Column("place", Int64, autoincrement=False, nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("place"),
        sa.UniqueConstraint("collection"),
    )
