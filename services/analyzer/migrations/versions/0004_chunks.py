"""Chunks of messages that a shuffler forwards."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """The table starts empty: no recipe of that model was served before."""
    op.create_table(
        "chunks",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("tally", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number"),
    )
