"""The charges of recipes to accounts, and which of them are void."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def upgrade() -> None:
    """Make both tables. Recipes that are already in the log are charged too."""
    charges = op.create_table(
        "charges",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("account", sa.String(253), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("epsilon", sa.String(32), nullable=False),
        sa.Column("delta", sa.String(32), nullable=False),
        _number("starts_at"),
        _number("ends_at"),
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
    logged = sa.text("SELECT recipes.hash, entries.leaf FROM recipes JOIN entries USING (position)")
    rows = [_charge(row.hash, json.loads(bytes(row.leaf))["body"]) for row in op.get_bind().execute(logged)]
    if rows:
        op.bulk_insert(charges, rows)


def _charge(recipe_hash: bytes, recipe: dict[str, Any]) -> dict[str, Any]:
    privacy, interval = recipe["privacy"], recipe["interval"]
    return {
        "recipe_hash": recipe_hash,
        "account": privacy["account"],
        "name": recipe["name"],
        "epsilon": privacy["epsilon"]["aggregator"],
        "delta": privacy["delta"],
        "starts_at": interval["start"],
        "ends_at": interval["start"] + interval["duration"],
    }


def downgrade() -> None:
    """Drop both tables; the log's entries stay."""
    op.drop_table("voids")
    op.drop_table("charges")
