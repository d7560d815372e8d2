"""The multi-buffer kernels of one instruction set, for tests that run with each."""

from __future__ import annotations

import pytest

from tacit.multibuffer import library
from tacit.multibuffer.interface import R_BITS, Multibuffer

LEVELS = tuple(R_BITS)


def chosen_kernels(level: str, monkeypatch: pytest.MonkeyPatch) -> Multibuffer:
    """Return the kernels, which are used until the test ends. Skips where this processor does not run them."""
    monkeypatch.setenv("TACIT_NATIVE", level)
    found = library.kernels()
    if found is None or found.level != level:
        pytest.skip(f"this processor has no {level}, or there is no C compiler")
    return found
