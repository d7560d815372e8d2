"""From a recipe to the state that a device keeps for it."""

from __future__ import annotations

from client_agent.panprivate.watch import Plan, Schedule
from tacit.errors import Refusal
from tacit.models.devices import device_side
from tacit.models.interfaces.watched import WatchedDeviceSide
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe


def watched_side(recipe: Recipe) -> WatchedDeviceSide:
    """The device side of a recipe whose devices watch an event. Raises refusal ``model-unsupported`` for others."""
    side = device_side(recipe.model)
    if not isinstance(side, WatchedDeviceSide):
        raise Refusal("model-unsupported", f"nothing is watched for a recipe of model {recipe.model}")
    return side


def plan_of(recipe: Recipe) -> Plan:
    """What a device keeps for a watched recipe, which the recipe states in full. Raises ``Refusal``:
    ``encoder-mismatch`` for a recipe that does not say which steps are watched, and those of ``watched_side`` and of
    ``WatchedDeviceSide.stored``."""
    asked = recipe.question.encoder
    if not isinstance(asked, Occurrences):
        raise Refusal("encoder-mismatch", f"model {recipe.model} needs an encoder occurrences, not {asked.kind}")
    stored = watched_side(recipe).stored(recipe)
    return Plan(recipe.hash, stored, Schedule(asked.start, asked.step_seconds, asked.steps))
