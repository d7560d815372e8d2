"""From a privacy target to the randomizer that meets it: the largest local epsilon, or the least noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.claim import MECHANISM_OF
from tacit.dp.solve import largest_where
from tacit.errors import Refusal, UsageError
from tacit.methods.flips import Flips
from tacit.models.forms.form import Cap
from tacit.models.forms.registry import form_of
from tacit.recipe.claims import claim_of
from tacit.recipe.members import REJECTION_SHARE, Members, local_members, noise_members
from tacit.recipe.model import Question, Recipe
from tacit.recipe.turnout import TurnoutPlan

EPSILON_PLACES = 4
_LEAST_SHARE = 0.01
"""Searches start at this share of the wanted epsilon."""
_HALF_FACTOR = 2
"""By how much claim (a) may grow at B/2."""
_SEARCH_WIDTH = 1e-3
"""How far below the largest target a search for noise may stop, as a share of epsilon."""


@dataclass(frozen=True, slots=True)
class Target:
    """What ``randomizer`` has to keep for a ``question``: ``epsilon`` at ``delta``, and ``max_epsilon0`` against
    everybody."""

    randomizer: str
    question: Question
    epsilon: Decimal
    delta: Decimal
    max_epsilon0: Decimal

    @property
    def is_noise(self) -> bool:
        """Whether only the sum hides a device."""
        return self.randomizer == Flips.NAME

    def members(self, plan: TurnoutPlan, batch_size: int) -> Members:
        """The members ``randomizer`` and ``vdaf`` with which claim (b) keeps the target: at B, for noise at B/2.
        Dummies do not count as reports (P20). Raises ``UsageError``."""
        if self.is_noise:
            honest, kept = self._reports(plan, batch_size, max(1, batch_size // 2))
            return noise_members(self.question, honest, float(self.epsilon), kept, batch_size)
        reports, kept = self._reports(plan, batch_size, batch_size)
        left = kept * (1 - REJECTION_SHARE) if self.randomizer == "rappor" else kept
        mechanism, epsilon = MECHANISM_OF[self.randomizer], float(self.epsilon)
        try:
            largest = largest_epsilon0(mechanism, reports, left, epsilon, places=EPSILON_PLACES)
        except ValueError as error:
            raise UsageError(f"no local epsilon fits B = {batch_size}: {error}") from error
        epsilon0 = min(Decimal(repr(largest)), self.max_epsilon0)
        return local_members(self.randomizer, self.question, epsilon0, reports, kept)

    def _reports(self, plan: TurnoutPlan, batch_size: int, n: int) -> tuple[int, float]:
        """How many of n messages are reports, and the delta that is left for them."""
        if plan.is_plain:
            return n, float(self.delta)
        sample, delta = plan.sample(batch_size), float(self.delta)
        try:
            return sample.reports_among(n, delta), sample.kept(delta)
        except ValueError as error:
            raise UsageError(f"too many dummies for B = {batch_size}: {error}") from error

    def searched(self, plan: TurnoutPlan, body: dict[str, Any], claimed: Callable[[dict[str, Any]], Recipe]) -> Members:
        """The same for importance sampling, whose claim (a) keeps the target: at B/2 for noise, otherwise at B, and at
        B/2 twice the target. ``claimed`` makes the recipe of a body. Raises ``UsageError`` where nothing does."""
        size = int(body["batch"]["min_batch_size"])
        half = max(1, size // 2)
        make = self._noise(plan, size, half) if self.is_noise else self._local(plan, size)

        def holds(value: float) -> bool:
            try:
                members = make(value)
            except UsageError:
                return self.is_noise
            try:
                return self._kept(claimed({**body, **members}), half)
            except (UsageError, Refusal):
                return False

        found = largest_where(holds, *self._bounds(plan))
        if found is None:
            raise UsageError(
                f"importance sampling keeps no epsilon {self.epsilon:f} at B = {size}: how many messages there are, or "
                f"who sends, already tells too much; ask more devices that a census attests, or bring the two rates "
                f"closer together"
            )
        return make(found)

    def _kept(self, recipe: Recipe, half: int) -> bool:
        epsilon, most = float(self.epsilon), float(self.max_epsilon0)
        form = form_of(recipe.model)
        at_half = claim_of(recipe, half)[form.charged]
        if self.is_noise:
            return at_half <= epsilon
        claim = claim_of(recipe)
        return (
            claim[form.charged] <= epsilon
            and at_half <= _HALF_FACTOR * epsilon
            and all(claim[row.name] <= most for row in form.capped(Cap.LOCAL))
        )

    def _bounds(self, plan: TurnoutPlan) -> tuple[float, float, float]:
        epsilon, rate = float(self.epsilon), float(plan.rate)
        if self.is_noise:
            return _LEAST_SHARE * epsilon, math.log1p(math.expm1(epsilon) / rate), _SEARCH_WIDTH * epsilon
        return _LEAST_SHARE * epsilon, float(self.max_epsilon0), 0.25 * 10.0**-EPSILON_PLACES

    def _noise(self, plan: TurnoutPlan, batch_size: int, n: int) -> Callable[[float], Members]:
        honest, kept = self._reports(plan, batch_size, n)
        return lambda epsilon: noise_members(self.question, honest, epsilon, kept, batch_size)

    def _local(self, plan: TurnoutPlan, batch_size: int) -> Callable[[float], Members]:
        reports, kept = self._reports(plan, batch_size, batch_size)

        def make(value: float) -> Members:
            epsilon0 = Decimal(repr(value)).quantize(Decimal(1).scaleb(-EPSILON_PLACES), rounding=ROUND_FLOOR)
            return local_members(self.randomizer, self.question, epsilon0, reports, kept)

        return make
