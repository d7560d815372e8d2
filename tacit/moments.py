"""Times in a form for people."""

from __future__ import annotations

import datetime


def when(seconds: float) -> str:
    """A POSIX time in UTC. Raises ``ValueError`` or ``OverflowError`` beyond the year 9999."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment(seconds: int) -> str:
    """A POSIX second as in a recipe, followed by the time in UTC; the number alone where it is outside the calendar."""
    try:
        return f"{seconds} ({when(seconds)})"
    except (ValueError, OverflowError, OSError):
        return str(seconds)
