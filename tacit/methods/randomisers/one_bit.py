"""The draws of one bit of a number: the rounding, then the response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.methods.base.draws import bernoulli, hex_threshold
from tacit.methods.one_bit import OneBit
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.ports import Entropy
from tacit.uniform import uniform_below


@dataclass(frozen=True)
class OneBitRandomiser(Randomiser[OneBit]):
    """Rounds the value to one end of its range at random, and keeps that bit or sends the other one."""

    DRAWS = Draws(
        "u uniform below `maximum`; b = 1 if u < v, else 0; then b if d < T(epsilon0, 1), else 1 - b (both are drawn "
        "always, u first)",
        "the same with the neutral value: (0 - low) / unit where that is one of the values, else 0",
    )

    def randomise(self, value: int, entropy: Entropy, /) -> int:
        """The bit to report for an encoded value. Draws the same number of bytes whatever comes out."""
        if not 0 <= value <= self.method.maximum:
            raise ValueError(f"an answer must be from 0 to {self.method.maximum}")
        bit = int(uniform_below(self.method.maximum, entropy) < value)
        return bit if bernoulli(self.method.keep_below, entropy) else 1 - bit

    def dummy(self, entropy: Entropy, /) -> int:
        """The bit for the neutral value, drawn as for an answer."""
        return self.randomise(self.method.neutral, entropy)

    def thresholds(self) -> dict[str, Any]:
        """The threshold below which a draw keeps the bit."""
        return {"keep_threshold": hex_threshold(self.method.keep_below)}
