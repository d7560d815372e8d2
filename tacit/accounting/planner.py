"""Before a recipe exists: what each model and randomizer would cost and how accurate it would be.

All alternatives spend the same (epsilon, delta) against one aggregator or the analyst, by replacement, over one
question of ``cells`` counts. The error is the standard deviation of one estimated count of the population when its
devices are spread evenly over the cells (a yes-or-no question: half of them say yes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tacit.dp import parameters
from tacit.dp.amplification import epsilon_fmt22
from tacit.dp.binomial_noise import NoiseShare, noise_share
from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.claim import MECHANISM_OF
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.rr_exact import rappor_flip, rr_flip
from tacit.dp.sampling import SPLIT, amplify_visible, q_eff
from tacit.errors import Refusal
from tacit.randomizers.design import SampleDesign
from tacit.randomizers.estimate import CellModel

RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
FILL = 0.8
"""B as a share of the contributions that are expected."""
MAX_EPSILON0 = 8.0
CENTRAL, AGGREGATION, SAMPLED, SHUFFLED, LOCAL = (
    "central, trusted server",
    "aggregation alone",
    "samplable aggregation",
    "shuffled",
    "local",
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted. ``cells`` is 1 for a yes-or-no question; ``max_epsilon0`` caps what one device's report tells."""

    population: int
    cells: int
    epsilon: float
    delta: float
    max_epsilon0: float = MAX_EPSILON0

    def __post_init__(self) -> None:
        parameters.reports(self.population, "population")
        parameters.reports(self.cells, "cells")
        parameters.failure_probability(self.delta)
        if not parameters.MIN_EPSILON0 <= parameters.finite("epsilon", self.epsilon) <= parameters.MAX_EPSILON0:
            raise ValueError(f"epsilon must be from {parameters.MIN_EPSILON0:g} to {parameters.MAX_EPSILON0:g}")
        parameters.local_epsilon(self.max_epsilon0)

    @property
    def holders(self) -> float:
        """Devices whose answer falls into one cell."""
        return self.population / max(2, self.cells)

    @property
    def moved(self) -> int:
        """Cells that change when one device's answer changes."""
        return 1 if self.cells == 1 else 2


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to ask. ``stderr`` in devices; ``contributions`` are expected; ``epsilon0`` is None without a local
    guarantee; ``available`` says whether it may be proposed: this platform runs it, with a local guarantee.
    """

    model: str
    randomizer: str
    rate: float
    batch_size: int
    contributions: int
    stderr: float
    epsilon0: float | None = None
    share: NoiseShare | None = None
    available: bool = False

    def relative(self, goal: Goal) -> float:
        """The error as a share of the population."""
        return self.stderr / goal.population


def alternatives(goal: Goal, stderr: float | None = None) -> list[Alternative]:
    """Every way at one sampling rate: the one with the fewest contributions that keeps the error within ``stderr``, or
    the most accurate one where none does or nothing is wanted. The most accurate way comes first; ways that cannot
    meet the goal are left out.
    """
    found = [_central(goal)]
    for ways in (_aggregation(goal), _sampled(goal, "flips"), *(_sampled(goal, name) for name in _randomizers(goal))):
        some = list(ways)
        enough = [way for way in some if stderr is not None and way.stderr <= stderr]
        if enough:
            found.append(min(enough, key=lambda one: (one.contributions, one.stderr)))
        elif some:
            found.append(min(some, key=lambda one: (one.stderr, one.contributions)))
    found += [_shuffled(goal), *_local(goal)]
    return sorted(found, key=lambda one: one.stderr)


def proposal(found: list[Alternative], stderr: float | None = None) -> Alternative:
    """Of what ``alternatives`` gave, the way that this platform runs: the one with the fewest contributions within
    ``stderr``, or the most accurate one. Raises ``Refusal`` ``accuracy-unreachable`` that says what can be reached.
    """
    ways = [way for way in found if way.available]
    if not ways:
        raise Refusal("population-too-small", "no batch of at least two contributions comes out of so few devices")
    if stderr is None:
        return ways[0]
    enough = [way for way in ways if way.stderr <= stderr]
    if not enough:
        least = ways[0].stderr
        raise Refusal("accuracy-unreachable", f"an error of {stderr:g} devices is wanted; {least:.4g} can be reached")
    return min(enough, key=lambda one: (one.contributions, one.stderr))


def _randomizers(goal: Goal) -> tuple[str, ...]:
    return ("rr",) if goal.cells == 1 else ("krr", "rappor")


def _cell(name: str, epsilon0: float, cells: int, rate: float) -> CellModel:
    if name == "krr":
        other = 1 / (math.exp(epsilon0) + cells - 1)
        return CellModel(math.exp(epsilon0) * other, other, SampleDesign(rate))
    flip = rr_flip(epsilon0) if name == "rr" else rappor_flip(epsilon0)
    return CellModel(1 - flip, flip, SampleDesign(rate))


def _central(goal: Goal) -> Alternative:
    sigma = sigma_gaussian(goal.epsilon, goal.delta, math.sqrt(goal.moved))
    return Alternative(CENTRAL, "Gaussian", 1.0, goal.population, goal.population, sigma)


def _aggregation(goal: Goal) -> Iterator[Alternative]:
    """Everyone contributes, with noise shares that half a batch of honest devices make large enough (P17)."""
    batch = int(FILL * goal.population)
    share = _share(goal.epsilon, goal, batch // 2)
    if share is not None:
        noise = share.standard_deviation(goal.population)
        yield Alternative(AGGREGATION, "flips", 1.0, batch, goal.population, noise, share=share)


def _sampled(goal: Goal, name: str) -> Iterator[Alternative]:
    """Samplable aggregation at every rate that fills a batch."""
    for rate in RATES:
        expected = int(rate * goal.population)
        batch = int(FILL * expected)
        if batch < 2:
            continue
        inner = _before_sampling(goal, rate, batch)
        if name == "flips":
            share = _share(inner, goal, batch // 2)
            if share is not None:
                spread = goal.holders * (1 - rate) / rate
                stderr = math.sqrt(spread + (share.standard_deviation(expected) / rate) ** 2)
                yield Alternative(SAMPLED, name, rate, batch, expected, stderr, share=share)
            continue
        target = min(inner, parameters.MAX_EPSILON0)
        epsilon0 = min(largest_epsilon0(MECHANISM_OF[name], batch, goal.delta, target), goal.max_epsilon0)
        (stderr,) = _cell(name, epsilon0, goal.cells, rate).stderrs([goal.holders], goal.population)
        yield Alternative(SAMPLED, name, rate, batch, expected, stderr, epsilon0, available=True)


def _before_sampling(goal: Goal, rate: float, batch: int) -> float:
    """The epsilon that a batch may cost so that sampling, where it may be claimed (P17b), brings it to the goal's."""
    if amplify_visible(goal.epsilon, rate, batch, goal.delta) is None:
        return goal.epsilon
    effective = q_eff(rate, batch, goal.delta / SPLIT)
    return math.log1p(math.expm1(goal.epsilon) / min(1.0, effective))


def _share(epsilon: float, goal: Goal, honest: int) -> NoiseShare | None:
    try:
        return noise_share(epsilon, goal.delta, max(1, honest), cells=goal.moved)
    except ValueError:
        return None


def _shuffled(goal: Goal) -> Alternative:
    """All devices through a shuffler, one server: no proofs, and no B that binds anybody."""
    name = _randomizers(goal)[0]
    low, high = goal.epsilon, goal.max_epsilon0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if epsilon_fmt22(middle, goal.population, goal.delta) <= goal.epsilon else (low, middle)
        )
    (stderr,) = _cell(name, low, goal.cells, 1.0).stderrs([goal.holders], goal.population)
    return Alternative(SHUFFLED, name, 1.0, goal.population, goal.population, stderr, low)


def _local(goal: Goal) -> Iterator[Alternative]:
    """Nobody is trusted with anything: the whole epsilon is the device's own."""
    for name in _randomizers(goal):
        (stderr,) = _cell(name, goal.epsilon, goal.cells, 1.0).stderrs([goal.holders], goal.population)
        yield Alternative(LOCAL, name, 1.0, goal.population, goal.population, stderr, goal.epsilon)
