"""Estimates of the succinct histogram's frequency oracle, from the reports that devices accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.estimators.cell_model import CellModel
from tacit.methods.estimators.local import LocalEstimator
from tacit.methods.succinct_histogram.histogram import PaperHistogram


@dataclass(frozen=True)
class SuccinctHistogramEstimator(LocalEstimator[PaperHistogram]):
    """Counts of items from signs that agree with them."""

    def _model(self, design: SampleDesign) -> CellModel:
        """Signs that agree, among the reports that are accepted: a part of the rate."""
        rate = SampleDesign(design.rate * self.method.one_bit.accepted)
        return CellModel(float(self.method.output_probabilities()[0]), 0.5, rate, dummy=0.5)

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """Nothing, whatever the design: a report without an item agrees with all items alike."""
        return (0.0,)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts of items, from the numbers of the n accepted reports whose signs agree with each.
        ``ValueError`` for numbers outside 0 to n."""
        if n < 1 or any(not 0 <= count <= n for count in counts):
            raise ValueError("agreeing signs must lie between 0 and the number of accepted reports")
        found = self._model(design).estimate(counts, n)
        return Estimate(found.values, self._projected(found.stderrs, self.total(n, design)))

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        _squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviation per item given the true counts."""
        return self._projected(self._model(design).stderrs(truth, population), population)

    def total(self, accepted: int, design: SampleDesign) -> float:
        """The expected number of devices, of which so many reports were accepted."""
        return accepted / (design.rate * self.method.one_bit.accepted)

    def _projected(self, stderrs: Sequence[float], devices: float) -> tuple[float, ...]:
        """Standard errors with that of the oracle's random projection."""
        return tuple(math.hypot(one, devices / math.sqrt(self.method.histogram.oracle.rows)) for one in stderrs)
