"""Models with one server, the analyzer, that opens single reports: their parties and what their claims share (P24).

The batch minimum B does not bind the analyzer, so an account is charged with what single reports reveal, and what they
revealed is never given back.
"""

from __future__ import annotations

import math

from tacit.dp import parameters
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.errors import Refusal
from tacit.models.form import Adversary, Cap
from tacit.models.parties import Analyst, Attester, Gateway, Issuer, Parties, Relay, Server

ANALYZER = "analyzer"
RELEASE = "release"
ANALYZER_ROW = Adversary(ANALYZER, "the analyzer, which opens single reports", Cap.LOCAL)
RELEASE_ROW = Adversary(
    RELEASE,
    "who sees only the result, if the analyzer is honest",
    Cap.AGGREGATE,
    condition="the analyzer is honest",
    otherwise=ANALYZER,
)
DIFFERENT_OPERATORS = (
    ("relay", "gateway"),
    ("attester", "issuer"),
    ("attester", "analyzer"),
    ("attester", "analyst"),
    ("issuer", "analyzer"),
    ("issuer", "analyst"),
)


class OneServerParties(Parties):
    """All parties; there is one server, and no other party to seal a result to."""

    analyst: Analyst
    analyzer: Server
    relay: Relay
    gateway: Gateway
    attester: Attester
    issuer: Issuer


def analyzer_of(parties: Parties) -> Server:
    """The analyzer among ``parties``. Raises refusal ``model-unsupported`` for parties of a model without one."""
    if not isinstance(parties, OneServerParties):
        raise Refusal("model-unsupported", "the recipe's model has no analyzer")
    return parties.analyzer


def require_plain(sample: Sample, n: int, delta: float) -> None:
    """``ValueError`` for a batch size or delta out of range, and for importance sampling and dummies: the analyzer
    takes reports one by one, and together with the relay it would know who sent them."""
    parameters.reports(n)
    parameters.failure_probability(delta)
    if sample.is_hidden:
        raise ValueError("a recipe with one server must have one rate for everybody and no dummies")


def single_epsilon(reports: Reports, delta: float) -> float:
    """What one report reveals: the local epsilon, or where there is none that of the noise of one device.
    ``ValueError`` where that gives no epsilon."""
    local = reports.local_epsilon
    single = local if math.isfinite(local) else reports.aggregate_epsilon(1, delta)
    if single > parameters.MAX_EPSILON0:
        raise ValueError(f"the noise of one device gives no epsilon up to {parameters.MAX_EPSILON0:g}")
    return single
