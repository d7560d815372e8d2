"""Estimates from local hashing: counts of items from the numbers of reports that support them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tacit.methods.base.affine import AffineHashing, share_of_last
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.estimators.cell_model import CellModel
from tacit.methods.estimators.local import LocalEstimator


@dataclass(frozen=True)
class AffineEstimator(LocalEstimator[AffineHashing]):
    """Counts of items at the last level of the tree."""

    @property
    def gain(self) -> float:
        """``p - 1/g``: how much more often an item is supported by a report about it than by another one."""
        return float(self.method.output_probabilities()[0] - Fraction(1, self.method.values))

    @property
    def variance(self) -> float:
        """The variance of a rare item's estimated share, times the number of reports of a level."""
        share = 1 / self.method.values
        return share * (1 - share) / self.gain**2

    def _model(self, design: SampleDesign) -> CellModel:
        """The supports of items at the last level: a device reports at that level with its share of the rate."""
        return self._of_rate(design.rate * share_of_last(len(self.method.levels)))

    def _of_rate(self, rate: float) -> CellModel:
        hit, share = float(self.method.output_probabilities()[0]), 1 / self.method.values
        return CellModel(hit, share, SampleDesign(rate), dummy=share)

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """Nothing, whatever the design: a dummy supports all items alike."""
        return (0.0,)

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts of items, from the numbers of the last level's n reports that support each.
        ``ValueError`` for numbers outside 0 to n."""
        _check_supports(counts, n)
        return self._model(design).estimate(counts, n)

    def estimate_of_all(self, count: int, n: int, design: SampleDesign) -> tuple[float, float]:
        """The population count of one item and its standard error, from how many of the n reports of *all* levels
        support its prefixes, if no other item that a device may have begins with any of them. ``ValueError`` for a
        number outside 0 to n."""
        _check_supports((count,), n)
        found = self._of_rate(design.rate).estimate((count,), n)
        return found.values[0], found.stderrs[0]


def _check_supports(counts: Sequence[int], n: int) -> None:
    if n < 1 or any(not 0 <= count <= n for count in counts):
        raise ValueError("supports must lie between 0 and the number of reports")
