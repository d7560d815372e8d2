"""What an operator decides, at a start, about a database that may be from the past."""

from __future__ import annotations

import enum


class Recovery(enum.StrEnum):
    """The operator's decision, at start, about a database that does not fit its mark."""

    REFUSE = "refuse"
    ACCEPT = "accept-rollback"
    """The database is, or may be, from the past: close whatever may have been spent, and continue."""
    NEW_MARK = "new-mark"
    """The database is complete and only the mark is missing: create one."""
