"""Charges have a delta, since they are composed and no longer added."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

LARGEST = "0.000001"
"""No policy's default has ever admitted a larger delta."""


def upgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.add_column(sa.Column("charged_delta", sa.Text, nullable=False, server_default=sa.text("''")))
    op.execute(
        sa.text("UPDATE entries SET charged_delta = :delta WHERE charged_epsilon <> ''").bindparams(delta=LARGEST)
    )


def downgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.drop_column("charged_delta")
