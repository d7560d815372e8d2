"""From an opened aggregate to a release: estimates with error bars, and what the release costs. Pure."""

from __future__ import annotations

from typing import Any

from tacit.dp.claim import UNBOUNDED, Claim
from tacit.errors import Refusal
from tacit.methods.statistics import STATISTICS
from tacit.models.forms.registry import form_of
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import answer_label, design_of, labels, randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Buckets, Categories, EncoderSpec, Number, Occurrences, Recipe, Vector
from tacit.recipe.response import with_response
from tacit.roles.collector import AggregateResult


def release_document(
    recipe: Recipe, batch_id: str, number: int, aggregate: AggregateResult, now: float
) -> dict[str, Any]:
    """The result document of the recipe's batch ``number`` (0, 1, ...), called ``batch_id`` and released at
    ``now`` (POSIX seconds).

    Estimates and standard errors are totals of the devices that answered, or their mean; where ``stderr`` is the
    largest that any values could give, ``stderr_typical`` is what ordinary ones give; ``count`` is the randomised count
    as it was summed, ``interval`` the recipe's in POSIX seconds (reports tell no more of their time). ``response``:
    asked, expected and counted contributions, with shares and intervals for everybody who was asked in the rows
    (``tacit.recipe.response``). ``sampling``: who sent, as the recipe states it; ``missing``: where devices without a
    value are in these numbers; ``series``: of which series it is which round.
    ``privacy`` is the recipe's claim at n = B, with the conditions on which parts of it hold; ``privacy_of_batch`` the
    same recomputed for the reports that were really there, absent where their number depends on answers.
    Refusal ``claim-understated`` when the latter exceeds the former, ``collection-values`` when the
    counts cannot come from the recipe's randomizer and sampling.
    """
    names = labels(recipe)
    if len(names) != len(aggregate.values):
        raise Refusal("collection-values", f"{len(aggregate.values)} values for {len(names)} labels")
    try:
        estimate = randomizer_of(recipe).estimate(aggregate.values, aggregate.report_count, design_of(recipe))
    except ValueError as error:
        raise Refusal("collection-values", str(error)) from error
    rows = zip(names, aggregate.values, estimate.values, estimate.stderrs, strict=True)
    typical = [{} if estimate.typical is None else {"stderr_typical": one} for one in estimate.typical or names]
    document = {
        "recipe_hash": recipe.hash_text,
        "name": recipe.name,
        "question": recipe.question.text,
        "statistic": recipe.question.statistic,
        "batch": number,
        "batch_id": batch_id,
        "report_count": aggregate.report_count,
        "interval": recipe.interval.model_dump(),
        "released_at": int(now),
        "buckets": [
            {"label": label, "count": count, "estimate": value, "stderr": stderr, **more}
            for (label, count, value, stderr), more in zip(rows, typical, strict=True)
        ],
        "sampling": _sampling(recipe, aggregate.report_count),
        "missing": _missing(recipe),
        **({"series": recipe.series.model_dump()} if recipe.series else {}),
        **_privacy(recipe, aggregate.report_count),
    }
    return with_response(document, recipe)


def epsilon_value(text: str) -> float | str:
    """A stated epsilon as a number; ``unbounded`` as it is."""
    return text if text == UNBOUNDED else float(text)


def _sampling(recipe: Recipe, report_count: int) -> dict[str, Any]:
    """Rates and dummies as the recipe states them; ``expected`` dummies among the reports, where one rate holds for
    everybody and the number of reports therefore tells."""
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
    """Devices without a value take part like all others (P27), and among the reports nothing tells which they are.
    ``label``: the category that the recipe states for them; where it states none, ``adds``: what each of them adds in
    expectation to each estimate (to a mean: the value with which it is in it). ``outside``: where numbers are that lie
    outside the answers' range."""
    question = recipe.question
    answer = encoder_of(question).encode(None)
    found: dict[str, Any] = {"outside": _outside(question.encoder)}
    if isinstance(question.encoder, Occurrences) and not STATISTICS[question.statistic].is_one_hot:
        return {**found, "adds": [0.0]}  # they have watched nothing
    if isinstance(answer, int):
        return {**found, "label": labels(recipe)[answer]}
    return {**found, "adds": list(randomizer_of(recipe).missing_adds(design_of(recipe)))}


def _outside(encoder: EncoderSpec) -> str:
    """``clipped``, ``missing`` (as without a value), or the label of their category."""
    if isinstance(encoder, Number | Vector | Occurrences):
        return "clipped"
    if isinstance(encoder, Buckets):
        return encoder.other or "clipped"
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
