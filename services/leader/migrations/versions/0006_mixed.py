"""Tasks whose shuffler has forwarded everything."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table ``forwarded``."""
    op.create_table(
        "forwarded",
        sa.Column("task_id", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )
