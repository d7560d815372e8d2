"""An index with which the acts on one question are found without reading all acts."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index of acts by target."""
    op.create_index("audit_target", "audit", ["target", "number"])


def downgrade() -> None:
    """Drop the index of acts by target."""
    op.drop_index("audit_target", "audit")
