"""Estimates from shuffled counts, and what they release as 0.

Small totals are cut to exactly 0: those of ``zsum`` of at most n reports, which a cell that nobody has never exceeds,
and those of ``flipped`` that noise alone may well reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.dp.binomial import binomial_window, rarely_reached
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.estimators.base import Estimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.shuffled import ShuffledCounts

FALSE_POSITIVE_RATE = 0.05
_WINDOW_TAIL = 1e-18
_ONE_SIDE, _Z = 0.025, 1.959964
"""How often an interval of 95 % lies above, or below, the truth; how many standard errors it reaches."""


@dataclass(frozen=True)
class ShuffledEstimator(Estimator[ShuffledCounts]):
    """Totals less their expected noise, none of which is cut."""

    def cut_at(self, n: int) -> int | None:
        """The largest total of n reports that is released as 0; None where every total is released."""
        del n
        return None

    def false_positive_rate(self, n: int) -> float | None:
        """The probability, over all cells together, that from n reports of honest devices a cell that nobody has is not
        released as 0; None where no cell is."""
        return None if self.cut_at(n) is None else 0.0

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """Nothing: a device without an answer adds noise alone, whose expectation is subtracted."""
        _check_design(design)
        return (0.0,) * self.method.cells

    def zeros_below(self, n: int, rate: float, chance: float) -> float | None:
        """A number of devices: a cell of as many is released as 0 with probability ``chance`` at most, from n reports
        of devices that take part with ``rate``. None where nothing is cut.

        A cell of x reports is cut if the noise, ``Bin(n, noise_mean)``, is at most ``cut_at(n) - x``. Of N devices with
        the answer, at most b take part with probability ``exp(-(N rate - b)^2 / (2 N rate))`` at most (Chernoff), where
        N rate > b.
        """
        cut = self.cut_at(n)
        if cut is None:
            return None
        part = chance if rate == 1 else chance / 2
        start, mass = binomial_window(n, self.method.noise_mean, _WINDOW_TAIL)
        below, least_noise = _WINDOW_TAIL, start
        while below + mass[least_noise - start] <= part:
            below, least_noise = below + mass[least_noise - start], least_noise + 1
        least, log = max(0.0, float(cut - least_noise + 1)), math.log(1 / part)
        return least if rate == 1 else (least + log + math.sqrt(log * log + 2 * least * log)) / rate

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts per cell from the totals of n reports, with errors of noise and sampling. That of a total
        that is cut is such that an interval of 95 % reaches all counts that are cut more than rarely. ``ValueError``
        for totals that n reports cannot have, or an uneven design."""
        _check_design(design)
        if isinstance(n, bool) or n < 1:
            raise ValueError("n must be at least 1")
        most = n * self.method.messages
        if len(counts) != self.method.cells or any(count < 0 for count in counts) or sum(counts) > most:
            raise ValueError(f"counts must hold {self.method.cells} totals of at most {most} together")
        noise, cut, rate = n * self.method.noise_mean, self.cut_at(n), design.rate
        found = tuple(0.0 if cut is not None and count <= cut else (count - noise) / rate for count in counts)
        below = self.zeros_below(n, rate, _ONE_SIDE)
        of_zero = self._stderr(0.0, n, rate) if below is None else below / _Z
        errors = tuple(self._stderr(max(0.0, one) * rate, n, rate) if one else of_zero for one in found)
        return Estimate(found, errors)

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        _squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviations of the estimates before any is cut to 0."""
        _check_design(design)
        reports = population * design.rate
        return tuple(self._stderr(one * design.rate, reports, design.rate) for one in truth)

    def expected_error(self, holders: float, population: int, design: SampleDesign) -> float:
        """The root of the mean squared error of a cell's estimate, cells that are cut to 0 included, where
        ``holders`` of the population have its answer."""
        (stderr,) = self.expected_stderrs([holders], population, design)
        reports = round(population * design.rate)
        most = self.cut_at(reports)
        if most is None:
            return stderr
        low, masses = binomial_window(reports, self.method.noise_mean, _WINDOW_TAIL)
        cut = min(1.0, math.fsum(masses[: max(0, math.floor(most - holders * design.rate) - low + 1)]))
        return math.sqrt(cut * holders * holders + (1 - cut) * stderr * stderr)

    def _stderr(self, holders: float, reports: float, rate: float) -> float:
        """``holders``: reports whose answer is the cell's."""
        noise = reports * self.method.noise_mean * (1 - self.method.noise_mean)
        return math.sqrt(noise + (1 - rate) * holders) / rate


@dataclass(frozen=True)
class ZsumEstimator(ShuffledEstimator):
    """Totals of at most n count as 0: a cell that nobody has never has more."""

    def cut_at(self, n: int) -> int:
        """n: a cell that nobody has never has more."""
        return n


@dataclass(frozen=True)
class FlippedEstimator(ShuffledEstimator):
    """Totals that noise alone could have count as 0."""

    def cut_at(self, n: int) -> int:
        """The largest total that noise alone may well have in one of the cells."""
        return rarely_reached(n, self.method.noise_mean, FALSE_POSITIVE_RATE / self.method.cells) - 1

    def false_positive_rate(self, n: int) -> float:
        """``FALSE_POSITIVE_RATE``, over all cells together and for every n: ``cut_at`` is chosen for it."""
        del n
        return FALSE_POSITIVE_RATE


def shuffled_estimator_of(method: ShuffledCounts) -> ShuffledEstimator:
    estimator = estimator_of(method)
    if not isinstance(estimator, ShuffledEstimator):
        raise TypeError(f"the estimator of {method.NAME} is none of shuffled counts")
    return estimator


def _check_design(design: SampleDesign) -> None:
    if not design.is_uniform or design.dummy_probability:
        raise ValueError("shuffled counts need one rate for everybody and no dummies")
