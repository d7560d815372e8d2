"""Rounds of series, and what was drawn for each series."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("entries") as entries:
        entries.add_column(sa.Column("series_hash", sa.LargeBinary, nullable=False, server_default=sa.text("x''")))
        entries.add_column(sa.Column("series_index", sa.Integer))
    op.create_table(
        "series",
        sa.Column("series_hash", sa.LargeBinary, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("drawn_at", sa.Float, nullable=False),
        sa.Column("first_round", sa.Integer, nullable=False),
        sa.Column("chosen_round", sa.Integer),
    )


def downgrade() -> None:
    op.drop_table("series")
    with op.batch_alter_table("entries") as entries:
        entries.drop_column("series_index")
        entries.drop_column("series_hash")
