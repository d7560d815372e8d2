"""The cost of a charge against an aggregator together with the relay; unknown for older entries."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.add_column(sa.Column("charged_with_relay", sa.Text, nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.drop_column("charged_with_relay")
