"""The computation of claims as it stood before models, to compare the new one with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.dp import parameters
from tacit.dp.claim import MECHANISM_OF, RELATION, SAMPLING_SUFFIX, SHUFFLE_FMT22, NoiseStep, epsilon_shuffle
from tacit.dp.hidden_claim import Reports, Sample, crowd_epsilon, mechanism_name
from tacit.dp.sampling import amplify_visible


@dataclass(frozen=True, slots=True)
class FormerClaim:
    """epsilon per adversary at failure probability ``delta``, by replacement, for batches of n reports; infinite where
    nothing is guaranteed."""

    aggregator: float
    aggregator_with_relay: float
    both_aggregators: float
    both_aggregators_with_relay: float
    mechanism: str
    relation: str
    n: int
    epsilon0: float
    delta: float


def compute_claim(
    *,
    randomizer: str,
    epsilon0: float,
    n: int,
    sampling_rate: float,
    delta: float,
    reject_probability: float = 0.0,
) -> FormerClaim:
    """The claim of a recipe whose batches hold n reports.

    ``randomizer`` is ``krr``, ``rr`` or ``rappor``. The sampling factor is claimed when it fits into
    ``delta`` (see ``tacit.dp.sampling``), and then the mechanism's name ends in ``+sampling``. ``ValueError`` names a
    parameter that is out of range.
    """
    if randomizer not in MECHANISM_OF:
        raise ValueError(f"randomizer {randomizer!r} is not known")
    parameters.local_epsilon(epsilon0)
    parameters.reports(n)
    parameters.rate(sampling_rate)
    parameters.failure_probability(delta)
    mechanism = MECHANISM_OF[randomizer]
    one = epsilon_shuffle(mechanism, epsilon0, n, delta, reject_probability=reject_probability)
    both = epsilon_shuffle(SHUFFLE_FMT22, epsilon0, n, delta)
    one_sampled = amplify_visible(one, sampling_rate, n, delta)
    both_sampled = amplify_visible(both, sampling_rate, n, delta)
    return FormerClaim(
        aggregator=one if one_sampled is None else one_sampled,
        aggregator_with_relay=one,
        both_aggregators=both if both_sampled is None else both_sampled,
        both_aggregators_with_relay=float(epsilon0),
        mechanism=mechanism if one_sampled is None else mechanism + SAMPLING_SUFFIX,
        relation=RELATION,
        n=n,
        epsilon0=float(epsilon0),
        delta=float(delta),
    )


def compute_noise_claim(step: NoiseStep, *, n: int, sampling_rate: float, delta: float) -> FormerClaim:
    """The claim of a recipe whose n devices add noise shares; whoever drops out or colludes is not among the n.

    ``ValueError`` names a parameter that is out of range, or says that the noise gives no finite epsilon.
    """
    parameters.reports(n)
    parameters.rate(sampling_rate)
    parameters.failure_probability(delta)
    one = step.epsilon(n, delta)
    if one > parameters.MAX_EPSILON0:
        raise ValueError(f"the noise of {n} devices gives no epsilon up to {parameters.MAX_EPSILON0:g}")
    sampled = amplify_visible(one, sampling_rate, n, delta)
    return FormerClaim(
        aggregator=one if sampled is None else sampled,
        aggregator_with_relay=one,
        both_aggregators=math.inf,
        both_aggregators_with_relay=math.inf,
        mechanism=step.mechanism if sampled is None else step.mechanism + SAMPLING_SUFFIX,
        relation=RELATION,
        n=n,
        epsilon0=math.inf,
        delta=float(delta),
    )


def compute_hidden_claim(reports: Reports, sample: Sample, *, n: int, delta: float) -> FormerClaim:
    """The claim for batches of n messages, dummies among them; ``n`` below ``sample.batch`` says that the rest is not
    honest. ``ValueError`` names a bad parameter, or says that the noise gives no finite epsilon."""
    parameters.reports(n)
    parameters.failure_probability(delta)
    part = sample.turnout(reports).part_epsilon()
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    one = reports.one(left, kept) + part
    if one > parameters.MAX_EPSILON0:
        raise ValueError(
            f"{left} reports, and whether a device took part, give no epsilon up to {parameters.MAX_EPSILON0:g}"
        )
    aggregator, both = min(one, crowd_epsilon(reports.one, reports, sample, n, delta)), math.inf
    if reports.both is not None:
        both = min(reports.epsilon0 + part, crowd_epsilon(reports.both, reports, sample, n, delta))
    return FormerClaim(
        aggregator=aggregator,
        aggregator_with_relay=one,
        both_aggregators=both if sample.default_rate is None else max(both, aggregator),
        both_aggregators_with_relay=reports.epsilon0 + part,
        mechanism=mechanism_name(reports, sample),
        relation=RELATION,
        n=n,
        epsilon0=reports.epsilon0,
        delta=float(delta),
    )
