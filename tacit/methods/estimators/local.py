"""Estimates from local randomizers whose reports are cells of zeros and ones (``cell_model``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import LocalMethod
from tacit.methods.estimators.base import Estimator, Influence
from tacit.methods.estimators.cell_model import CellModel

LocalT_co = TypeVar("LocalT_co", bound=LocalMethod, covariant=True)


@dataclass(frozen=True)
class LocalEstimator(Estimator[LocalT_co]):
    """What follows from the probabilities of the cells."""

    @abstractmethod
    def _model(self, design: SampleDesign) -> CellModel:
        """The probabilities of the cells in the reports that are sent."""

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """What a device without an answer adds in expectation, computed from the cells' probabilities."""
        return self._model(design).missing_adds(self.method.cells)

    @property
    def influence(self) -> Influence | None:
        """A one counts as ``1 / (h - n)`` devices, in as many cells as the proof lets be one."""
        proof = self.method.proof
        if proof is None:
            return None
        model = self._model(SampleDesign(1.0))
        each = max(1 - model.noise, model.hit) / (model.sent * (model.hit - model.noise))
        return Influence(proof.max_weight or 1, each)

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        _squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviation per category given the true counts."""
        return self._model(design).stderrs(truth, population)
