"""The agent's tables at revision 6, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "facts",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "prefetches",
        sa.Column("issuer", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("due_at", sa.Float, nullable=False),
        sa.Column("key_id", sa.LargeBinary, nullable=False),
        sa.Column("preimages", sa.LargeBinary, nullable=False),
        sa.Column("pending", sa.LargeBinary, nullable=False),
        sa.Column("token", sa.LargeBinary, nullable=False),
        sa.Column("spent", sa.Boolean, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
    )
    _entries()
    op.create_table(
        "series",
        sa.Column("series_hash", sa.LargeBinary, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("drawn_at", sa.Float, nullable=False),
        sa.Column("first_round", sa.Integer, nullable=False),
        sa.Column("chosen_round", sa.Integer),
    )


def _entries() -> None:
    op.create_table(
        "entries",
        sa.Column("recipe_hash", sa.LargeBinary, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("decided_at", sa.Float, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("charged_epsilon", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text),
        sa.Column("epoch", sa.Integer),
        sa.Column("slot", sa.Integer),
        sa.Column("send_at", sa.Float, nullable=False),
        sa.Column("deadline", sa.Float, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("report", sa.LargeBinary, nullable=False),
        sa.Column("charged_delta", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.Column("series_hash", sa.LargeBinary, nullable=False, server_default=sa.text("x''")),
        sa.Column("series_index", sa.Integer),
        sa.Column("charged_until", sa.Float, nullable=False, server_default=sa.text("0")),
        sa.Column("charged_with_relay", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.Column("model", sa.Text, nullable=False, server_default=sa.text("'secure-aggregation'")),
    )
