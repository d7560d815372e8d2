"""The time until which the device may answer for a charge; for older entries it is the time of their decision."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.add_column(sa.Column("charged_until", sa.Float, nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.drop_column("charged_until")
