"""From a privacy target to the randomizer that meets it: the largest local epsilon, or the least noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tacit.dp.parameters import ParameterError
from tacit.dp.solve import largest_where
from tacit.errors import FieldError, Refusal, UsageError
from tacit.methods.base.method import LocalMethod, Method
from tacit.methods.base.statistics import Shape
from tacit.methods.planners.local import EPSILON_PLACES, local_planner_of, rounded_epsilon0
from tacit.methods.planners.registry import planner_of
from tacit.methods.registry import method_named
from tacit.models.form import Cap, Form
from tacit.models.forms import form_of
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import members_of
from tacit.recipe.model import Recipe
from tacit.recipe.randomised import RandomizerSpec
from tacit.recipe.writing.sampling_plan import SamplingPlan

Members = dict[str, Any]
_LEAST_SHARE = 0.01
"""Searches start at this share of the wanted epsilon."""
_HALF_FACTOR = 2
"""Factor by which claim (a) may grow at B/2."""
_SEARCH_WIDTH = 1e-3
"""How far below the largest target a search for noise may stop, as a share of epsilon."""


@dataclass(frozen=True, slots=True)
class PrivacyTarget:
    """What ``randomizer`` has to keep for a question of this ``shape``: ``epsilon`` at ``delta``, and ``max_epsilon0``
    against everybody. ``proves_norm``: devices prove the Euclidean length of their vectors."""

    randomizer: str
    shape: Shape
    epsilon: Decimal
    delta: Decimal
    max_epsilon0: Decimal
    proves_norm: bool = False

    @property
    def method(self) -> type[Method]:
        """The method that ``randomizer`` names. Raises as ``method_named``."""
        return method_named(self.randomizer)

    def members(self, form: Form, plan: SamplingPlan, batch_size: int) -> Members:
        """The members ``randomizer`` and, if the model (``form``) has a VDAF, ``vdaf``. A server without a VDAF sees
        single reports, and the target is what one of them reveals, unless they are shuffled first. Where devices watch
        an event, every answer is sent, because nobody can look at it before. Raises ``UsageError``."""
        together = form.proves or self.method.IS_SHUFFLED
        expected = plan.expected_contributions(batch_size)
        made = self.made(plan, batch_size) if together else self._alone(expected)
        return self.members_with(form, self._never_rejecting(made) if form.watched else made)

    def members_with(self, form: Form, made: Method) -> Members:
        """The same members for the method ``made``. Raises ``UsageError`` where it has no proof."""
        randomizer = {"name": self.randomizer, **made.members()}
        if not form.proves:
            return {"randomizer": randomizer}
        try:
            proof = form.proof(made.proving_norm() if self.proves_norm else made)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return {"randomizer": randomizer, "vdaf": proof.members()}

    def made(self, plan: SamplingPlan, batch_size: int) -> Method:
        """The method, tuned so that claim (b) keeps the target: at B, where only secret shares hide a device at B/2.
        Dummies do not count as reports (P20). Raises ``UsageError``."""
        method = self.method
        if method.IS_SHUFFLED:
            return self._tune(self.epsilon, batch_size, float(self.delta), batch_size)
        if not issubclass(method, LocalMethod):
            honest, kept = self._reports(plan, batch_size, max(1, batch_size // 2))
            return self._tune(self.epsilon, honest, kept, batch_size)
        reports, kept = self._reports(plan, batch_size, batch_size)
        try:
            largest = local_planner_of(method).largest_epsilon0(
                reports, kept, float(self.epsilon), float(self.max_epsilon0)
            )
        except ValueError as error:
            raise _of_member(error) or UsageError(f"no local epsilon fits B = {batch_size}: {error}") from error
        return self._tune(min(Decimal(repr(largest)), self.max_epsilon0), reports, kept, batch_size)

    def _never_rejecting(self, made: Method) -> Method:
        spec = made.members()
        if "max_weight" not in spec:
            return made
        stated = RandomizerSpec(name=self.randomizer, **{**spec, "max_weight": spec["categories"]})
        return self.method.of(self.shape, members_of(stated))

    def _alone(self, reports: int) -> Method:
        """The method with which one report by itself keeps the target, for about so many ``reports``."""
        shape, local = self.shape, self.method.IS_LOCAL
        epsilon = min(self.epsilon, self.max_epsilon0) if local else self.epsilon
        try:
            planner = planner_of(self.method)
            return planner.planned_for(planner.tuned(shape, epsilon, 1, float(self.delta)), reports)
        except ValueError as error:
            words = f"the noise of one device cannot hide up to {shape.maximum} events at epsilon {self.epsilon:f}"
            words += f" and delta {self.delta:f}; count fewer, or allow more epsilon"
            raise _of_member(error) or UsageError(str(error) if local else words) from error

    def _tune(self, epsilon: Decimal, reports: int, delta: float, batch_size: int) -> Method:
        """The method with as little noise as ``epsilon`` allows."""
        shape = self.shape
        try:
            return planner_of(self.method).tuned(shape, epsilon, reports, delta)
        except ValueError as error:
            what = f"B = {batch_size} and values up to {shape.maximum}: {error}"
            words = f"no {self.randomizer} fits {what}"
            raise _of_member(error) or UsageError(
                words if self.method.IS_LOCAL else f"{words}, or the range must be coarser"
            ) from error

    def _reports(self, plan: SamplingPlan, batch_size: int, n: int) -> tuple[int, float]:
        """How many of n messages are reports, and the delta that is left for them."""
        if plan.is_plain:
            return n, float(self.delta)
        sample, delta = plan.sample(batch_size), float(self.delta)
        try:
            return sample.reports_among(n, delta), sample.kept(delta)
        except ValueError as error:
            raise UsageError(f"too many dummies for B = {batch_size}: {error}") from error

    def searched(
        self, plan: SamplingPlan, body: dict[str, Any], claimed: Callable[[dict[str, Any]], Recipe]
    ) -> Members:
        """As ``members`` for importance sampling, where claim (a) keeps the target: at B/2 for noise; otherwise the
        target at B and twice the target at B/2. ``claimed`` makes the recipe of a body. Raises ``UsageError`` where
        nothing keeps it."""
        size = int(body["batch"]["min_batch_size"])
        form, half = form_of(body["model"]), max(1, size // 2)
        local = self.method.IS_LOCAL
        reports, kept = self._reports(plan, size, size if local else half)

        def make(value: float) -> Members:
            epsilon = rounded_epsilon0(value) if local else Decimal(repr(value))
            return self.members_with(form, self._tune(epsilon, reports, kept, size))

        def holds(value: float) -> bool:
            try:
                members = make(value)
            except UsageError:
                return not local
            try:
                return self._is_kept(claimed({**body, **members}), half)
            except (UsageError, Refusal):
                return False

        found = largest_where(holds, *self._bounds(plan))
        if found is None:
            raise UsageError(
                f"importance sampling cannot keep epsilon {self.epsilon:f} at B = {size}: how many messages there are, "
                f"or who sends, already tells too much; ask more devices that a census attests, or bring the two rates "
                f"closer together"
            )
        return make(found)

    def _is_kept(self, recipe: Recipe, half: int) -> bool:
        epsilon, most = float(self.epsilon), float(self.max_epsilon0)
        form = form_of(recipe.model)
        at_half = claim_of(recipe, half)[form.charged]
        if not self.method.IS_LOCAL:
            return at_half <= epsilon
        claim = claim_of(recipe)
        return (
            claim[form.charged] <= epsilon
            and at_half <= _HALF_FACTOR * epsilon
            and all(claim[row.name] <= most for row in form.capped(Cap.LOCAL))
        )

    def _bounds(self, plan: SamplingPlan) -> tuple[float, float, float]:
        epsilon, rate = float(self.epsilon), float(plan.rate)
        if not self.method.IS_LOCAL:
            return _LEAST_SHARE * epsilon, math.log1p(math.expm1(epsilon) / rate), _SEARCH_WIDTH * epsilon
        return _LEAST_SHARE * epsilon, float(self.max_epsilon0), 0.25 * 10.0**-EPSILON_PLACES


def _of_member(error: ValueError) -> FieldError | None:
    """The error of the survey's own epsilon or delta, if it is one."""
    if isinstance(error, ParameterError) and error.name in {"epsilon", "delta"}:
        return FieldError(error.name, error.reason)
    return None
