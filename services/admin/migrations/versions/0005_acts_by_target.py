"""What was done to one question is found without reading all acts."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index."""
    op.create_index("audit_target", "audit", ["target", "number"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("audit_target", "audit")
