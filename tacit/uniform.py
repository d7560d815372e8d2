"""Exact uniform integers from uniform bytes."""

from __future__ import annotations

from tacit.ports import Entropy

_BYTES = 16
_ONE = 1 << (8 * _BYTES)


def uniform_below(bound: int, entropy: Entropy) -> int:
    """Uniform on 0 ... bound-1 exactly, by rejection; 1 <= bound <= 2^64. A redraw has a chance below 2^-64."""
    if not 1 <= bound <= 1 << 64:
        raise ValueError("bound must be from 1 to 2^64")
    usable = _ONE - _ONE % bound
    while True:
        value = int.from_bytes(entropy(_BYTES), "big")
        if value < usable:
            return value % bound
