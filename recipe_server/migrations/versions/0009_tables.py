"""The recipe server's tables at revision 9, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = None


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def upgrade() -> None:
    """Create every table."""
    _log()
    _recipes()
    _ledger()
    _censuses()
    _series()


def _log() -> None:
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
    op.create_table(
        "shown",
        sa.Column("only", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("note", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("only"),
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
        "key_sets",
        sa.Column("gateway", sa.String(253), nullable=False),
        _number("period"),
        _number("rotation_seconds"),
        _number("position"),
        sa.PrimaryKeyConstraint("gateway", "period"),
        sa.UniqueConstraint("position"),
    )


def _recipes() -> None:
    op.create_table(
        "recipes",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        _number("position"),
        sa.Column("issuer", sa.String(253), nullable=False),
        _number("epoch"),
        _number("slot"),
        _number("ends_at"),
        sa.Column("model", sa.String(32), nullable=False, server_default="secure-aggregation"),
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
        "results",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("batch_id", sa.String(100), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _number("published_at"),
        sa.PrimaryKeyConstraint("recipe_hash", "batch_id"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )


def _ledger() -> None:
    op.create_table(
        "charges",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("account", sa.String(253), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("epsilon", sa.String(32), nullable=False),
        sa.Column("delta", sa.String(32), nullable=False),
        _number("starts_at"),
        _number("ends_at"),
        sa.Column("refundable", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("epsilon_with_relay", sa.String(32), nullable=False, server_default=sa.text("'0'")),
        sa.PrimaryKeyConstraint("recipe_hash"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )
    op.create_index("charges_by_account", "charges", ["account", "ends_at"])
    op.create_table(
        "voids",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        _number("position"),
        _number("published_at"),
        sa.PrimaryKeyConstraint("recipe_hash", "role"),
        sa.UniqueConstraint("position"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )


def _censuses() -> None:
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


def _series() -> None:
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
        sa.Column("epsilon_with_relay", sa.String(32), nullable=False, server_default=sa.text("'0'")),
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
