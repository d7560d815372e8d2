"""Secure aggregation: two aggregators, at least one of them honest, sum secret shares (DAP, Prio3).

| adversary                    | one rate, no dummies                     | importance sampling or dummies            |
|------------------------------|------------------------------------------|-------------------------------------------|
| aggregator (or the analyst)  | sampling, the exact aggregate            | theorem of ``hidden_count``               |
| aggregator with the relay    | the aggregate; who took part is known    | the aggregate, and what taking part tells |
| both aggregators             | sampling, shuffling (FMT22), given n     | as the first, over shuffled reports       |
| both aggregators, the relay  | local randomisation alone                | epsilon0, and what taking part tells      |

No row exceeds the row of an adversary that sees more (P16, P17, P17b, P20). Noise shares have no local guarantee: one
device's share does not hide its value from an observer of single reports, so both rows of both aggregators are
infinite.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pydantic import Field

from tacit.dp import parameters
from tacit.dp.claim import RELATION, SAMPLING_SUFFIX, Claim
from tacit.dp.hidden_claim import Sample, crowd_epsilon, mechanism_name
from tacit.dp.reports import Reports
from tacit.dp.sampling import amplify_visible
from tacit.errors import Refusal
from tacit.models.form import Adversary, Cap, Form
from tacit.models.parties import (
    SHUFFLER,
    Aggregator,
    Analyst,
    Attester,
    Collector,
    Gateway,
    Issuer,
    Parties,
    Relay,
    Server,
)

AGGREGATOR = "aggregator"
AGGREGATOR_WITH_RELAY = "aggregator_with_relay"
BOTH = "both_aggregators"
BOTH_WITH_RELAY = "both_aggregators_with_relay"


class SecureAggregationParties(Parties):
    """Everyone who takes part: leader and helper, at least one of them honest, and the collector. ``shuffler``, where a
    recipe names it, stands between gateway and leader."""

    analyst: Analyst
    leader: Aggregator
    helper: Aggregator
    collector: Collector
    relay: Relay
    gateway: Gateway
    attester: Attester
    issuer: Issuer
    shuffler: Annotated[Server | None, Field(exclude_if=lambda value: value is None)] = None


def aggregators_of(parties: Parties) -> SecureAggregationParties:
    """``parties`` as parties of this model. Raises refusal ``model-unsupported`` for those of another one."""
    if not isinstance(parties, SecureAggregationParties):
        raise Refusal("model-unsupported", "the recipe's model has no leader, helper and collector")
    return parties


class SecureAggregation(Form):
    """Model ``secure-aggregation``, with the claim that the table of this module describes."""

    name: ClassVar[str] = "secure-aggregation"
    parties: ClassVar[type[Parties]] = SecureAggregationParties
    opts_in: ClassVar[tuple[str, ...]] = ("leader", "helper")
    different_operators: ClassVar[tuple[tuple[str, str], ...]] = (
        ("relay", "gateway"),
        ("leader", "helper"),
        ("attester", "issuer"),
        ("attester", "leader"),
        ("attester", "helper"),
        ("attester", "analyst"),
        ("issuer", "leader"),
        ("issuer", "helper"),
        ("issuer", "analyst"),
        *((SHUFFLER, other) for other in ("leader", "helper", "analyst", "relay", "gateway", "attester", "issuer")),
    )
    proves: ClassVar[bool] = True
    adversaries: ClassVar[tuple[Adversary, ...]] = (
        Adversary(AGGREGATOR, "one aggregator, or the analyst", Cap.AGGREGATE, unseen=True),
        Adversary(AGGREGATOR_WITH_RELAY, "... together with the relay", Cap.AGGREGATE_WITH_RELAY),
        Adversary(
            BOTH,
            "both aggregators, if at least {n:,} honest devices reported",
            unbounded=True,
            unseen=True,
            condition="at least n honest devices reported",
            otherwise=BOTH_WITH_RELAY,
        ),
        Adversary(
            BOTH_WITH_RELAY, "both aggregators otherwise, or with the relay", Cap.LOCAL, unbounded=True, pure=True
        ),
    )
    charged: ClassVar[str] = AGGREGATOR
    charged_with_relay: ClassVar[str] = AGGREGATOR_WITH_RELAY
    refunds: ClassVar[bool] = True

    def claim(self, reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
        """Compute the claim as in the table of this module. Sampling at one rate is claimed when it fits into ``delta``
        (see ``tacit.dp.sampling``); the mechanism's name then ends in ``+sampling``."""
        parameters.reports(n)
        parameters.failure_probability(delta)
        return _hidden(reports, sample, n, delta) if sample.is_hidden else _visible(reports, sample, n, delta)


def _visible(reports: Reports, sample: Sample, n: int, delta: float) -> Claim:
    rate = parameters.rate(sample.rate)
    one, both = reports.aggregate_epsilon(n, delta), reports.reports_epsilon(n, delta)
    if one > parameters.MAX_EPSILON0:
        raise ValueError(f"the noise of {n} devices gives no epsilon up to {parameters.MAX_EPSILON0:g}")
    sampled = amplify_visible(one, rate, n, delta)
    both_sampled = amplify_visible(both, rate, n, delta) if math.isfinite(both) else None
    return _claim(
        (
            one if sampled is None else sampled,
            one,
            both if both_sampled is None else both_sampled,
            reports.local_epsilon,
        ),
        reports.mechanism if sampled is None else reports.mechanism + SAMPLING_SUFFIX,
        reports,
        n,
        delta,
    )


def _hidden(reports: Reports, sample: Sample, n: int, delta: float) -> Claim:
    part = sample.sending_rates(reports).part_epsilon()
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    one = reports.aggregate_epsilon(left, kept) + part
    if one > parameters.MAX_EPSILON0:
        raise ValueError(
            f"{left} reports, and whether a device took part, give no epsilon up to {parameters.MAX_EPSILON0:g}"
        )
    aggregator, both = min(one, crowd_epsilon(reports.aggregate_epsilon, reports, sample, n, delta)), math.inf
    if math.isfinite(reports.local_epsilon):
        both = min(reports.local_epsilon + part, crowd_epsilon(reports.reports_epsilon, reports, sample, n, delta))
    return _claim(
        (aggregator, one, both if sample.default_rate is None else max(both, aggregator), reports.local_epsilon + part),
        mechanism_name(reports, sample),
        reports,
        n,
        delta,
    )


def _claim(
    epsilons: tuple[float, float, float, float], mechanism: str, reports: Reports, n: int, delta: float
) -> Claim:
    by_adversary = dict(zip((AGGREGATOR, AGGREGATOR_WITH_RELAY, BOTH, BOTH_WITH_RELAY), epsilons, strict=True))
    return Claim(by_adversary, mechanism, RELATION, n, reports.local_epsilon, float(delta))
