"""Changes of approvers and administrators that wait for consent, and when these people's approvals begin to count."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the tables of changes and of the rule, and the column ``people.counts_from``: the approvals and consents
    of everybody who exists count already."""
    op.add_column("people", sa.Column("counts_from", sa.BigInteger(), nullable=False, server_default="0"))
    with op.batch_alter_table("people") as people:
        people.alter_column("counts_from", server_default=None)
    op.create_table(
        "changes",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("person", sa.String(32), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("asked_by", sa.String(32), nullable=False),
        sa.Column("asked", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("consented_by", sa.String(32), nullable=False),
        sa.Column("counts_from", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "consent_rule",
        sa.Column("persons", sa.BigInteger(), nullable=False),
        sa.Column("delay", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("before_persons", sa.BigInteger(), nullable=False),
        sa.Column("before_delay", sa.BigInteger(), nullable=False),
    )
