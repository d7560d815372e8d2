"""What is measured at one abscissa of one panel, and which result is expected.

The paper estimates a distribution p from samples, and its curves are ``sum_k Var`` of the estimate: sampling plus noise
of standard deviation sigma in each of K cells. So every run here also draws the devices' data anew from p, and compares
the estimate with p, not with the data drawn (this is what "no finite-population factor" means). Comparing with 1/M is
then right except for three small terms, which ``Experiment.expected`` includes and the curve does not:

* A device has one value. The count of a cell is ``Bin(N, r p_k)``, of variance ``N r p_k (1 - r p_k)``: over all cells
  of a uniform p the sampling part is ``(1 - q/K)/M`` instead of ``1/M`` (0.1 % at q = 0.1, K = 100). Dividing by the
  number of reports instead of q N would give ``(1 - 1/K)/M``.
* Flips and scale are integers. They are chosen so that the noise's standard deviation at the expected number of reports
  is within ``TOLERANCE`` of the curve's sigma; the achieved one is used. The number of reports varies, so the noise of
  one run does too; its variance is right on average.
* Sparse panels measure the distribution of the values that are not the default, as the paper's Section 3.1 does: K - 1
  cells, while the curve has noise in K cells (1 % at K = 100).

Data are uniform over the measured cells; the default value has the share 1 - gamma. Agg samples uniformly, with the
noise of ``sigma_agg``. SampAgg has the noise of ``sigma_samp``; in sparse panels devices with the default value take
part with the rate M/2N and all others with r = min(M / (2 gamma N), 1). This module makes no privacy claim: it takes
the curve's sigma as given, with binomial instead of Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Literal

from infra.lab.measure.curves import Point
from tacit.dp.binomial_noise import MAX_FLIPS, MAX_SCALE
from tacit.errors import UsageError
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import plain
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.methods.flips import Flips
from tacit.recipe.randomised import Importance, Sampling

TOLERANCE = 0.005
MOST_DEVICES = 200_000
"""Largest population that can be simulated, device by device."""
PANELS = (("Figure 5", None), ("Figure 6", 0.1))
"""Figures and their gamma; in each, the panel with ``CELLS`` cells and one task is measured."""
CELLS = 100
Model = Literal["Agg", "SampAgg"]
MODELS: tuple[Model, ...] = ("Agg", "SampAgg")


@dataclass(frozen=True)
class Experiment:
    """One model at one point of a curve."""

    panel: str
    model: Model
    point: Point

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in a cell of the sum, according to the curve."""
        return self.point.sigma_agg if self.model == "Agg" else self.point.sigma_samp

    @property
    def curve(self) -> float:
        """The curve's expected squared error."""
        return self.point.agg if self.model == "Agg" else self.point.sampagg

    @property
    def gamma(self) -> float:
        """The share of devices in the measured cells."""
        return 1.0 if self.point.gamma is None else self.point.gamma

    @property
    def first(self) -> int:
        """The first measured cell: 1 if category 0 is the default, else 0."""
        return 0 if self.point.gamma is None else 1

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The distribution of the devices' data."""
        measured = self.point.cells - self.first
        return (1 - self.gamma,) * self.first + (self.gamma / measured,) * measured

    @cached_property
    def sampling(self) -> Sampling:
        """Which devices take part, in the form of a recipe's member ``sampling``."""
        messages, population = Decimal(self.point.messages), Decimal(self.point.population)
        if self.first == 0 or self.model == "Agg":
            return Sampling(rate=_rate(messages / population))
        default = Importance(default=0, default_rate=_rate(messages / (2 * population)))
        other = messages / (2 * Decimal(repr(self.gamma)) * population)
        return Sampling(rate=_rate(min(other, Decimal(1))), importance=default)

    @property
    def rates(self) -> tuple[float, ...]:
        """The probability with which a device of each category takes part."""
        return tuple(float(self.sampling.rate_of(category)) for category in range(self.point.cells))

    @property
    def reports(self) -> float:
        """The expected number of devices that take part."""
        shares = zip(self.probabilities, self.rates, strict=True)
        return self.point.population * math.fsum(share * rate for share, rate in shares)

    @cached_property
    def shares(self) -> Flips:
        """The noise shares that the devices add."""
        return noise_shares(self.sigma, self.reports, self.point.cells)

    @property
    def sigma_achieved(self) -> float:
        """The standard deviation of the shares' sum in a cell, over the scale."""
        return FlipsEstimator(self.shares).sum_errors(self.reports, SampleDesign(1.0)).noise

    @property
    def expected(self) -> float:
        """The expected squared error, with the terms that the curve leaves out."""
        return self._measured_cells * self._cell_variance

    def deviation(self, runs: int) -> float:
        """Return the standard deviation of the mean of ``runs`` runs: cells are sums of very many independent terms, so
        their squared errors have the variance ``2 v^2 + kappa_4``; the number of reports scales the noise of all cells
        together."""
        count, drawn = self.point.population * self._cell_rate, self._drawn
        kurtosis = count * (1 - 7 * self._cell_rate) / drawn**4
        noise = self._measured_cells * (self.sigma_achieved / drawn) ** 2
        variance = self._measured_cells * (2 * self._cell_variance**2 + kurtosis) + noise**2 / self.reports
        return math.sqrt(variance / runs)

    @property
    def _measured_cells(self) -> int:
        return self.point.cells - self.first

    @property
    def _drawn(self) -> float:
        """The divisor of a sum: the rate of the measured cells times the population."""
        return float(self.sampling.rate) * self.point.population

    @property
    def _cell_rate(self) -> float:
        """The probability that a device takes part and has the value of a given measured cell."""
        return float(self.sampling.rate) * self.gamma / self._measured_cells

    @property
    def _cell_variance(self) -> float:
        count = self.point.population * self._cell_rate
        return (count * (1 - self._cell_rate) + self.sigma_achieved**2) / self._drawn**2


def noise_shares(sigma: float, reports: float, cells: int) -> Flips:
    """Find the fewest flips, and the scale, for which ``sqrt(reports flips) / (2 scale)`` is within ``TOLERANCE`` of
    ``sigma``. Raises ``ValueError`` if there are none."""
    for flips in range(1, MAX_FLIPS + 1):
        scale = round(math.sqrt(reports * flips) / (2 * sigma))
        if scale > MAX_SCALE:
            break
        if scale and abs(math.sqrt(reports * flips) / (2 * scale * sigma) - 1) <= TOLERANCE:
            return Flips("histogram", scale, flips, 1, cells)
    raise ValueError(f"no noise shares of {reports:g} devices have a standard deviation of {sigma:g}")


def require_feasible(population: int) -> None:
    """Raise ``UsageError`` for more devices than can be simulated."""
    if population > MOST_DEVICES:
        raise UsageError(
            f"--measure would run each of {population:,} devices, but can run {MOST_DEVICES:,} at most: "
            "pass --population 100000"
        )


def experiments(figure: str, points: Iterable[Point]) -> list[Experiment]:
    """Return the experiments with both models at the points of a figure's panel; empty if the panel is not measured."""
    return [
        Experiment(_panel(figure, point), model, point)
        for point in points
        if (figure, point.gamma) in PANELS and (point.cells, point.tasks) == (CELLS, 1)
        for model in MODELS
    ]


def _panel(figure: str, point: Point) -> str:
    kind = "dense" if point.gamma is None else f"sparse, γ = {point.gamma:g}"
    return f"{figure}: {kind}, K = {point.cells}, T = {point.tasks}"


def _rate(rate: Decimal) -> str:
    """Return a probability as recipes write it."""
    return plain(round(rate, 18))
