"""From a recipe to the state that a device keeps for it."""

from __future__ import annotations

from client_agent.panprivate.watch import Plan, Schedule
from tacit.errors import Refusal
from tacit.models.devices import device_side
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe


def plan_of(recipe: Recipe) -> Plan:
    """What a device keeps for a watched recipe, which the recipe states in full. Raises ``Refusal``:
    ``encoder-mismatch`` for a recipe that does not say which steps are watched, and those of ``DeviceSide.stored``."""
    asked = recipe.question.encoder
    if not isinstance(asked, Occurrences):
        raise Refusal("encoder-mismatch", f"model {recipe.model} needs an encoder occurrences, not {asked.kind}")
    stored = device_side(recipe.model).stored(recipe)
    return Plan(recipe.hash, stored, Schedule(asked.start, asked.step_seconds, asked.steps))
