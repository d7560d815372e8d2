"""The draws of binary randomised response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.methods.base.draws import bernoulli, fair_flips, hex_threshold
from tacit.methods.base.method import check_category
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.methods.rr import Rr
from tacit.ports import Entropy


@dataclass(frozen=True)
class RrRandomiser(Randomiser[Rr]):
    """Keeps the bit, or sends the other one."""

    DRAWS = Draws("v if d < T(epsilon0, 1), else 1 - v", "one random byte, its lowest bit")

    def randomise(self, category: int, entropy: Entropy, /) -> int:
        """The bit to report; ``category`` is the true bit, 0 or 1."""
        check_category(category, 2)
        return int(category) if bernoulli(self.method.keep_below, entropy) else 1 - int(category)

    def dummy(self, entropy: Entropy, /) -> int:
        """A fair random bit, sent in place of an answer."""
        return fair_flips(1, entropy)

    def thresholds(self) -> dict[str, Any]:
        """The threshold below which a draw keeps the true bit."""
        return {"keep_threshold": hex_threshold(self.method.keep_below)}
