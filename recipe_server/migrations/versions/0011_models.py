"""The models that rounds name, and the pieces of their files."""

from __future__ import annotations

import base64
import json

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.migrate import keep_out_of_line

revision = "0011"
down_revision = "0010"

_UPDATE = b'"kind":"update"'
"""In every recipe that trains a model, since leaves are RFC 8785 JSON."""


def upgrade() -> None:
    """Create both tables, and record the models of the rounds that are in the log already."""
    named = op.create_table(
        "round_models",
        sa.Column("recipe_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("model", sa.LargeBinary(32), nullable=False),
        sa.Column("bytes", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("recipe_hash"),
        sa.ForeignKeyConstraint(["recipe_hash"], ["recipes.hash"]),
    )
    op.create_index("round_models_by_model", "round_models", ["model"])
    op.create_table(
        "model_pieces",
        sa.Column("model", sa.LargeBinary(32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("model", "number"),
    )
    connection = op.get_bind()
    keep_out_of_line(connection, "model_pieces", "body")
    logged = sa.text("SELECT recipes.hash, entries.leaf FROM recipes JOIN entries USING (position)")
    for row in connection.execute(logged).all():
        leaf = bytes(row.leaf)
        question = json.loads(leaf)["body"]["question"] if _UPDATE in leaf else None
        if question is not None and question["encoder"]["kind"] == "update":
            stated = json.loads(question["round_input"])
            model = base64.urlsafe_b64decode(stated["model"] + "=")
            values = {"recipe_hash": bytes(row.hash), "model": model, "bytes": stated["bytes"]}
            connection.execute(sa.insert(named).values(**values))
