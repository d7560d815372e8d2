"""What a recipe and a whole series cost one device, per adversary: recomputed from their parameters by every party.

A series is composed of its rounds (P16, P17, P26):

| adversary                   | rounds with independent coins | one round at most, by donation            |
|-----------------------------|-------------------------------|-------------------------------------------|
| aggregator (or the analyst) | composition of claim (a)      | (b), hidden by the sampled slots          |
| aggregator with the relay   | composition of claim (b)      | claim (b) of the one round                |
| both aggregators            | composition of claim (c)      | the same as (a), from the shuffled batch  |
| both aggregators, the relay | composition of epsilon0       | epsilon0                                  |

Everything is at the total delta, of which the rounds' own deltas are a part. Noise shares have a smaller
composition for (a) and (b): that of the rounds' own losses (``tacit.dp.repeated``), with sampling in (a) only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tacit.dp.claim import Claim
from tacit.dp.donation import epsilon_donation, epsilon_rounds
from tacit.dp.hidden_claim import Sample, count_cost
from tacit.dp.repeated.shares import epsilon_share_rounds
from tacit.errors import Refusal
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
    claim: Claim = recipe.derived.get(name) or _computed(recipe, size)
    if len(recipe.derived) < CLAIMS_KEPT:
        recipe.derived[name] = claim
    return claim


def _computed(recipe: Recipe, size: int) -> Claim:
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
    one, step = _claim(recipe, n), randomizer_of(recipe).noise_step

    def composed(row: Adversary) -> float:
        general = _or_refuse(epsilon_rounds, one[row.name], 0.0 if row.pure else one.delta, rounds, total_delta)
        is_sampled = row.cap is Cap.AGGREGATE and row.unseen
        if step is None or not (is_sampled or row.cap is Cap.AGGREGATE_WITH_RELAY):
            return general
        rate = float(recipe.rate) if is_sampled else None
        return min(general, _or_refuse(epsilon_share_rounds, step, one.n, rounds, total_delta, rate))

    total = {row.name: composed(row) for row in form_of(recipe.model).adversaries}
    return one.changed(
        total,
        mechanism=one.mechanism + ROUNDS_SUFFIX,
        delta=total_delta,
    )


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
