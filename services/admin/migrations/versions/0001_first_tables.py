"""The first tables: questions, people, API keys, sessions, failures, answers and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.upsert import Int64

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the seven tables of the first schema."""
    _questions()
    _people()
    _api_keys()
    _sessions()
    _failures()
    _answers()
    _audit()


def downgrade() -> None:
    """Drop the seven tables of the first schema."""
    for table in ("audit", "answers", "failures", "sessions", "api_keys", "people", "questions"):
        op.drop_table(table)


def _questions() -> None:
    op.create_table(
        "questions",
        sa.Column("number", Int64, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("authors", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("approver", sa.String(32), nullable=False),
        sa.Column("approval", sa.LargeBinary(32), nullable=False),
        sa.Column("recipe", sa.LargeBinary(), nullable=False),
        sa.Column("recipe_hash", sa.String(43), nullable=False),
        sa.Column("leaf", sa.LargeBinary(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("questions_recipe_hash", "questions", ["recipe_hash"])
    op.create_index("questions_state", "questions", ["state"])


def _people() -> None:
    op.create_table(
        "people",
        sa.Column("number", Int64, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("password", sa.String(256), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("name"),
    )


def _api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_index("api_keys_person", "api_keys", ["person"])


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("began", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("sessions_person", "sessions", ["person"])


def _failures() -> None:
    op.create_table(
        "failures",
        sa.Column("account", sa.LargeBinary(32), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account"),
    )


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("key", sa.LargeBinary(32), nullable=False),
        sa.Column("request", sa.LargeBinary(32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("answers_at", "answers", ["at"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("previous", sa.LargeBinary(32), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("who", sa.String(32), nullable=False),
        sa.Column("what", sa.String(64), nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("outcome", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
