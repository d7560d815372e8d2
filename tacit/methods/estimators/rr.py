"""Estimates from binary randomised response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.estimators.cell_model import CellModel, check_counts
from tacit.methods.estimators.local import LocalEstimator
from tacit.methods.rr import Rr


@dataclass(frozen=True)
class RrEstimator(LocalEstimator[Rr]):
    """The number of devices that hold a 1."""

    def _model(self, design: SampleDesign) -> CellModel:
        """The cell model, with the two bits as categories."""
        hit, noise = self.method.output_probabilities()
        return CellModel(float(hit), float(noise), design, dummy=0.5)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """How many devices of the population hold a 1; ``counts`` has one entry."""
        check_counts(counts, 1, n, design, 2)
        both = self._model(design).estimate((n - counts[0], counts[0]), n)
        return Estimate(both.values[1:], both.stderrs[1:])

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """What a device without an answer adds in expectation; in a uniform sample 1/2."""
        return self._model(design).missing_adds(2)[1:]

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        _squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviation of the estimate given the true count (one entry)."""
        (holders,) = truth
        return self._model(design).stderrs((population - holders, holders), population)[1:]
