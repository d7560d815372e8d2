"""Checks a recipe with the table of rules: the verdict of each rule at a stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tacit.logview.live import LiveLog
from tacit.operations.drafting import draft_context
from tacit.operations.outlook import rounding_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.rules import table as rules
from tacit.rules.detail import needed_of


@dataclass(frozen=True)
class RuleVerdict:
    """The verdict of one rule. ``detail``: the reason if it refuses, None if it accepts."""

    rule: str
    detail: str | None

    @property
    def passed(self) -> bool:
        """Whether the rule accepts the recipe, so that there is no ``detail``."""
        return self.detail is None

    def document(self) -> dict[str, Any]:
        """As JSON: ``{rule, passed, detail}``. If other numbers would pass, ``needed`` lists the ways to pass: each
        maps members of the recipe to their allowed values (``at_least``, ``above``, ``at_most``, ``exactly``,
        ``one_of``)."""
        needed = needed_of(self.detail)
        return {
            "rule": self.rule,
            "passed": self.passed,
            "detail": self.detail or "",
            **({"needed": needed} if needed else {}),
        }


@dataclass(frozen=True)
class Checked:
    """A recipe with the verdicts of all rules of a stage, in the order of the table."""

    recipe: Recipe
    stage: Stage
    verdicts: tuple[RuleVerdict, ...]

    @property
    def accepted(self) -> bool:
        """Whether no rule of the stage refuses it; rules of later stages are not asked."""
        return all(one.passed for one in self.verdicts)

    def document(self) -> dict[str, Any]:
        """As JSON: ``{hash, stage, accepted, rules: [{rule, passed, detail}], ...}``, and how values are rounded."""
        return {
            "hash": self.recipe.hash_text,
            "stage": self.stage.name.lower(),
            "accepted": self.accepted,
            "rules": [one.document() for one in self.verdicts],
            **rounding_of(self.recipe).document(),
        }


def check_recipe(recipe: Recipe, policy: Policy, context: Context) -> Checked:
    """Check ``recipe`` with every rule of the context's stage."""
    found = (RuleVerdict(rule.name, detail) for rule, detail in rules.verdicts(recipe, policy, context))
    return Checked(recipe, context.stage, tuple(found))


def context_at(recipe: Recipe, live: LiveLog, now: float, stage: Stage) -> Context:
    """The context of ``recipe`` at ``stage`` from a verified log: as a reader sees it if the log holds the recipe,
    otherwise as a draft beside the log's recipes. ``now``: POSIX seconds."""
    logged = live.recipe(recipe.hash)
    if logged is not None:
        return live.context(logged, now, stage)
    series = live.series_of(recipe)
    return replace(
        draft_context(recipe, live, now),
        stage=stage,
        series=series,
        ended=None if series is None else live.ended(series.hash),
        round_owner=live.round_owner(recipe),
        round_before=live.round_before(recipe),
    )
