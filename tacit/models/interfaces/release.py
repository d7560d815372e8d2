"""From an opened aggregate to a release: its answers with error bars, and what the release costs. Pure functions."""

from __future__ import annotations

from typing import Any

from tacit.dp.claim import UNBOUNDED, Claim
from tacit.errors import Refusal
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.result import MOST_LISTED, Result
from tacit.methods.result import Buckets as BucketsResult
from tacit.models.forms import form_of
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import answer_label, encoder_of, labels
from tacit.recipe.encoder_specs import Buckets, Categories, Domain, EncoderSpec, Number, Occurrences, Prefixes, Vector
from tacit.recipe.model import Recipe
from tacit.recipe.response import biased_by_missing, missing_adds, with_response
from tacit.roles.collector import AggregateResult


def buckets_of(recipe: Recipe, aggregate: AggregateResult) -> BucketsResult:
    """The estimate for each label of the recipe's question. Raises refusal ``collection-values`` when the counts cannot
    come from the recipe's randomizer and sampling."""
    names = labels(recipe)
    if len(names) != len(aggregate.values):
        raise Refusal("collection-values", f"{len(aggregate.values)} values for {len(names)} labels")
    try:
        estimate = estimator_of(randomizer_of(recipe)).estimate(
            aggregate.values, aggregate.report_count, design_of(recipe)
        )
    except ValueError as error:
        raise Refusal("collection-values", str(error)) from error
    return BucketsResult(names, aggregate.values, estimate)


def release_document(
    recipe: Recipe, batch_id: str, number: int, report_count: int, result: Result, now: float
) -> dict[str, Any]:
    """Make the document of a release: the ``result`` of ``report_count`` contributions to the recipe's batch ``number``
    (0, 1, ...), called ``batch_id`` and released at ``now`` (POSIX seconds).

    Estimates and standard errors are totals over the devices that answered, or their mean. Where ``stderr`` is the
    largest error that any values could give, ``stderr_typical`` is the error for ordinary values. ``count`` is the
    randomised count as summed; ``interval`` is the recipe's, in POSIX seconds (reports reveal no more about their
    time). ``response``: asked, expected and counted contributions, and the rows' shares and intervals for all devices
    that were asked (``tacit.recipe.response``). ``sampling``: who sends, as the recipe states it; ``missing``: where
    devices without a value appear in these numbers; ``series``: the series and the number of the round in it.
    ``privacy`` is the recipe's claim at n = B, with the conditions on which parts of it hold; ``privacy_of_batch`` is
    the claim recomputed for the actual number of reports, absent where that number depends on answers. Raises refusal
    ``claim-understated`` when the latter exceeds the former.
    """
    document = {
        "recipe_hash": recipe.hash_text,
        "name": recipe.name,
        "question": recipe.question.text,
        "statistic": recipe.question.statistic,
        "batch": number,
        "batch_id": batch_id,
        "report_count": report_count,
        "interval": recipe.interval.model_dump(),
        "released_at": int(now),
        **result.members(),
        "sampling": _sampling(recipe, report_count),
        "missing": _missing(recipe),
        **({"series": recipe.series.model_dump()} if recipe.series else {}),
        **_privacy(recipe, report_count),
    }
    return with_response(document, recipe)


def epsilon_value(text: str) -> float | str:
    """A stated epsilon as a number; ``unbounded`` is returned as it is."""
    return text if text == UNBOUNDED else float(text)


def _sampling(recipe: Recipe, report_count: int) -> dict[str, Any]:
    """Rates and dummies as the recipe states them, with the number of dummies ``expected`` among the reports where one
    rate holds for everybody, so that the number of reports shows it."""
    sampling, design = recipe.sampling, design_of(recipe)
    found: dict[str, Any] = {"rate": design.rate}
    if sampling.importance is not None:
        found["importance"] = {
            "default": design.default,
            "default_label": answer_label(recipe.question, sampling.importance.default),
            "default_rate": design.default_rate,
        }
    if sampling.dummies is not None:
        found["dummies"] = {"intensity": float(sampling.dummies.intensity), "population": sampling.dummies.population}
        if design.is_uniform:
            takes_part = design.rate * (1 - randomizer_of(recipe).reject_probability)
            found["dummies"]["expected"] = report_count * design.dummy_share(takes_part)
    return found


def _missing(recipe: Recipe) -> dict[str, Any]:
    """Describe how devices without a value appear: they take part like all others (P27), and their reports cannot be
    told apart. ``label``: the category that the recipe states for them; without one, ``adds``: what each of them adds
    in expectation to each estimate (for a mean: the value with which it counts; of more than ``MOST_LISTED`` estimates:
    each value that occurs). ``outside``: how numbers outside the
    answers' range are treated; ``biases``: whether estimates are biased by what such devices add, in which case no
    interval for all devices that were asked is given."""
    found: dict[str, Any] = {"outside": _outside(recipe.question.encoder)}
    answer, adds = encoder_of(recipe.question).encode(None), missing_adds(recipe)
    if adds is None and isinstance(answer, int):
        return {**found, "label": answer_label(recipe.question, answer)}
    if adds is not None and len(adds) > MOST_LISTED:
        adds = tuple(sorted(set(adds)))
    return {**found, "adds": list(adds or ()), "biases": biased_by_missing(recipe)}


def _outside(encoder: EncoderSpec) -> str:
    """``clipped``, ``missing`` (treated as without a value), or the label of their category."""
    if isinstance(encoder, Number | Vector | Occurrences):
        return "clipped"
    if isinstance(encoder, Buckets):
        return encoder.other or "clipped"
    if isinstance(encoder, Domain):
        return encoder.outside or (encoder.missing if isinstance(encoder, Prefixes) else None) or "missing"
    return encoder.other or "missing" if isinstance(encoder, Categories) else "missing"


def _privacy(recipe: Recipe, report_count: int) -> dict[str, Any]:
    form, stated = form_of(recipe.model), recipe.privacy.epsilon.root
    ran = claim_of(recipe, report_count).no_worse_than(claim_of(recipe))
    exceeded = ran.exceeds(stated)
    if exceeded:
        raise Refusal(
            "claim-understated",
            f"{report_count} reports cost more than the recipe states for {', '.join(exceeded)}",
        )
    by_adversary = {name: epsilon_value(value) for name, value in stated.items()}
    return {
        "privacy": {
            "epsilon": by_adversary[form.charged],
            "delta": float(recipe.delta),
            "epsilon0": epsilon_value(recipe.privacy.epsilon0),
            "relation": recipe.privacy.relation,
            "mechanism": recipe.privacy.mechanism,
            "n": recipe.privacy.n,
            "by_adversary": by_adversary,
            "conditions": form.conditions,
        },
        **({} if recipe.sampling.importance else {"privacy_of_batch": _of_batch(report_count, ran)}),
    }


def _of_batch(report_count: int, ran: Claim) -> dict[str, Any]:
    return {"n": report_count, "mechanism": ran.mechanism, "by_adversary": ran.stated()}
