"""Questions that are the next round of a series, of which each round has one at most."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns and their index. No earlier question is a round."""
    op.add_column("questions", sa.Column("series_hash", sa.String(43)))
    op.add_column("questions", sa.Column("round_index", sa.BigInteger()))
    op.create_index("questions_round", "questions", ["series_hash", "round_index"], unique=True)
