"""A sent job keeps the digest of its request, from whose reports the same bytes are made again."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_JOBS = sa.table("aggregation_jobs", sa.column("job_id", sa.LargeBinary), sa.column("digest", sa.LargeBinary))


def upgrade() -> None:
    """Rename the column, so that no process of the version before sends a digest, and replace what it holds."""
    op.execute("ALTER TABLE aggregation_jobs RENAME COLUMN request TO digest")
    connection = op.get_bind()
    sent = [row[0] for row in connection.execute(sa.select(_JOBS.c.job_id).where(_JOBS.c.digest != b""))]
    for job_id in sent:
        mine = _JOBS.c.job_id == job_id
        request = connection.execute(sa.select(_JOBS.c.digest).where(mine)).scalar_one()
        connection.execute(sa.update(_JOBS).where(mine).values(digest=hashlib.sha256(request).digest()))
