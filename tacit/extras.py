"""Packages that only some commands need."""

from __future__ import annotations

import importlib.util

from tacit.errors import UsageError


def require_extra(what: str, extra: str, *packages: str) -> None:
    """Raise ``UsageError`` where one of ``packages``, which ``what`` needs, is not installed; ``extra`` brings them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{what} needs {', '.join(missing)}: pip install 'tacit[{extra}]'")
