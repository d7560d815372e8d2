"""The order in which batches were released."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from tacit.adapters.upsert import Int64

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the order. Earlier releases are ordered by the times in their documents."""
    places = op.create_table(
        "releases",
        sa.Column("place", Int64, autoincrement=False, nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("place"),
        sa.UniqueConstraint("collection"),
    )
    rows = op.get_bind().execute(sa.text("SELECT collection, document FROM results"))
    found = sorted((json.loads(document)["released_at"], collection) for collection, document in rows)
    if found:
        op.bulk_insert(places, [{"place": place, "collection": one} for place, (_, one) in enumerate(found, 1)])


def downgrade() -> None:
    """Drop the table of the order of release."""
    op.drop_table("releases")
