"""Which leaf has ended a series, and until when readers are shown it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the columns; no series was ended before."""
    for name in ("end_position", "shown_until"):
        op.add_column("series", sa.Column(name, sa.BigInteger(), nullable=True))
