"""The requested path of the kernels, ``TACIT_NATIVE``; separate from the kernels, for modules that do not load them."""

from __future__ import annotations

import os

from tacit.errors import UsageError

LEVELS = ("baseline", "avx2", "avx512", "ifma")
OFF = "off"
VARIABLE = "TACIT_NATIVE"
PRIO3, BATCHES = "prio3", "batches"
"""What there are kernels for: Prio3 reports; tokens and HPKE messages in batches."""


def wanted_level() -> str:
    """The value of ``TACIT_NATIVE``, or an empty text. Raises ``UsageError`` for an unknown path."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted and wanted not in (OFF, *LEVELS):
        raise UsageError(f"{VARIABLE} must be one of {', '.join((OFF, *LEVELS))}, not {wanted!r}")
    return wanted
