"""The draws of local hashing: public bytes, then the response about the hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.methods.base.affine import PUBLIC_SIZE, SEED_SIZE, AffineHashing, hash_of, level_of, seed_of
from tacit.methods.base.draws import bernoulli, hex_threshold
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.ports import Entropy
from tacit.uniform import uniform_below


@dataclass(frozen=True)
class AffineRandomiser(Randomiser[AffineHashing]):
    """Keeps the hash of the item's prefix, or draws another value."""

    DRAWS = Draws(
        "u = 16 bytes; h = hash of the prefix (docs/device.md); d < T(epsilon0, k - 1): h; else the uniform w below "
        "k - 1, plus 1 if w >= h (both are drawn always)",
        "u = 16 bytes; 16 bytes that are not used; uniform below k",
    )

    def randomise(self, item: int, entropy: Entropy, /) -> list[int]:
        """The 16 public bytes as an integer, and the value about ``item``. Draws the same number of bytes whether the
        hash is kept or not. ``ValueError`` for an item that does not have ``bits`` bits."""
        method = self.method
        if not 0 <= item < 1 << method.bits:
            raise ValueError(f"an item must have {method.bits} bits")
        public = entropy(PUBLIC_SIZE)
        length = method.levels[level_of(int.from_bytes(public[SEED_SIZE:], "big"), len(method.levels))]
        value = hash_of(seed_of(public), item >> (method.bits - length), method.hash_bits)
        keep = bernoulli(method.keep_below, entropy)
        other = uniform_below(method.values - 1, entropy)
        return [int.from_bytes(public, "big"), value if keep else other + (other >= value)]

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """A report that supports nothing more than anything else, from as many random bytes as any other."""
        public = entropy(PUBLIC_SIZE)
        bernoulli(self.method.keep_below, entropy)
        return [int.from_bytes(public, "big"), uniform_below(self.method.values, entropy)]

    def thresholds(self) -> dict[str, Any]:
        """The threshold below which a draw keeps the hash."""
        return {"keep_threshold": hex_threshold(self.method.keep_below)}
