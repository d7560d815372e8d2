"""How the C library keeps the memory that a service has freed."""

from __future__ import annotations

import ctypes
from typing import Final

LARGE_BLOCK: Final = 1 << 20
"""Bytes of a block from which on it goes back to the system when it is freed."""
SPARE: Final = 4 << 20
"""Bytes at the end of each thread's memory that are kept for smaller blocks."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Of glibc's malloc.h."""


def return_large_blocks() -> bool:
    """Fix what goes back to the system when it is freed; False where the C library is not glibc. By default glibc
    raises the size of a large block to 32 MiB, and each thread keeps blocks of its own: with vectors of 10,000 entries
    200 MiB a thread. Without spare memory a frame of messages would be new memory each time, at 7 us for a message of
    16 kB; so frames are also smaller than a large block (``relay.config.Frames``)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK) and mallopt(_M_TRIM_THRESHOLD, SPARE))
