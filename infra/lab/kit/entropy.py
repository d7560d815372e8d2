"""Reproducible randomness for tests. Never for anything real: everyone who knows the seed knows every secret."""

from __future__ import annotations

import hashlib


class SeededEntropy:
    """The SHAKE-256 stream of ``seed``; equal seeds and equal calls give equal bytes."""

    def __init__(self, seed: bytes | int = 0) -> None:
        raw = seed if isinstance(seed, bytes) else b"int:%d" % seed
        self._seed = hashlib.sha256(b"tacit seeded entropy\0" + raw).digest()
        self._calls = 0

    def __call__(self, length: int, /) -> bytes:
        """``length`` bytes from SHAKE256 of seed and number of the call: reproducible, and no secret."""
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(8, "big")).digest(length)

    def child(self, label: str) -> SeededEntropy:
        """An independent stream that does not depend on how much of this one was used."""
        return SeededEntropy(self._seed + label.encode())
