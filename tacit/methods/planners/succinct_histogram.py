"""Planning the succinct histogram: its channels for the expected number of reports."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tacit.methods.base.statistics import Shape
from tacit.methods.planners.local import LocalPlanner
from tacit.methods.succinct_histogram.histogram import MOST_REPORTS, PaperHistogram


@dataclass(frozen=True)
class SuccinctHistogramPlanner(LocalPlanner[PaperHistogram]):
    """Single reports, whose epsilon0 is that of the target."""

    MOST_PLANNED = MOST_REPORTS

    def tuned(self, shape: Shape, epsilon: Decimal, _n: int, _delta: float) -> PaperHistogram:
        """The method with this epsilon0, for ``MOST_REPORTS`` reports."""
        return self.method(epsilon, shape.item_bits)

    def planned_for(self, made: PaperHistogram, reports: int) -> PaperHistogram:
        """The method with the channels of so many reports. ``ValueError`` says in numbers why it cannot find
        anything."""
        return made.expecting(reports)
