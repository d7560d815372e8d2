"""The alternative ways to ask a question, each with the error and the cost that it would have.

Sampling errors assume devices that are spread evenly over the cells of a histogram (a yes-or-no question: half of them
say yes), half at either end of a number's range, and vectors of full length in no particular direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from tacit.accounting.requirements import NOBODY, ONE_SERVER, SHUFFLER, Alternative, Requirements
from tacit.dp import parameters
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.sampling import SPLIT, amplify_visible, q_eff
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import LocalMethod, Method
from tacit.methods.base.proof import Proof
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.packing import packing_of
from tacit.methods.planners.local import local_planner_of
from tacit.methods.planners.registry import planner_of
from tacit.methods.registry import methods_for
from tacit.models.local.form import Local
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.vdaf.registry import prio3_named

RATES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
FILL = 0.8
"""Batch size B as a share of the expected number of contributions."""
CENTRAL, AGGREGATION, SAMPLED, SHUFFLED, LOCAL = (
    "central, trusted server",
    "aggregation alone",
    "samplable aggregation",
    "shuffled",
    "local",
)


def central(needs: Requirements) -> Alternative:
    """The optimum: all answers in one trusted place, with Gaussian noise added once."""
    noise = needs.of_total(sigma_gaussian(needs.epsilon, needs.delta, needs.step))
    return Alternative(CENTRAL, "Gaussian", 1.0, needs.population, needs.population, noise, trust=ONE_SERVER)


def ways_to_aggregate(needs: Requirements) -> Iterator[Alternative]:
    """Everyone contributes, with noise shares large enough even if only half of a batch is honest (P17)."""
    batch = int(FILL * needs.population)
    inner = min(needs.epsilon, needs.max_with_relay, half_cap(needs, 1.0, batch))
    for method in methods_for(needs.shape):
        if method.IS_PROVED and not method.IS_LOCAL:
            yield from _ways_to_sum(needs, method, AGGREGATION, 1.0, batch, inner)


def ways_to_sample(needs: Requirements, method: type[Method]) -> Iterator[Alternative]:
    """Samplable aggregation at every rate that fills a batch. Noise shares need every device, so they have no sampled
    variant."""
    for rate in RATES:
        batch = int(FILL * int(rate * needs.population))
        if batch < 2 or not method.IS_PROVED or (rate == 1.0 and not method.IS_LOCAL):
            continue
        inner = min(_before_sampling(needs.epsilon, rate, batch, needs.delta), needs.max_with_relay)
        if issubclass(method, LocalMethod):
            yield _sampled_locally(needs, method, rate, batch, inner)
        else:
            yield from _ways_to_sum(needs, method, SAMPLED, rate, batch, min(inner, half_cap(needs, rate, batch)))


def local(needs: Requirements) -> Iterator[Alternative]:
    """Nobody is trusted: each device spends the whole epsilon on its own report. A vector is hidden by Gaussian noise
    at ``needs.delta``."""
    if needs.kind.is_vector:
        noise = math.sqrt(needs.population) * sigma_gaussian(needs.epsilon, needs.delta, needs.step)
        yield Alternative(
            LOCAL, "Gaussian", 1.0, needs.population, needs.population, noise, needs.epsilon, trust=NOBODY
        )
        return
    yield from everyone(needs, LOCAL, min(needs.epsilon, needs.max_epsilon0))


def _sampled_locally(
    needs: Requirements, method: type[LocalMethod], rate: float, batch: int, inner: float
) -> Alternative:
    planner, epsilon0 = local_planner_of(method), needs.max_epsilon0
    for reports, budget in ((batch, inner), (max(1, batch // 2), half_cap(needs, rate, batch))):
        epsilon0 = planner.largest_epsilon0(reports, needs.delta, min(budget, parameters.MAX_EPSILON0), epsilon0)
    made = planner.tuned(needs.shape, Decimal(repr(epsilon0)), batch, needs.delta)
    inner = min(inner, made.aggregate_epsilon(batch, needs.delta))
    return _run(needs, SAMPLED, made, rate, batch, inner)


def _ways_to_sum(
    needs: Requirements, method: type[Method], model: str, rate: float, batch: int, inner: float
) -> Iterator[Alternative]:
    """Alternatives that hide a device in the sum; yields nothing where no noise share of bounded size is enough."""
    try:
        made = planner_of(method).tuned(needs.shape, Decimal(repr(inner)), max(1, batch // 2), needs.delta)
    except ValueError:
        return
    yield _run(needs, model, made, rate, batch, inner)


def stated_way(needs: Requirements, made: Method, design: SampleDesign, batch: int, contributions: int) -> Alternative:
    """The way that a recipe states: ``made`` for ``needs.epsilon`` against an aggregator with the relay, at the rate
    and with the least batch that the analyst chose."""
    model = AGGREGATION if design.rate == 1.0 and not made.IS_LOCAL else SAMPLED
    found = _run(needs, model, made, design.rate, batch, needs.epsilon, design)
    within = made.aggregate_epsilon(max(1, batch // 2), needs.delta) <= half_cap(needs, design.rate, batch)
    within = within and needs.epsilon <= needs.max_with_relay
    within = within and (not made.IS_LOCAL or made.local_epsilon <= needs.max_epsilon0)
    return replace(
        found,
        contributions=contributions,
        allowed=found.allowed and within,
        available=found.available and within,
        unguarded=found.unguarded and within,
    )


def _run(
    needs: Requirements,
    model: str,
    made: Method,
    rate: float,
    batch: int,
    inner: float,
    design: SampleDesign | None = None,
) -> Alternative:
    """An alternative that the platform can run."""
    design = SampleDesign(rate) if design is None else design
    stderr = estimator_of(made).expected_stderrs([needs.truth], needs.population, design, needs.squares)[0]
    proof = made.proof
    guarded = made.IS_LOCAL or needs.allow_unbounded_local
    fitting = proof is not None and batch >= needs.min_batch_size
    allowed = fitting and guarded
    return Alternative(
        model, made.NAME, rate, batch, int(rate * needs.population), stderr,
        made.local_epsilon if made.IS_LOCAL else None, method=made, inner=inner,
        chunk_length=None if proof is None else proof.chunk_length,
        upload_bytes=None if proof is None else _upload_bytes(proof),
        available=allowed and needs.model == SecureAggregation.name, form=SecureAggregation.name, allowed=allowed,
        unguarded=fitting and not guarded,
    )  # fmt: skip


def everyone(needs: Requirements, model: str, epsilon0: float) -> Iterator[Alternative]:
    """Alternatives in which every device sends its own report with local epsilon ``epsilon0``."""
    for method in methods_for(needs.shape):
        if method.IS_LOCAL:
            made = planner_of(method).tuned(needs.shape, Decimal(repr(epsilon0)), needs.population, needs.delta)
            (stderr,) = estimator_of(made).expected_stderrs([needs.truth], needs.population, SampleDesign(1.0))
            found = Alternative(
                model, made.NAME, 1.0, needs.population, needs.population, stderr, epsilon0, trust=SHUFFLER
            )
            yield found if model == SHUFFLED else _by_itself(needs, found, made)


def _by_itself(needs: Requirements, found: Alternative, made: Method) -> Alternative:
    """The local way ``found``, which devices run by ``made``."""
    batch = int(FILL * needs.population)
    allowed = batch >= needs.min_batch_size
    return replace(
        found, batch_size=batch, method=made, upload_bytes=packing_of(made).size, trust=NOBODY, form=Local.name,
        allowed=allowed, available=allowed and needs.model == Local.name,
    )  # fmt: skip


def half_cap(needs: Requirements, rate: float, batch: int) -> float:
    """The most that half of a batch may cost before sampling is counted (P17)."""
    cap = needs.max_epsilon_half or 2 * max(1.0, needs.epsilon)
    return min(_before_sampling(cap, rate, max(1, batch // 2), needs.delta), needs.max_half_with_relay)


def _before_sampling(epsilon: float, rate: float, batch: int, delta: float) -> float:
    """The epsilon that a batch may cost before sampling, so that sampling, where it may be claimed (P17b), lowers it to
    ``epsilon``."""
    if amplify_visible(epsilon, rate, batch, delta) is None:
        return epsilon
    effective = q_eff(rate, batch, delta / SPLIT)
    return math.log1p(math.expm1(epsilon) / min(1.0, effective))


def _upload_bytes(proof: Proof) -> int:
    """Size in bytes of the leader's share of one contribution."""
    vdaf = prio3_named(proof.name, proof.length, proof.chunk_length, **proof.bounds)
    return (vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS) * vdaf.field.ENCODED_SIZE
