"""Expected squared error at a total budget: aggregation alone against samplable aggregation (SA2 paper, section 3.1).

``T`` histogram tasks over ``N`` devices with at most ``M`` messages each, all within one (epsilon, delta), add/remove.
Noise has standard deviation sigma per cell of the sum, K cells are noisy, and no finite-population factor is applied.

* dense: NonPriv ``1/M``; Agg ``1/M + K sA^2/M^2`` with ``sA = s1 sqrt(ceil(T M/N))``; SampAgg ``1/M + K sS^2/M^2`` with
  sS such that T Poisson-subsampled Gaussians at rate M/N cost (epsilon, delta).
* sparse, a fraction g of values is not the default: ``r = min(M/(2 g N), 1)``; NonPrivUnif ``g/M``; NonPrivImpSamp
  ``g/(r N)``; Agg ``g/M + K sA^2/M^2``; SampAgg ``g/(r N) + K sS(r)^2/(r N)^2``.

The sparse SampAgg needs the number of messages hidden or accounted for: importance sampling makes it depend on the
data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.accounting.sigma import sigma_for
from tacit.dp.gaussian import sigma_gaussian

TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Budget:
    """The privacy budget of all tasks together."""

    epsilon: float = 1.0
    delta: float = 1e-6


@dataclass(frozen=True, slots=True)
class Point:
    """One point of one panel. ``rate`` is q for the dense and r for the sparse task; ``nonpriv_imp`` is set for the
    sparse task only."""

    kind: str
    population: int
    cells: int
    gamma: float | None
    tasks: int
    messages: int
    rate: float
    sigma_agg: float
    sigma_samp: float
    nonpriv_unif: float
    nonpriv_imp: float | None
    agg: float
    sampagg: float

    @property
    def gain(self) -> float:
        """Factor by which the error of aggregation alone is larger."""
        return self.agg / self.sampagg


def sigma_aggregation(budget: Budget, population: int, tasks: int, messages: int) -> float:
    """Sigma where it is known who takes part in each task: a device takes part in ``ceil(T M / N)`` of them."""
    return sigma_gaussian(budget.epsilon, budget.delta) * math.sqrt(math.ceil(tasks * messages / population))


def dense(budget: Budget, population: int, cells: int, tasks: int, messages: int) -> Point:
    """A histogram whose values are spread over all cells. Raises ``ValueError`` for more messages than devices."""
    _check(population, cells, tasks, messages)
    rate = messages / population
    agg = sigma_aggregation(budget, population, tasks, messages)
    samp = sigma_for(budget.epsilon, budget.delta, rate, tasks, TOLERANCE)
    base = 1 / messages
    return Point(
        "dense", population, cells, None, tasks, messages, rate, agg, samp, base, None,
        base + cells * agg**2 / messages**2, base + cells * samp**2 / messages**2,
    )  # fmt: skip


def sparse(budget: Budget, population: int, cells: int, gamma: float, tasks: int, messages: int) -> Point:
    """A histogram in which only a fraction ``gamma`` of the devices holds anything but the default value."""
    _check(population, cells, tasks, messages)
    if not 0 < gamma <= 1:
        raise ValueError("gamma must be above 0 and at most 1")
    rate = min(messages / (2 * gamma * population), 1.0)
    agg = sigma_aggregation(budget, population, tasks, messages)
    samp = sigma_for(budget.epsilon, budget.delta, rate, tasks, TOLERANCE)
    drawn = rate * population
    return Point(
        "sparse", population, cells, gamma, tasks, messages, rate, agg, samp, gamma / messages, gamma / drawn,
        gamma / messages + cells * agg**2 / messages**2, gamma / drawn + cells * samp**2 / drawn**2,
    )  # fmt: skip


def _check(population: int, cells: int, tasks: int, messages: int) -> None:
    if min(population, cells, tasks, messages) < 1:
        raise ValueError("population, cells, tasks and messages must be at least 1")
    if messages > population:
        raise ValueError("there cannot be more messages than devices")
