"""The draws of k-ary randomised response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.methods.base.draws import bernoulli, hex_threshold
from tacit.methods.base.method import check_category
from tacit.methods.krr import Krr
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.ports import Entropy
from tacit.uniform import uniform_below


@dataclass(frozen=True)
class KrrRandomiser(Randomiser[Krr]):
    """Keeps the category, or draws another one."""

    DRAWS = Draws(
        "k categories: d1 < T(epsilon0, k - 1): v; else the uniform u below k - 1, plus 1 if u >= v (both are drawn "
        "always)",
        "uniform below k",
    )

    def randomise(self, category: int, entropy: Entropy, /) -> int:
        """The category to report. Draws the same number of bytes whether the truth is kept or not."""
        check_category(category, self.method.categories)
        keep = bernoulli(self.method.keep_below, entropy)
        other = uniform_below(self.method.categories - 1, entropy)
        return category if keep else other + (other >= category)

    def dummy(self, entropy: Entropy, /) -> int:
        """A category drawn uniformly at random."""
        return uniform_below(self.method.categories, entropy)

    def thresholds(self) -> dict[str, Any]:
        """The threshold below which a draw keeps the true category."""
        return {"keep_threshold": hex_threshold(self.method.keep_below)}
