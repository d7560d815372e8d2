"""Schema 1: create the recipe server's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def upgrade() -> None:
    """Create the first version of every table."""
    _log_tables()
    op.create_table(
        "recipes",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        _number("position"),
        sa.Column("issuer", sa.String(253), nullable=False),
        _number("epoch"),
        _number("slot"),
        _number("ends_at"),
        sa.PrimaryKeyConstraint("hash"),
        sa.UniqueConstraint("position"),
        sa.UniqueConstraint("issuer", "epoch", "slot"),
    )
    op.create_table(
        "opt_ins",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        _number("position"),
        sa.PrimaryKeyConstraint("recipe_hash", "role"),
        sa.UniqueConstraint("position"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )
    op.create_table(
        "directories",
        sa.Column("issuer", sa.String(253), nullable=False),
        _number("epoch"),
        _number("epoch_seconds"),
        _number("position"),
        sa.PrimaryKeyConstraint("issuer", "epoch"),
        sa.UniqueConstraint("position"),
    )
    op.create_table(
        "ohttp_configs",
        _number("position"),
        _number("not_after"),
        sa.PrimaryKeyConstraint("position"),
    )
    op.create_table(
        "results",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("batch_id", sa.String(100), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _number("published_at"),
        sa.PrimaryKeyConstraint("recipe_hash", "batch_id"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )


def _log_tables() -> None:
    op.create_table(
        "entries",
        _number("position"),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("leaf", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint("digest"),
    )
    op.create_table(
        "nodes",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        _number("position"),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("level", "position"),
    )
    op.create_table(
        "checkpoint",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        _number("size"),
        sa.Column("note", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("only"),
    )


def downgrade() -> None:
    """Drop all of the recipe server's tables."""
    for table in (
        "results",
        "ohttp_configs",
        "directories",
        "opt_ins",
        "recipes",
        "checkpoint",
        "nodes",
        "entries",
    ):
        op.drop_table(table)
