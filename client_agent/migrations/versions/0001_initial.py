"""Facts, tokens and journal of one device."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
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
    )


def downgrade() -> None:
    for name in ("entries", "prefetches", "facts"):
        op.drop_table(name)
