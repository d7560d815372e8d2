"""How far a recipe's batch is filled, as coarsely as its analyst may know it, and when it is expected to reach B.

Until a batch is released, its analyst only has the looks of ``tacit.aggregator.yield_looks``: tenths of B with noise.
These looks, and the distribution of the times at which devices send (``tacit.recipe.asking``), determine the expected
number M of contributions in the interval. M has a flat prior from 0 to twice the recipe's expected contributions, above
which nothing is released (P15). A look taken when a share s of the senders was due has seen Bin(M, s) contributions
(approximated by a normal distribution) plus its noise. Intervals hold 95 % of the posterior, so they are wide while
little is known. The recipe's stated expectation is not evidence; it only sets the end of the prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from tacit.aggregator.batch_yield import STEPS, BatchYield, Look, read_batch_yield
from tacit.errors import REFUSAL_PREFIX, Abort
from tacit.operations.calls import get_bytes
from tacit.operations.results import WAITING_RULES, CollectorAccess, read_results
from tacit.operations.services import logged_recipe
from tacit.ports import Transport
from tacit.recipe.asking import asked_until, last_start, sent_share
from tacit.recipe.model import Recipe
from tacit.roles.batches import RATE_FACTOR

CONFIDENCE = 0.95
_POINTS = 400
"""The number of values of M that are evaluated."""
_NODES = ((-math.sqrt(3), 1 / 6), (0.0, 2 / 3), (math.sqrt(3), 1 / 6))
"""Nodes and weights for a normal distribution (Gauss-Hermite quadrature)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast for the whole interval. ``contributions``: the median of their number, with the bounds ``least`` and
    ``most`` (95 %); ``chance``: the probability that it is at least B; ``at``, ``earliest``, ``latest``: the POSIX
    seconds at which B is reached, None if it is not reached before the end."""

    contributions: int
    least: int
    most: int
    chance: float
    at: int | None
    earliest: int | None
    latest: int | None


@dataclass(frozen=True, slots=True)
class Yield:
    """A recipe's yield against B. ``contributions`` is ``exact`` once a batch was released. Before that it is a
    multiple of B/10 with noise (0 without a look), and the true number at POSIX second ``at`` is between ``least`` and
    ``most`` with 95 % probability.

    ``due``: the share of senders whose time has come; ``next_at``: when the next look is available; ``epsilon``: the
    most that all looks before the release reveal about whether one device's report was counted.
    """

    min_batch_size: int
    expected_contributions: int
    contributions: int
    exact: bool
    least: int
    most: int | None
    at: int | None
    due: float
    next_at: int | None
    epsilon: float
    looks: tuple[Look, ...]
    forecast: Forecast | None

    @property
    def reached(self) -> bool:
        """Whether B is reached, as far as the looks show."""
        return self.contributions >= self.min_batch_size

    def document(self) -> dict[str, Any]:
        """The yield and its looks as a JSON object."""
        return {**asdict(self), "looks": [asdict(one) for one in self.looks], "reached": self.reached}


async def read_yield(
    transport: Transport, at: CollectorAccess, recipe: Recipe, now: float, released: int | None = None
) -> Yield:
    """The yield of ``recipe`` as its operator's collector knows it. ``released``: the contributions of its released
    batch. Raises as ``tacit.operations.calls.call``."""
    if released is not None:
        return yield_of(recipe, None, now, released)
    try:
        body = await get_bytes(transport, f"{at.url}/v1/recipes/{recipe.hash_text}/yield", bearer=at.bearer)
    except Abort as problem:
        waits = problem.type.removeprefix(REFUSAL_PREFIX) in WAITING_RULES
        if problem.status != HTTPStatus.NOT_FOUND and not waits:
            raise
        return yield_of(recipe, None, now)
    return yield_of(recipe, read_batch_yield(body), now)


async def yield_at(transport: Transport, at: CollectorAccess, recipe_hash: str, now: float) -> tuple[Recipe, Yield]:
    """A logged recipe and its yield, which is that of its newest release if there is one. Raises as
    ``tacit.operations.calls.call``."""
    _, recipe = await logged_recipe(transport, at.recipe_server, recipe_hash)
    results = await read_results(transport, at, recipe_hash)
    count = int(results[-1]["report_count"]) if results else None
    return recipe, await read_yield(transport, at, recipe, now, count)


def yield_of(recipe: Recipe, batch_yield: BatchYield | None, now: float, released: int | None = None) -> Yield:
    """The yield, from the looks in ``batch_yield`` (None: no look yet), or from the exact number of ``released``
    contributions."""
    size, interval = recipe.batch.min_batch_size, recipe.interval
    looks = () if batch_yield is None or released is not None else batch_yield.looks
    shown = BatchYield(recipe.hash_text, size, looks, None if batch_yield is None else batch_yield.next_at)
    count, least, most = (released, released, released) if released is not None else _estimate_count(looks, size)
    return Yield(
        min_batch_size=size,
        expected_contributions=recipe.batch.expected_contributions,
        contributions=count,
        exact=released is not None,
        least=least,
        most=most,
        at=looks[-1].at if looks else None,
        due=sent_share(interval, now),
        next_at=None if released is not None else shown.next_at,
        epsilon=float(shown.epsilon),
        looks=looks,
        forecast=forecast(recipe, looks) if looks and released is None and now < interval.end else None,
    )


def _estimate_count(looks: Sequence[Look], size: int) -> tuple[int, int, int | None]:
    """The count of the newest look, and the lower and upper bounds, with ``CONFIDENCE``, on the true count at that time
    (None: no upper bound)."""
    if not looks:
        return 0, 0, None
    tenths = looks[-1].tenths
    spread = math.ceil(size / STEPS * math.log(1 / (1 - CONFIDENCE)))
    low, high = tenths * size // STEPS, (tenths + 1) * size // STEPS
    return low, max(0, low - spread) if tenths else 0, None if tenths == STEPS else high + spread


def forecast(recipe: Recipe, looks: Sequence[Look]) -> Forecast:
    """The forecast for the whole interval: from ``looks``, the share of senders that was due at each, and no preference
    among totals of up to ``RATE_FACTOR`` times the expected contributions."""
    size, most = recipe.batch.min_batch_size, RATE_FACTOR * recipe.batch.expected_contributions
    totals = [most * (point + 0.5) / _POINTS for point in range(_POINTS)]
    seen = [(one.tenths, sent_share(recipe.interval, one.at)) for one in looks]
    logs = [sum(_log_likelihood(tenths, total, share, size) for tenths, share in seen) for total in totals]
    top = max(logs)
    weights = [math.exp(one - top) for one in logs]
    whole = sum(weights)
    middle, least, total = (_quantile(totals, weights, q * whole) for q in (0.5, 0.025, 0.975))
    chance = sum(weight for one, weight in zip(totals, weights, strict=True) if one >= size) / whole
    return Forecast(
        contributions=round(middle),
        least=math.floor(least),
        most=math.ceil(total),
        chance=round(chance, 4),
        at=_reached_at(recipe, middle),
        earliest=_reached_at(recipe, total),
        latest=_reached_at(recipe, least),
    )


def _quantile(values: Sequence[float], weights: Sequence[float], wanted: float) -> float:
    """The first of ``values`` at which the cumulative weight reaches ``wanted``."""
    total = 0.0
    for value, weight in zip(values, weights, strict=True):
        total += weight
        if total >= wanted:
            return value
    return values[-1]


def _reached_at(recipe: Recipe, total: float) -> int | None:
    """The time at which the B-th of ``total`` contributions is expected; None: never."""
    size = recipe.batch.min_batch_size
    if total < size:
        return None
    first, last = asked_until(recipe.interval), last_start(recipe.interval)
    return math.ceil(first + (last - first) * size / total)


def _log_likelihood(tenths: int, total: float, share: float, size: int) -> float:
    """The log-likelihood of a look of ``tenths`` if ``total`` devices send, of which the share ``share`` was due."""
    scale, spread = size / STEPS, math.sqrt(total * share * (1 - share))
    found = sum(weight * _look_probability(tenths, total * share + node * spread, scale) for node, weight in _NODES)
    return math.log(max(found, 1e-300))


def _look_probability(tenths: int, count: float, scale: float) -> float:
    """The probability that a look at ``count`` gives ``tenths``, with the continuous form of the noise."""
    low = -math.inf if tenths == 0 else tenths * scale - count
    high = math.inf if tenths == STEPS else (tenths + 1) * scale - count
    return _laplace(high / scale) - _laplace(low / scale)


def _laplace(x: float) -> float:
    """The distribution function of the Laplace distribution with scale 1."""
    return 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x)
