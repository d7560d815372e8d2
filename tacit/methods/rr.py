"""Binary randomised response (design rule P18): one bit, proved by Prio3Count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from tacit.methods.design import SampleDesign
from tacit.methods.draws import ONE, bernoulli, epsilon0_from, fair_flips, keep_threshold
from tacit.methods.estimate import CellModel, Estimate, check_counts
from tacit.methods.types import RELATION, check_category
from tacit.ports import Entropy


@dataclass(frozen=True, slots=True)
class Rr:
    """The true bit with e^e0/(e^e0 + 1), else the other one. The one cell counts the devices that hold a 1."""

    epsilon0: Decimal
    name: str = field(default="rr", init=False)
    relation: str = field(default=RELATION, init=False)
    _keep: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon0", epsilon0_from(self.epsilon0))
        object.__setattr__(self, "_keep", keep_threshold(self.epsilon0, 1))

    @property
    def cells(self) -> int:
        """The count of ones."""
        return 1

    def randomise(self, category: int, entropy: Entropy, /) -> int:
        """The bit to report; ``category`` is the true bit, 0 or 1."""
        check_category(category, 2)
        return int(category) if bernoulli(self._keep, entropy) else 1 - int(category)

    def dummy(self, entropy: Entropy, /) -> int:
        """A fair bit."""
        return fair_flips(1, entropy)

    def missing(self, entropy: Entropy, /) -> int:
        """A dummy."""
        return self.dummy(entropy)

    @property
    def reject_probability(self) -> float:
        """Every output is sent."""
        return 0.0

    def output_probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of reporting a 1 for (true bit 1, true bit 0)."""
        keep = Fraction(self._keep, ONE)
        return keep, 1 - keep

    def _model(self, design: SampleDesign) -> CellModel:
        """The two bits as categories."""
        hit, noise = self.output_probabilities()
        return CellModel(float(hit), float(noise), design, dummy=0.5)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """How many devices of the population hold a 1; ``counts`` has one entry."""
        check_counts(counts, 1, n, design, 2)
        both = self._model(design).estimate((n - counts[0], counts[0]), n)
        return Estimate(both.values[1:], both.stderrs[1:])

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """In a uniform sample 1/2 of a device."""
        return self._model(design).missing_adds(2)[1:]

    def expected_stderrs(self, truth: Sequence[float], population: int, design: SampleDesign) -> tuple[float, ...]:
        """Standard deviation of that estimate given the true count (one entry)."""
        (holders,) = truth
        return self._model(design).stderrs((population - holders, holders), population)[1:]
