"""What a recipe and a whole series cost one device, per adversary: recomputed from their parameters by every party.

A series is composed of its rounds (P16, P17, P26):

| adversary                   | rounds with independent coins | one round at most, by donation            |
|-----------------------------|-------------------------------|-------------------------------------------|
| aggregator (or the analyst) | composition of claim (a)      | (b), hidden by the sampled slots          |
| aggregator with the relay   | composition of claim (b)      | claim (b) of the one round                |
| both aggregators            | composition of claim (c)      | the same as (a), from the shuffled batch  |
| both aggregators, the relay | composition of epsilon0       | epsilon0                                  |

Everything is at the total delta, of which the rounds' own deltas are a part. Smaller for rounds with independent coins
is the composition of their own losses (``tacit.dp.repeated``): of noise shares and of local randomizers against (a) and
(b), of local randomizers also against (c), with sampling in (a) and (c); of ``krr`` also against (d), where binary
randomised response has the general one. The smaller one is the claim.

Proof. Of local randomizers, ``Method.aggregate_curve`` and ``reports_curve`` bound a round's hockey stick H(e^epsilon)
at every epsilon, not at one delta only: the sum's is exact, or the clones' (``tacit.dp.amplification``). The answers
of a device's neighbours, and those of whoever is in its place in a sample of known size, are of the same domain, or
missing: a draw that depends on no answer, whose law is a mixture of those of answers (``rr``, ``krr``), or moves one
cell where an answer moves two. So the curve bounds H between any two laws of the round, as ``tacit.dp.repeated.rounds``
asks. What others hold may differ from round to round and depend on earlier results; the curves are the largest over it,
and a pair with a higher curve in each round composes to a higher curve (``tacit.dp.repeated.losses``).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from tacit.dp.claim import Claim
from tacit.dp.donation import epsilon_donation, epsilon_rounds
from tacit.dp.hidden_claim import Sample, count_cost
from tacit.dp.repeated.rounds import epsilon_sampled_rounds, epsilon_visible_rounds
from tacit.dp.repeated.shares import epsilon_share_rounds
from tacit.errors import Refusal
from tacit.methods.base.method import Method
from tacit.models.form import Adversary, Cap
from tacit.models.forms import form_of
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series

T = TypeVar("T")
ROUNDS_SUFFIX, DONATION_SUFFIX = "+rounds", "+donation"
CLAIMS_KEPT = 16
"""Computed values of one recipe, with which no further claim is kept: a search for what would pass asks for many."""


def claim_of(recipe: Recipe, n: int | None = None) -> Claim:
    """The claim at ``n`` reports (default: B), dummies included. Raises refusal ``model-unsupported``,
    ``randomizer-parameters`` or ``claim-not-computable``."""
    size = recipe.batch.min_batch_size if n is None else n
    name = f"claim at {size}"
    claim: Claim = recipe.derived.get(name) or _compute(recipe, size)
    if len(recipe.derived) < CLAIMS_KEPT:
        recipe.derived[name] = claim
    return claim


def _compute(recipe: Recipe, size: int) -> Claim:
    form, delta = form_of(recipe.model), float(recipe.delta)
    return _or_refuse(lambda: form.claim(randomizer_of(recipe), sample_of(recipe), n=size, delta=delta))


def count_cost_of(recipe: Recipe) -> float:
    """What the number of messages at B adds, before sampling, to claim (a) of a recipe with importance sampling or
    dummies; infinite where nothing hides one message. Raises refusal ``randomizer-parameters`` or
    ``claim-not-computable``."""
    size, delta = recipe.batch.min_batch_size, float(recipe.delta)
    return _or_refuse(lambda: count_cost(randomizer_of(recipe), sample_of(recipe), n=size, delta=delta))


def sample_of(recipe: Recipe) -> Sample:
    """Who sends, in the form that claims need. ``ValueError`` names a bad parameter."""
    importance, dummies = recipe.sampling.importance, recipe.sampling.dummies
    return Sample(
        recipe.batch.min_batch_size,
        float(recipe.rate),
        None if importance is None else float(importance.default_rate),
        0.0 if dummies is None else float(dummies.intensity),
        None if dummies is None else dummies.population,
        1 if importance is None else importance.devices or 1,
    )


def total_claim(series: Series, n: int | None = None) -> Claim:
    """The claim of all rounds together at the stated total delta, for batches of ``n`` reports (default: B). Raises
    refusal ``claim-not-computable`` or ``randomizer-parameters``."""
    if series.donation is None:
        return independent_claim(series.probe, series.rounds, float(series.claim.delta), n)
    return donation_claim(series.probe, series.donation.slots, float(series.claim.delta), n)


def independent_claim(recipe: Recipe, rounds: int, total_delta: float, n: int | None = None) -> Claim:
    """The claim of ``rounds`` recipes like ``recipe`` whose coins are independent, at ``total_delta``. Raises the
    refusals of ``total_claim``."""
    one, method = _claim(recipe, n), randomizer_of(recipe)

    def composed(row: Adversary) -> float:
        general = _or_refuse(epsilon_rounds, one[row.name], 0.0 if row.pure else one.delta, rounds, total_delta)
        seen = _seen_by(row)
        if seen is None:
            return general
        rate = float(recipe.rate) if row.unseen else None
        return min(general, _or_refuse(_own_losses, method, seen, one.n, rounds, total_delta, rate))

    total = {row.name: composed(row) for row in form_of(recipe.model).adversaries}
    return one.changed(
        total,
        mechanism=one.mechanism + ROUNDS_SUFFIX,
        delta=total_delta,
    )


class _Seen(enum.Enum):
    """What an adversary sees of a round: the sum, reports in random order, or single reports."""

    SUM, REPORTS, SINGLE = range(3)


def _seen_by(row: Adversary) -> _Seen | None:
    """None where only the general composition holds."""
    if row.cap is Cap.AGGREGATE_WITH_RELAY or (row.unseen and row.cap is Cap.AGGREGATE):
        return _Seen.SUM
    if row.unseen:
        return _Seen.REPORTS
    return _Seen.SINGLE if row.pure and row.cap is Cap.LOCAL else None


@lru_cache(maxsize=64)
def _own_losses(method: Method, seen: _Seen, n: int, rounds: int, delta: float, rate: float | None) -> float:
    """The epsilon at ``delta`` of the losses of ``rounds`` rounds of n reports; ``rate``: that of the coins, None where
    the adversary sees who took part. Infinite where the losses have no curve."""
    if method.noise_step is not None:
        return epsilon_share_rounds(method.noise_step, n, rounds, delta, rate) if seen is _Seen.SUM else math.inf
    curve = {
        _Seen.SUM: lambda: method.aggregate_curve(n),
        _Seen.REPORTS: lambda: method.reports_curve(n),
        _Seen.SINGLE: lambda: method.single_curve,
    }[seen]()
    if curve is None:
        return math.inf
    if rate is None:
        return epsilon_sampled_rounds(curve, 1.0, rounds, delta)
    return epsilon_visible_rounds(curve, rate, n, rounds, delta)


def donation_claim(recipe: Recipe, slots: int, total_delta: float, n: int | None = None) -> Claim:
    """The claim of rounds like ``recipe`` where a device takes part in at most one, the first of ``slots`` for which
    its coin says yes. Raises the refusals of ``total_claim``."""
    one = _claim(_with_rate_one(recipe), n)

    def hidden(epsilon: float) -> float:
        sampled = {"rate": float(recipe.rate), "slots": slots, "n": one.n, "total_delta": total_delta}
        return _or_refuse(epsilon_donation, epsilon, one.delta, **sampled)

    unseen = (row.name for row in form_of(recipe.model).adversaries if row.unseen)
    return one.changed(
        {name: hidden(one[name]) for name in unseen},
        mechanism=one.mechanism + DONATION_SUFFIX,
        delta=total_delta,
    )


def _claim(recipe: Recipe, n: int | None) -> Claim:
    extra = recipe.sampling.canonical().keys() - {"rate"}
    if extra:
        raise Refusal("claim-not-computable", f"sampling.{min(extra)} is not accounted for in a series")
    return claim_of(recipe, n)


def _with_rate_one(recipe: Recipe) -> Recipe:
    """The same recipe with rate 1 and without dummies or importance sampling."""
    body = recipe.body()
    return Recipe.from_body({**body, "sampling": {**body["sampling"], "rate": "1"}})


def _or_refuse(bound: Callable[..., T], *given: Any, **named: Any) -> T:
    """The value of ``bound``. Raises refusal ``claim-not-computable`` for its ``ValueError``, which names a bad
    parameter."""
    try:
        return bound(*given, **named)
    except ValueError as error:
        raise Refusal("claim-not-computable", str(error)) from error
