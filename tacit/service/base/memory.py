"""How the C library keeps the memory that a service has freed."""

from __future__ import annotations

import ctypes
from typing import Final

LARGE_BLOCK: Final = 1 << 20
"""Bytes of a block from which on it goes back to the system when it is freed."""
_M_MMAP_THRESHOLD: Final = -3
"""Of glibc's malloc.h."""


def return_large_blocks() -> bool:
    """Fix the size from which on freed blocks go back to the system; False where the C library is not glibc. By
    default glibc raises it to 32 MiB, and each thread keeps blocks of its own: with vectors of 10,000 entries 200 MiB
    a thread."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK) == 1
