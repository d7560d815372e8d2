"""The ways to ask a question, each with the error and the cost that it would have.

Sampling errors assume devices that are spread evenly over the cells of a histogram (a yes-or-no question: half of them
say yes), half at either end of a number's range, and vectors of full length in no particular direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tacit.accounting.goal import SUMS, VECTOR, Alternative, Goal
from tacit.dp import parameters
from tacit.dp.amplification import epsilon_fmt22
from tacit.dp.binomial_noise import NoiseShare, noise_share
from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.claim import MECHANISM_OF, epsilon_shuffle
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.rr_exact import rappor_flip, rr_flip
from tacit.dp.sampling import SPLIT, amplify_visible, q_eff
from tacit.dp.vector_noise import vector_share
from tacit.methods.design import SampleDesign
from tacit.methods.estimate import CellModel
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram, Prio3MultihotCountVec, Prio3Sum, Prio3SumVec
from tacit.vdaf.registry import chunk_length_for

RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
FILL = 0.8
"""B as a share of the contributions that are expected."""
CENTRAL, AGGREGATION, SAMPLED, SHUFFLED, LOCAL = (
    "central, trusted server",
    "aggregation alone",
    "samplable aggregation",
    "shuffled",
    "local",
)
ONE_BIT = "one bit"
"""A value rounded at random to an end of its range, that bit randomised: the local way to sum numbers."""
_SHARES = 2
_WEIGHT = 4
"""A RAPPOR output's bound is taken as its mean weight and this many deviations; the builder finds the exact one."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What proving one measurement takes."""

    chunk_length: int
    upload_bytes: int


def central(goal: Goal) -> Alternative:
    """The optimum: everybody's answer in one trusted place, and Gaussian noise once."""
    noise = goal.of_total(sigma_gaussian(goal.epsilon, goal.delta, goal.step))
    return Alternative(CENTRAL, "Gaussian", 1.0, goal.population, goal.population, noise)


def aggregated(goal: Goal) -> Iterator[Alternative]:
    """Everyone contributes, with noise shares that half a batch of honest devices make large enough (P17)."""
    batch = int(FILL * goal.population)
    inner = min(goal.epsilon, goal.max_with_relay, _half(goal, 1.0, batch))
    share = _share(goal, inner, batch // 2)
    if share is not None:
        yield _with_shares(goal, AGGREGATION, 1.0, batch, share, inner)


def sampled(goal: Goal, name: str) -> Iterator[Alternative]:
    """Samplable aggregation at every rate that fills a batch; noise shares of everybody are aggregation alone."""
    for rate in RATES:
        batch = int(FILL * int(rate * goal.population))
        if batch < 2 or (name, rate) == ("flips", 1.0):
            continue
        inner = min(_before_sampling(goal.epsilon, rate, batch, goal.delta), goal.max_with_relay)
        if name != "flips":
            yield _sampled_locally(goal, name, rate, batch, inner)
            continue
        inner = min(inner, _half(goal, rate, batch))
        share = _share(goal, inner, batch // 2)
        if share is not None:
            yield _with_shares(goal, SAMPLED, rate, batch, share, inner)


def shuffled(goal: Goal) -> Iterator[Alternative]:
    """All devices through a shuffler, one server: no proofs, and no B that binds anybody. Not known for vectors."""
    if goal.statistic == VECTOR:
        return
    name = local_randomizers(goal)[0]
    low, high = goal.epsilon, goal.max_epsilon0
    for _ in range(40):
        middle = (low + high) / 2
        fits = epsilon_fmt22(middle, goal.population, goal.delta) <= goal.epsilon
        low, high = (middle, high) if fits else (low, middle)
    yield _everyone(goal, SHUFFLED, name, low)


def local(goal: Goal) -> Iterator[Alternative]:
    """Nobody is trusted with anything: the whole epsilon is the device's own. A vector is hidden by Gaussian noise,
    with the goal's delta."""
    if goal.statistic == VECTOR:
        noise = math.sqrt(goal.population) * sigma_gaussian(goal.epsilon, goal.delta, goal.step)
        yield Alternative(LOCAL, "Gaussian", 1.0, goal.population, goal.population, noise, goal.epsilon)
        return
    for name in local_randomizers(goal):
        yield _everyone(goal, LOCAL, name, goal.epsilon)


def local_randomizers(goal: Goal) -> tuple[str, ...]:
    """What a device could run to hide its own answer; only those of counts exist on the platform."""
    if goal.statistic in SUMS:
        return (ONE_BIT,)
    if goal.statistic == VECTOR:
        return ()
    return ("rr",) if goal.cells == 1 else ("krr", "rappor")


def _sampled_locally(goal: Goal, name: str, rate: float, batch: int, inner: float) -> Alternative:
    mechanism, found = MECHANISM_OF[name], [goal.max_epsilon0]
    for reports, most in ((batch, inner), (max(1, batch // 2), _half(goal, rate, batch))):
        found.append(largest_epsilon0(mechanism, reports, goal.delta, min(most, parameters.MAX_EPSILON0)))
    epsilon0 = min(found)
    inner = min(inner, epsilon_shuffle(mechanism, epsilon0, batch, goal.delta))
    stderr = _error(name, epsilon0, goal.cells, rate, goal.holders, goal.population)
    proof = _proof_of(goal, name, epsilon0)
    return Alternative(
        SAMPLED, name, rate, batch, int(rate * goal.population), stderr, epsilon0, inner=inner,
        chunk_length=proof.chunk_length, upload_bytes=proof.upload_bytes, available=batch >= goal.min_batch_size,
    )  # fmt: skip


def _with_shares(goal: Goal, model: str, rate: float, batch: int, share: NoiseShare, inner: float) -> Alternative:
    expected = int(rate * goal.population)
    noise = goal.unit * share.standard_deviation(expected) / rate
    stderr = goal.of_total(math.hypot(noise, math.sqrt(goal.squares * (1 - rate) / rate)))
    proof = _proof_of_shares(goal, share)
    allowed = goal.allow_unbounded_local and batch >= goal.min_batch_size
    return Alternative(
        model, "flips", rate, batch, expected, stderr, share=share, inner=inner,
        chunk_length=proof.chunk_length, upload_bytes=proof.upload_bytes, available=allowed,
    )  # fmt: skip


def _everyone(goal: Goal, model: str, name: str, epsilon0: float) -> Alternative:
    """Every device sends a report of its own."""
    cells = 1 if name == ONE_BIT else goal.cells
    span = 1.0 if goal.counts else float(goal.high - goal.low)
    holders = goal.population / max(2, cells)
    stderr = goal.of_total(span * _error(name, epsilon0, cells, 1.0, holders, goal.population))
    return Alternative(model, name, 1.0, goal.population, goal.population, stderr, epsilon0)


def _error(name: str, epsilon0: float, cells: int, rate: float, holders: float, population: int) -> float:
    """The standard error of a cell's estimate."""
    if name == "krr":
        noise = 1 / (math.exp(epsilon0) + cells - 1)
        hit = math.exp(epsilon0) * noise
    else:
        noise = rappor_flip(epsilon0) if name == "rappor" else rr_flip(epsilon0)
        hit = 1 - noise
    (stderr,) = CellModel(hit, noise, SampleDesign(rate)).stderrs([holders], population)
    return stderr


def _half(goal: Goal, rate: float, batch: int) -> float:
    """What half of a batch may cost before its sampling is counted (P17)."""
    cap = goal.max_epsilon_half or 2 * max(1.0, goal.epsilon)
    return min(_before_sampling(cap, rate, max(1, batch // 2), goal.delta), goal.max_half_with_relay)


def _before_sampling(epsilon: float, rate: float, batch: int, delta: float) -> float:
    """The epsilon that a batch may cost so that sampling, where it may be claimed (P17b), brings it to ``epsilon``."""
    if amplify_visible(epsilon, rate, batch, delta) is None:
        return epsilon
    effective = q_eff(rate, batch, delta / SPLIT)
    return math.log1p(math.expm1(epsilon) / min(1.0, effective))


def _share(goal: Goal, epsilon: float, honest: int) -> NoiseShare | None:
    try:
        if goal.statistic == VECTOR:
            return vector_share(epsilon, goal.delta, max(1, honest), goal.vector_step)
        return noise_share(epsilon, goal.delta, max(1, honest), step=goal.maximum, cells=goal.moved)
    except ValueError:
        return None


def _proof_of_shares(goal: Goal, share: NoiseShare) -> Proof:
    largest = share.largest(goal.maximum)
    if goal.cells == 1 and goal.statistic != VECTOR:
        return _sized(Prio3Sum(_SHARES, largest), 1)
    chunk = chunk_length_for(goal.cells * largest.bit_length())
    return _sized(Prio3SumVec(_SHARES, goal.cells, largest, chunk), chunk)


def _proof_of(goal: Goal, name: str, epsilon0: float) -> Proof:
    if name == "rr":
        return _sized(Prio3Count(_SHARES), 1)
    if name == "krr":
        chunk = chunk_length_for(goal.cells)
        return _sized(Prio3Histogram(_SHARES, goal.cells, chunk), chunk)
    flip = rappor_flip(epsilon0)
    weight = min(goal.cells, math.ceil(1 + goal.cells * flip + _WEIGHT * math.sqrt(goal.cells * flip)))
    chunk = chunk_length_for(goal.cells + weight.bit_length())
    return _sized(Prio3MultihotCountVec(_SHARES, goal.cells, weight, chunk), chunk)


def _sized(vdaf: Prio3Count | Prio3Sum | Prio3Histogram | Prio3SumVec | Prio3MultihotCountVec, chunk: int) -> Proof:
    numbers = vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS
    return Proof(chunk, numbers * vdaf.field.ENCODED_SIZE)
