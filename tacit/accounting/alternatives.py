"""The alternative ways to ask a question, each with the error and the cost that it would have.

Sampling errors assume devices that are spread evenly over the cells of a histogram (a yes-or-no question: half of them
say yes), half at either end of a number's range, and vectors of full length in no particular direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

from tacit.accounting.requirements import Alternative, Requirements
from tacit.dp import parameters
from tacit.dp.amplification import epsilon_fmt22
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.sampling import SPLIT, amplify_visible, q_eff
from tacit.methods.design import SampleDesign
from tacit.methods.method import LocalMethod, Method
from tacit.methods.registry import methods_for
from tacit.methods.statistics import COUNT, Shape
from tacit.vdaf.registry import prio3_named

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


def central(needs: Requirements) -> Alternative:
    """The optimum: everybody's answer in one trusted place, and Gaussian noise once."""
    noise = needs.of_total(sigma_gaussian(needs.epsilon, needs.delta, needs.step))
    return Alternative(CENTRAL, "Gaussian", 1.0, needs.population, needs.population, noise)


def aggregated(needs: Requirements) -> Iterator[Alternative]:
    """Everyone contributes, with noise shares that half a batch of honest devices make large enough (P17)."""
    batch = int(FILL * needs.population)
    inner = min(needs.epsilon, needs.max_with_relay, _half(needs, 1.0, batch))
    for method in methods_for(needs.shape):
        if not method.IS_LOCAL:
            yield from _summed(needs, method, AGGREGATION, 1.0, batch, inner)


def sampled(needs: Requirements, method: type[Method]) -> Iterator[Alternative]:
    """Samplable aggregation at every rate that fills a batch; noise shares of everybody are aggregation alone."""
    for rate in RATES:
        batch = int(FILL * int(rate * needs.population))
        if batch < 2 or (rate == 1.0 and not method.IS_LOCAL):
            continue
        inner = min(_before_sampling(needs.epsilon, rate, batch, needs.delta), needs.max_with_relay)
        if issubclass(method, LocalMethod):
            yield _sampled_locally(needs, method, rate, batch, inner)
        else:
            yield from _summed(needs, method, SAMPLED, rate, batch, min(inner, _half(needs, rate, batch)))


def shuffled(needs: Requirements) -> Iterator[Alternative]:
    """All devices through a shuffler, one server: no proofs, and no B that binds anybody. Not known for vectors."""
    if needs.kind.is_vector:
        return
    low, high = needs.epsilon, needs.max_epsilon0
    for _ in range(40):
        middle = (low + high) / 2
        fits = epsilon_fmt22(middle, needs.population, needs.delta) <= needs.epsilon
        low, high = (middle, high) if fits else (low, middle)
    yield next(_everyone(needs, SHUFFLED, low))


def local(needs: Requirements) -> Iterator[Alternative]:
    """Nobody is trusted with anything: the whole epsilon is the device's own. A vector is hidden by Gaussian noise
    at ``needs.delta``."""
    if needs.kind.is_vector:
        noise = math.sqrt(needs.population) * sigma_gaussian(needs.epsilon, needs.delta, needs.step)
        yield Alternative(LOCAL, "Gaussian", 1.0, needs.population, needs.population, noise, needs.epsilon)
        return
    yield from _everyone(needs, LOCAL, needs.epsilon)


def _sampled_locally(
    needs: Requirements, method: type[LocalMethod], rate: float, batch: int, inner: float
) -> Alternative:
    epsilon0 = needs.max_epsilon0
    for reports, budget in ((batch, inner), (max(1, batch // 2), _half(needs, rate, batch))):
        epsilon0 = method.largest_epsilon0(reports, needs.delta, min(budget, parameters.MAX_EPSILON0), epsilon0)
    made = method.tuned(needs.shape, Decimal(repr(epsilon0)), batch, needs.delta)
    inner = min(inner, made.aggregate_epsilon(batch, needs.delta))
    return _run(needs, SAMPLED, made, rate, batch, inner)


def _summed(
    needs: Requirements, method: type[Method], model: str, rate: float, batch: int, inner: float
) -> Iterator[Alternative]:
    """Nothing where no noise of bounded size does."""
    try:
        made = method.tuned(needs.shape, Decimal(repr(inner)), max(1, batch // 2), needs.delta)
    except ValueError:
        return
    yield _run(needs, model, made, rate, batch, inner)


def _run(needs: Requirements, model: str, made: Method, rate: float, batch: int, inner: float) -> Alternative:
    """A way that the platform runs."""
    stderr = made.expected_stderrs([needs.truth], needs.population, SampleDesign(rate), needs.squares)[0]
    allowed = made.IS_LOCAL or needs.allow_unbounded_local
    return Alternative(
        model, made.NAME, rate, batch, int(rate * needs.population), stderr,
        made.local_epsilon if made.IS_LOCAL else None, method=made, inner=inner, chunk_length=made.proof.chunk_length,
        upload_bytes=_upload_bytes(made), available=allowed and batch >= needs.min_batch_size,
    )  # fmt: skip


def _everyone(needs: Requirements, model: str, epsilon0: float) -> Iterator[Alternative]:
    """Every device sends a report of its own."""
    bit, span = Shape(COUNT, 1), 1.0 if needs.counts else float(needs.high - needs.low)
    shape = needs.shape if needs.counts else bit
    holders = needs.holders if needs.counts else needs.population / 2
    for method in methods_for(shape):
        if method.IS_LOCAL:
            made = method.tuned(shape, Decimal(repr(epsilon0)), needs.population, needs.delta)
            stderr = needs.of_total(span * made.expected_stderrs([holders], needs.population, SampleDesign(1.0))[0])
            name = made.NAME if needs.counts else ONE_BIT
            yield Alternative(model, name, 1.0, needs.population, needs.population, stderr, epsilon0)


def _half(needs: Requirements, rate: float, batch: int) -> float:
    """What half of a batch may cost before its sampling is counted (P17)."""
    cap = needs.max_epsilon_half or 2 * max(1.0, needs.epsilon)
    return min(_before_sampling(cap, rate, max(1, batch // 2), needs.delta), needs.max_half_with_relay)


def _before_sampling(epsilon: float, rate: float, batch: int, delta: float) -> float:
    """The epsilon that a batch may cost so that sampling, where it may be claimed (P17b), brings it to ``epsilon``."""
    if amplify_visible(epsilon, rate, batch, delta) is None:
        return epsilon
    effective = q_eff(rate, batch, delta / SPLIT)
    return math.log1p(math.expm1(epsilon) / min(1.0, effective))


def _upload_bytes(made: Method) -> int:
    """The leader's share of one contribution."""
    proof = made.proof
    vdaf = prio3_named(proof.name, proof.length, proof.chunk_length, **proof.bounds)
    return (vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS) * vdaf.field.ENCODED_SIZE
