"""Estimates from k-ary randomised response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.estimators.cell_model import CellModel, check_counts
from tacit.methods.estimators.local import LocalEstimator
from tacit.methods.krr import Krr


@dataclass(frozen=True)
class KrrEstimator(LocalEstimator[Krr]):
    """Counts per category from one-hot reports."""

    def _model(self, design: SampleDesign) -> CellModel:
        hit, noise = self.method.output_probabilities()
        return CellModel(float(hit), float(noise), design, dummy=1 / self.method.categories)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts per category; ``ValueError`` when counts are not those of n one-hot reports."""
        check_counts(counts, self.method.categories, n, design, self.method.categories)
        if sum(counts) != n:
            raise ValueError("counts must add up to n")
        return self._model(design).estimate(counts, n)
