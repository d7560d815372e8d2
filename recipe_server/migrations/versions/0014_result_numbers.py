"""Results have numbers in the order of their publication, by which they are read page by page."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column, and number what is there."""
    op.add_column("results", sa.Column("number", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    connection = op.get_bind()
    published = sa.text("SELECT recipe_hash, batch_id FROM results ORDER BY published_at, recipe_hash, batch_id")
    update = sa.text("UPDATE results SET number = :number WHERE recipe_hash = :hash AND batch_id = :batch")
    numbered = update.bindparams(sa.bindparam("hash", type_=sa.LargeBinary()))
    for number, row in enumerate(connection.execute(published).all()):
        values = {"number": number, "hash": bytes(row.recipe_hash), "batch": row.batch_id}
        connection.execute(numbered, values)
    op.create_index("results_by_number", "results", ["number"], unique=True)
