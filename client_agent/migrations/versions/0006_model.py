"""The model in which a report is sent; all older reports are of secure aggregation."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.add_column(sa.Column("model", sa.Text, nullable=False, server_default=sa.text("'secure-aggregation'")))


def downgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.drop_column("model")
