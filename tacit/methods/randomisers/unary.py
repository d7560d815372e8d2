"""The draws of unary encodings: one for each bit.

A dummy is a vector of zeros whose bits are randomised likewise, given that it has at most ``max_weight`` ones, so that
it is always sent (``tacit.methods.bounded``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.methods.base.draws import BYTES, hex_threshold
from tacit.methods.base.method import check_category
from tacit.methods.bounded import DRAW_BYTES, bounded_bits, weight_thresholds
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.methods.unary import UnaryEncoding
from tacit.ports import Entropy


def _draws(bits: str) -> Draws:
    """Describe the draws in words; ``bits`` says how the bits of an answer follow from their draws."""
    return Draws(
        f"k draws, w = `max_weight`; {bits}; nothing is sent if more than w are 1",
        "bits that are 1 with probability f = 1 - T / 2^128, given at most w are 1",
        "randomise 0; if nothing is sent for it, send nothing; else send a dummy",
        "`max_weight`",
        "A dummy: draw d (24 bytes) for the weight: the number of thresholds <= d, threshold j being floor(2^192 Pr[at "
        "most j ones] / Pr[at most w]) for j < w; then w draws of 24 bytes, the i-th of which (from 0) swaps place i "
        "of 0..k-1 with place i + floor(d (k - i) / 2^192); the first *weight* places are 1.",
    )


@dataclass(frozen=True)
class UnaryRandomiser(Randomiser[UnaryEncoding]):
    """Randomises every bit of a one-hot vector."""

    def randomise(self, category: int, entropy: Entropy, /) -> list[int] | None:
        """The noisy bits, or None when there are more than ``max_weight`` ones."""
        check_category(category, self.method.categories)
        bits = self._randomise(category, entropy)
        return bits if sum(bits) <= self.method.max_weight else None

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """The randomised zero vector, given that at most ``max_weight`` bits are one; the work depends on the
        parameters alone."""
        method = self.method
        return bounded_bits(method.categories, method.keep_below, method.max_weight, entropy)

    def missing(self, entropy: Entropy, /) -> list[int] | None:
        """None as often as for every category: whether anything is sent is drawn as for category 0; then a dummy."""
        return None if self.randomise(0, entropy) is None else self.dummy(entropy)

    def _randomise(self, category: int, entropy: Entropy) -> list[int]:
        """The one-hot vector of ``category`` with every bit randomised."""
        method = self.method
        stream = entropy(BYTES * method.categories)
        bits = []
        for cell in range(method.categories):
            drawn = int.from_bytes(stream[BYTES * cell : BYTES * (cell + 1)], "big")
            bits.append(int(drawn < method.hit_below if cell == category else drawn >= method.keep_below))
        return bits

    def thresholds(self) -> dict[str, Any]:
        """A draw below the first threshold leaves a zero, one below the second makes the own bit a one. The number of
        ones of a dummy is the number of thresholds in the third entry that are at most its draw."""
        method = self.method
        weights = weight_thresholds(method.categories, method.keep_below, method.max_weight)
        return {
            "keep_threshold": hex_threshold(method.keep_below),
            **({} if method.hit_below == method.keep_below else {"hit_threshold": hex_threshold(method.hit_below)}),
            "weight_thresholds": [hex_threshold(one, DRAW_BYTES) for one in weights],
        }


@dataclass(frozen=True)
class RapporRandomiser(UnaryRandomiser):
    """Flips every bit with probability ``1 / (e^(epsilon0 / 2) + 1)``."""

    DRAWS = _draws("bit i = (i = v) xor (d_i >= T(epsilon0 / 2, 1))")


@dataclass(frozen=True)
class OueRandomiser(UnaryRandomiser):
    """Sends a fair coin as the own bit, and as any other a 1 with probability ``1 / (e^epsilon0 + 1)``."""

    DRAWS = _draws("bit v = (d_v < 2^127), any other bit i = (d_i >= T(epsilon0, 1))")
