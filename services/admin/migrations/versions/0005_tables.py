"""The admin service's tables at revision 5, the oldest whose databases are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tacit.adapters.databases.upsert import Int64

revision = "0005"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    _questions()
    _people()
    _ways_in()
    _sign_ins()
    _answers()
    _audit()


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
        sa.Column("identity", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_index("people_identity", "people", ["identity"], unique=True)


def _ways_in() -> None:
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
    op.create_table(
        "sessions",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("began", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_index("sessions_person", "sessions", ["person"])
    op.create_table(
        "invitations",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "passkeys",
        sa.Column("id", sa.LargeBinary(512), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("credential", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("passkeys_person", "passkeys", ["person"])


def _sign_ins() -> None:
    op.create_table(
        "failures",
        sa.Column("account", sa.LargeBinary(32), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("account"),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "used_flows",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "challenges",
        sa.Column("challenge", sa.LargeBinary(32), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("challenge"),
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
    op.create_index("audit_target", "audit", ["target", "number"])
