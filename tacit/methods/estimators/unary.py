"""Estimates from unary encodings, given that an output with more than ``max_weight`` ones is not sent.

Sums of k bits, each one with probability f, are written B(k). With h the probability of a one in the own category's
cell, w = ``max_weight``, S the chance that an output is sent and an answer v, a sent one has a one

* in cell v with ``h Pr[B(k-1) <= w-1] / S``,
* in another cell with ``f (h Pr[B(k-2) <= w-2] + (1-h) Pr[B(k-2) <= w-1]) / S``,
* in cell v and another one with ``h f Pr[B(k-2) <= w-2] / S``,
* in two others with ``f^2 (h Pr[B(k-3) <= w-3] + (1-h) Pr[B(k-3) <= w-2]) / S``;

a dummy has a one in a cell with ``f Pr[B(k-1) <= w-1] / Pr[B(k) <= w]``, in two with ``f^2 Pr[B(k-2) <= w-2] / Pr[B(k)
<= w]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.estimators.cell_model import CellModel, check_counts
from tacit.methods.estimators.local import LocalEstimator
from tacit.methods.unary import UnaryEncoding, binomial


@dataclass(frozen=True)
class UnaryEstimator(LocalEstimator[UnaryEncoding]):
    """Counts per category from vectors of bits."""

    def _model(self, design: SampleDesign) -> CellModel:
        """The probabilities of the cells in the reports that are sent."""
        method = self.method
        (h, none), f, k, w = method.own_bit, method.noise, method.categories, method.max_weight
        sent, dummy_sent = 1 - method.reject_probability, _upto(k, f, w)
        one, two = _upto(k - 2, f, w - 2), _upto(k - 2, f, w - 1)
        others = f * f * (h * _upto(k - 3, f, w - 3) + none * _upto(k - 3, f, w - 2))
        return CellModel(
            hit=h * _upto(k - 1, f, w - 1) / sent,
            noise=f * (h * one + none * two) / sent,
            design=design,
            dummy=f * _upto(k - 1, f, w - 1) / dummy_sent,
            sent=sent,
            pairs=(h * f * one / sent, others / sent, f * f * one / dummy_sent),
        )

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts per category. ``design`` is the recipe's; rejection is accounted for here."""
        check_counts(counts, self.method.categories, n, design, self.method.categories)
        if sum(counts) > n * self.method.max_weight:
            raise ValueError("counts must not exceed n times max_weight in total")
        return self._model(design).estimate(counts, n)


def _upto(trials: int, p: float, limit: int) -> float:
    """Pr[Bin(trials, p) <= limit]; 0 for a limit below 0, and also for a negative number of trials."""
    return math.fsum(binomial(trials, p, k) for k in range(min(limit, trials) + 1))
