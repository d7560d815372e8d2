"""The preview that is shown while somebody writes a question: cost and accuracy of each way to ask, and the verdict of
every rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from services.admin.api.calls import Admin
from services.admin.pages.charts import WIDTH, Axis, Line, path, spread
from services.admin.pages.claims import claim_rows
from services.admin.pages.survey_fields import body_of
from services.admin.pages.survey_labels import label_of, plain, replace_members
from services.admin.questions.questions import Asked
from tacit.accounting.alternatives import AGGREGATION, SAMPLED
from tacit.accounting.requirements import Requirements
from tacit.errors import Abort, FieldError, Refusal, UsageError
from tacit.methods.figures import NORMAL_95, form_of_errors
from tacit.models.local.form import Local
from tacit.operations.checking import Checked
from tacit.operations.design import requirements_of
from tacit.recipe.encoder_specs import Domain
from tacit.recipe.writing.survey import Survey

FACTORS: Final = tuple(map(Decimal, ("0.125", "0.25", "0.5", "1", "2", "4")))
"""The multiples of the wanted epsilon for which every way to ask is computed."""
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 56, 190, 14, 42
MIN, MAX, PLACES = "0.000001", "40", 9
Name = tuple[str, str]
"""The names of a model and of a randomizer."""


@dataclass(frozen=True)
class Preview:
    """The preview of a survey that may be incomplete. ``wrong``: every wrong member, and why; ``unknown``: why there is
    no comparison; ``unchecked``: why the rules were not checked."""

    wrong: tuple[FieldError, ...] = ()
    unknown: str = ""
    unchecked: str = ""
    comparison: dict[str, Any] | None = None
    searches: list[dict[str, Any]] = field(default_factory=list)
    checked: Checked | None = None
    claims: list[dict[str, Any]] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """Number of rules that refuse; 0 if they were not checked."""
        return 0 if self.checked is None else sum(not one.passed for one in self.checked.verdicts)


async def preview_of(admin: Admin, who: str, form: Mapping[str, str]) -> Preview:
    """The preview of the survey in ``form``; if it cannot be read, only what is wrong in it. ``who``: id of the
    person."""
    try:
        survey = Survey.from_body(body_of(form))
    except FieldError as error:
        return Preview(wrong=error.every)
    return await preview_of_survey(admin, who, survey)


async def preview_of_survey(admin: Admin, who: str, survey: Survey) -> Preview:
    """The preview of a survey that may be incomplete; what it lacks is said in it. ``who``: id of the person."""
    preview = Preview()
    if survey.population is None:
        preview = replace(
            preview, unknown=f"Fill in “{label_of('population')}” to see the margin of every way to ask here"
        )
    else:
        try:
            if isinstance(survey.encoder, Domain):
                preview = replace(preview, searches=await _searches(admin, who, survey))
            else:
                preview = replace(preview, comparison=await _comparison(admin, who, survey))
        except FieldError as error:
            preview = replace(
                preview, unknown=f"“{label_of(error.field)}” {replace_members(error.reason, error.field)}"
            )
        except UsageError as error:
            preview = replace(preview, unknown=str(error))
    return await judge(admin, who, survey, preview)


async def judge(admin: Admin, who: str, asked: Asked, found: Preview) -> Preview:
    """The preview ``found`` with the verdict of every rule on what is asked, for the person ``who``."""
    if isinstance(asked, Survey) and asked.lacking:
        lacking = [one for one in asked.lacking if one != "name" or asked.metric is not None]
        words = ", ".join(f"“{label_of(one)}”" for one in lacking)
        return replace(found, unchecked=f"the rules are checked once you have filled in {words}")
    try:
        drafted, checked = await admin.publishing.checked(asked, who)
    except FieldError as error:
        return replace(found, wrong=error.every)
    except (UsageError, Refusal) as error:
        return replace(found, unchecked=str(error))
    except Abort as problem:
        return replace(found, unchecked=problem.words)
    return replace(found, checked=checked, claims=claim_rows(drafted.recipe, drafted.series))


async def _comparison(admin: Admin, who: str, survey: Survey) -> dict[str, Any]:
    """The ways to ask at the wanted epsilon as rows, and their errors at several epsilons as a drawing. Errors are
    margins (1.96 standard errors). Raises ``UsageError``."""
    needs = requirements_of(survey, admin.config.policy)
    wanted = None if survey.accuracy is None else NORMAL_95 * float(survey.accuracy) * needs.scale
    here = await admin.planner.compared(who, survey)
    chosen = here["proposal"]
    curves: dict[Name, list[tuple[float, float]]] = {}
    for epsilon in sorted({_clamp(survey.epsilon * factor) for factor in FACTORS}):
        comparison = await admin.planner.compared(who, survey.having(epsilon=epsilon))
        for one in comparison["alternatives"]:
            curves.setdefault(_name(one), []).append((float(epsilon), NORMAL_95 * one["stderr"]))
    kinds = {
        _name(one): "chosen" if one == chosen else "allowed" if one["available"] else "compared"
        for one in here["alternatives"]
    }
    return {
        "rows": [
            {"way": one, "kind": kinds[_name(one)], "label": _label(*_name(one)), "here": one["form"] == survey.model}
            for one in here["alternatives"]
        ],
        "form": form_of_errors(NORMAL_95 * one["stderr"] for one in here["alternatives"]),
        "unit": "devices" if needs.counts else needs.statistic,
        "drawing": _drawing(needs, curves, kinds, wanted),
        "chosen": chosen,
        "unmet": "; ".join(one["detail"] for one in here["refusals"]),
        "wanted": wanted,
    }


async def _searches(admin: Admin, who: str, survey: Survey) -> list[dict[str, Any]]:
    """The ways to find frequent texts as rows. Raises ``UsageError``."""
    ways = (await admin.planner.searched(who, survey))["alternatives"]
    by_itself = survey.methods[0].NAME if survey.model == Local.name else None
    method = survey.randomizer or by_itself
    return [
        {
            "way": one,
            "label": f"{plain(one['model'])}: {one['way']}",
            "used": one["model"] == survey.model
            and Decimal(one["asked"]) == survey.epsilon
            and method in {None, one["randomizer"]},
        }
        for one in ways
    ]


def _name(way: Mapping[str, Any]) -> Name:
    return way["model"], way["randomizer"]


def _clamp(epsilon: Decimal) -> Decimal:
    """``epsilon``, limited to the range that the planner accepts and rounded to the digits that a survey accepts."""
    return min(Decimal(MAX), max(Decimal(MIN), round(epsilon, PLACES)))


def _drawing(
    needs: Requirements,
    curves: Mapping[Name, list[tuple[float, float]]],
    kinds: Mapping[Name, str],
    wanted: float | None,
) -> dict[str, Any]:
    """The drawing of margins against epsilon, with two logarithmic axes."""
    epsilons = [epsilon for points in curves.values() for epsilon, _ in points]
    errors = [error for points in curves.values() for _, error in points] + ([wanted] if wanted else [])
    across = Axis(min(epsilons), max(epsilons), LEFT, WIDTH - RIGHT, log=True)
    upward = Axis(min(errors) / 1.3, max(errors) * 1.3, HEIGHT - BOTTOM, TOP, log=True)
    lines = []
    for name, points in curves.items():
        places = tuple((across.at(epsilon), upward.at(error)) for epsilon, error in points)
        lines.append(Line(_label(*name), kinds.get(name, "compared"), path(places), places[-1], places))
    order = {"compared": 0, "allowed": 1, "chosen": 2}
    return {
        "across": across,
        "upward": upward,
        "height": HEIGHT,
        "bottom": HEIGHT - BOTTOM,
        "labels": spread(lines, 17, TOP + 4, HEIGHT - BOTTOM),
        "lines": sorted(lines, key=lambda one: order[one.kind]),
        "here": across.at(needs.epsilon),
        "wanted": None if wanted is None else upward.at(wanted),
    }


def _label(model: str, randomizer: str) -> str:
    if model in {SAMPLED, AGGREGATION}:
        return randomizer
    return f"{model.partition(',')[0]}: {randomizer}"
