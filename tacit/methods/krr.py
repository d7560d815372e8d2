"""k-ary randomised response (design rule P18): the output is one category, proved by Prio3Histogram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from tacit.methods.design import SampleDesign
from tacit.methods.draws import ONE, bernoulli, epsilon0_from, keep_threshold, uniform_below
from tacit.methods.estimate import CellModel, Estimate, check_counts
from tacit.methods.types import RELATION, check_category
from tacit.ports import Entropy


@dataclass(frozen=True, slots=True)
class Krr:
    """The true category with e^e0/(e^e0 + k - 1), each other one with 1/(e^e0 + k - 1)."""

    epsilon0: Decimal
    categories: int
    name: str = field(default="krr", init=False)
    relation: str = field(default=RELATION, init=False)
    _keep: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.categories < 2:
            raise ValueError("categories must be at least 2")
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "_keep", keep_threshold(self.epsilon0, self.categories - 1))

    @property
    def cells(self) -> int:
        """One per category."""
        return self.categories

    def randomise(self, category: int, entropy: Entropy, /) -> int:
        """The category to report. Draws the same number of bytes whether the truth is kept or not."""
        check_category(category, self.categories)
        keep = bernoulli(self._keep, entropy)
        other = uniform_below(self.categories - 1, entropy)
        return category if keep else other + (other >= category)

    def dummy(self, entropy: Entropy, /) -> int:
        """Any category, each with the same probability."""
        return uniform_below(self.categories, entropy)

    def missing(self, entropy: Entropy, /) -> int:
        """A dummy."""
        return self.dummy(entropy)

    @property
    def reject_probability(self) -> float:
        """Every output is sent."""
        return 0.0

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """(true category, each other), exactly as drawn."""
        keep = Fraction(self._keep, ONE)
        return keep, (1 - keep) / (self.categories - 1)

    def _model(self, design: SampleDesign) -> CellModel:
        hit, noise = self.output_probabilities()
        return CellModel(float(hit), float(noise), design, dummy=1 / self.categories)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts per category; ``ValueError`` when counts are not those of n one-hot reports."""
        check_counts(counts, self.categories, n, design, self.categories)
        if sum(counts) != n:
            raise ValueError("counts must add up to n")
        return self._model(design).estimate(counts, n)

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """In a uniform sample 1/k of a device to each category."""
        return self._model(design).missing_adds(self.categories)

    def expected_stderrs(self, truth: Sequence[float], population: int, design: SampleDesign) -> tuple[float, ...]:
        """Standard deviation per category given the true counts."""
        return self._model(design).stderrs(truth, population)
