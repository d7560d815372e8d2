"""Counts by slot that outlive the quotas (P15).

The counts start from the rows in ``quotas``. Repeated requests from before the migration are not in them, so the
issuer's count of those slots may be larger.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table ``issuance`` and fill it from the quotas."""
    op.create_table(
        "issuance",
        sa.Column("epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("requested", sa.BigInteger(), nullable=False),
        sa.Column("answered", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", "slot"),
    )
    op.execute(
        "INSERT INTO issuance SELECT epoch, slot, count(*), count(*), 0 FROM quotas GROUP BY epoch, slot",
    )


def downgrade() -> None:
    """Drop the table ``issuance``."""
    op.drop_table("issuance")
