"""What a survey would cost and give in each way to ask it, and what every rule says: drawn while somebody writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from services.admin.core.calls import Admin
from services.admin.pages.charts import WIDTH, Axis, Line, path, spread
from services.admin.pages.claims import claim_rows
from services.admin.pages.survey_fields import body_of
from services.admin.pages.survey_labels import label_of
from tacit.accounting.requirements import Requirements
from tacit.errors import Abort, FieldError, Refusal, UsageError
from tacit.operations.checking import Checked
from tacit.operations.design import requirements_of
from tacit.recipe.survey import Survey

FACTORS: Final = tuple(map(Decimal, ("0.125", "0.25", "0.5", "1", "2", "4")))
"""Of the wanted epsilon, at which every way to ask is computed."""
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 56, 190, 14, 42
MIN, MAX, PLACES = "0.000001", "40", 9
Name = tuple[str, str]
"""A model and a randomizer."""


@dataclass(frozen=True)
class Preview:
    """What can be said of a survey so far. ``wrong``: the member that is, and why; ``unknown``: why there is no
    comparison; ``unchecked``: why no rule was asked."""

    wrong: FieldError | None = None
    unknown: str = ""
    unchecked: str = ""
    comparison: dict[str, Any] | None = None
    checked: Checked | None = None
    claims: list[dict[str, Any]] = field(default_factory=list)

    @property
    def refused(self) -> int:
        """How many rules refuse."""
        return 0 if self.checked is None else sum(not one.passed for one in self.checked.verdicts)


async def preview_of(admin: Admin, who: str, form: Mapping[str, str]) -> Preview:
    """The preview of what a form of the person ``who`` holds."""
    try:
        survey = Survey.from_body(body_of(form))
    except FieldError as error:
        return Preview(wrong=error)
    return await preview_of_survey(admin, who, survey)


async def preview_of_survey(admin: Admin, who: str, survey: Survey, *, compare: bool = True) -> Preview:
    """The preview of a survey."""
    found = Preview()
    if compare:
        try:
            found = replace(found, comparison=await _comparison(admin, who, survey))
        except FieldError as error:
            found = replace(found, unknown=f"{label_of(error.field)} {error.reason}")
        except UsageError as error:
            found = replace(found, unknown=str(error))
    return await _judged(admin, who, survey, found)


async def _judged(admin: Admin, who: str, survey: Survey, found: Preview) -> Preview:
    if survey.missing:
        return replace(
            found, unchecked=f"the rules are asked once there is: {', '.join(map(label_of, survey.missing))}"
        )
    try:
        drafted, checked = await admin.publishing.checked(survey, who)
    except FieldError as error:
        return replace(found, wrong=error)
    except (UsageError, Refusal) as error:
        return replace(found, unchecked=str(error))
    except Abort as problem:
        return replace(found, unchecked=f"{problem.title} {problem.detail}".strip())
    return replace(found, checked=checked, claims=claim_rows(drafted.recipe))


async def _comparison(admin: Admin, who: str, survey: Survey) -> dict[str, Any]:
    """The ways at the wanted epsilon as rows, and all of them by epsilon as a drawing. Raises ``UsageError``."""
    needs = requirements_of(survey, admin.config.policy)
    wanted = None if survey.accuracy is None else float(survey.accuracy) * needs.scale
    here = await admin.planner.compared(who, survey)
    chosen = here["proposal"]
    curves: dict[Name, list[tuple[float, float]]] = {}
    for epsilon in sorted({_bounded(survey.epsilon * factor) for factor in FACTORS}):
        found = await admin.planner.compared(who, survey.having(epsilon=epsilon))
        for one in found["alternatives"]:
            curves.setdefault(_name(one), []).append((float(epsilon), one["stderr"]))
    kinds = {
        _name(one): "chosen" if one == chosen else "allowed" if one["available"] else "compared"
        for one in here["alternatives"]
    }
    return {
        "rows": [{"way": one, "kind": kinds[_name(one)]} for one in here["alternatives"]],
        "unit": "devices" if needs.counts else needs.statistic,
        "drawing": _drawing(needs, curves, kinds, wanted),
        "chosen": chosen,
        "unmet": "; ".join(one["detail"] for one in here["refusals"]),
        "wanted": wanted,
    }


def _name(way: Mapping[str, Any]) -> Name:
    return way["model"], way["randomizer"]


def _bounded(epsilon: Decimal) -> Decimal:
    """Within what the planner takes, and of so few digits that a survey takes it."""
    return min(Decimal(MAX), max(Decimal(MIN), round(epsilon, PLACES)))


def _drawing(
    needs: Requirements,
    curves: Mapping[Name, list[tuple[float, float]]],
    kinds: Mapping[Name, str],
    wanted: float | None,
) -> dict[str, Any]:
    """Standard error against epsilon, both by powers of ten."""
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
        "labels": spread(lines, 13, TOP + 4, HEIGHT - BOTTOM),
        "lines": sorted(lines, key=lambda one: order[one.kind]),
        "here": across.at(needs.epsilon),
        "wanted": None if wanted is None else upward.at(wanted),
    }


def _label(model: str, randomizer: str) -> str:
    return f"{model.partition(',')[0].replace('samplable aggregation', 'sampled')}: {randomizer}"
