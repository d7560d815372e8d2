"""Times in a form for people."""

from __future__ import annotations

import datetime
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache


def format_utc(seconds: float) -> str:
    """A POSIX time in UTC. Raises ``ValueError`` or ``OverflowError`` beyond the year 9999."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_time(seconds: float) -> str:
    """A POSIX time in UTC, or the number where it is outside the calendar."""
    try:
        return format_utc(seconds)
    except (ValueError, OverflowError, OSError):
        return f"POSIX second {seconds:.0f}"


def format_second(seconds: int) -> str:
    """A POSIX second as in a recipe, followed by the time in UTC; the number alone where it is outside the calendar."""
    try:
        return f"{seconds} ({format_utc(seconds)})"
    except (ValueError, OverflowError, OSError):
        return str(seconds)


@lru_cache(maxsize=2)
def date_field(seconds: int) -> str:
    """A POSIX second as the value of a Date field (RFC 9110 section 5.6.7). Cached, since an answer has one."""
    return formatdate(seconds, usegmt=True)


def read_date_field(text: str) -> float | None:
    """The POSIX time in a Date field, of each of the three forms that a recipient must accept (RFC 9110 section 5.6.7);
    None for anything else. The form of asctime has no zone and is in UTC, too."""
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
