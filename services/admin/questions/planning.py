"""Compares ways to ask while somebody writes a question: the privacy cost and the accuracy of each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

from services.admin.base.fair_threads import FairThreads
from services.admin.questions.questions import Asked, Written, text_of
from services.admin.questions.texts import PLAN, TEXTS
from tacit.models.parties import Part
from tacit.operations.design import alternative_document, ways_of
from tacit.operations.design_searched import searched_ways
from tacit.operations.drafting import refusals_document
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.writing.survey import Survey

W = TypeVar("W", bound=Written)
KEPT: Final = 256
"""How many comparisons are remembered; each takes up to half a second of one core."""


class Planner:
    """Compares ways to ask under a policy, in ``turns``."""

    def __init__(self, policy: Policy, turns: FairThreads) -> None:
        self._policy = policy
        self._turns = turns
        self._known: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    async def compared(self, who: str, survey: Survey) -> dict[str, Any]:
        """Compare the ways to ask ``survey``, for the person ``who``: ``{proposal, refusals, alternatives}``. The
        proposal is the way that the survey's recipe will use, None if none is allowed; the refusals say why, or why the
        wanted error is not reached. Raises ``FieldError``, ``UsageError``, and ``Abort`` (503) if too many wait."""
        return await self._found(who, survey, self._compare)

    async def searched(self, who: str, survey: Survey) -> dict[str, Any]:
        """Compare the ways to find frequent texts, for the person ``who``: ``{alternatives}``, what finds the rarest
        first. Raises what ``compared`` raises."""
        return await self._found(who, survey, self._search)

    async def forecast(self, who: str, asked: Asked) -> dict[str, Any]:
        """What the text of a feature, such as the plan of a training run, costs, for the person ``who``; of surveys and
        recipes nothing, for they are compared. Raises ``FieldError``, ``UsageError``, and ``Abort``: 501 without NumPy,
        503 if too many wait."""
        if isinstance(asked, Survey | Recipe):
            return {}
        TEXTS[PLAN].require_packages()
        return await self._found(who, asked, self._forecast)

    async def _found(self, who: str, written: W, compare: Callable[[W], dict[str, Any]]) -> dict[str, Any]:
        asked = (compare.__name__, text_of(written))
        known = self._known.pop(asked, None)
        comparison = known if known is not None else await self._turns.do(who, lambda: compare(written))
        self._known[asked] = comparison
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return comparison

    def _compare(self, survey: Survey) -> dict[str, Any]:
        ways = ways_of(survey, self._policy)
        return {
            "proposal": None if ways.used is None else alternative_document(ways.needs, ways.used),
            "refusals": [] if ways.refusal is None else refusals_document([ways.refusal]),
            "alternatives": [alternative_document(ways.needs, one) for one in ways.found],
        }

    def _forecast(self, written: Part) -> dict[str, Any]:
        return TEXTS[PLAN].forecast(written, self._policy)

    def _search(self, survey: Survey) -> dict[str, Any]:
        return {"alternatives": [one.document() for one in searched_ways(survey, policy=self._policy)]}
