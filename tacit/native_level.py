"""Which path of the kernels is asked for: ``TACIT_NATIVE``, apart from the kernels, for who loads none of them."""

from __future__ import annotations

import os

from tacit.errors import UsageError

LEVELS = ("baseline", "avx2", "avx512", "ifma")
OFF = "off"
VARIABLE = "TACIT_NATIVE"


def wanted_level() -> str:
    """What ``TACIT_NATIVE`` asks for, or nothing. Raises ``UsageError`` for a path that does not exist."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in (OFF, *LEVELS):
        raise UsageError(f"{VARIABLE} must be one of {', '.join((OFF, *LEVELS))}, not {wanted!r}")
    return wanted
