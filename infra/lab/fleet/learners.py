"""The devices of a fleet in a round that trains a model: each has handwritten digits of its own."""

from __future__ import annotations

from typing import Final

from infra.lab.devices.destination import Destination
from infra.lab.learning.learners import Learners
from infra.lab.learning.population import digits
from tacit.errors import UsageError
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.training import External, read_round_model

DIGITS: Final = "digits"
SEED: Final = 1
"""Which devices hold which digits: the same in every round."""


def trains(recipe: Recipe) -> bool:
    """Whether devices train a model for the recipe."""
    return isinstance(recipe.question.encoder, Update)


def learners_of(target: Destination, devices: int, missing: float) -> Learners:
    """``devices`` devices that train the round's model. Raises ``UsageError`` for a model that reads no digits, and for
    a share of devices without a value."""
    spec, train = target.recipe.question.encoder, digits().train
    if not isinstance(spec, Update):
        raise UsageError(f"recipe {target.recipe.name} trains no model")
    inputs, classes = train.features.shape[1], int(train.labels.max()) + 1
    architecture = spec.training.architecture
    if isinstance(architecture, External) or (architecture.inputs, architecture.classes) != (inputs, classes):
        raise UsageError(
            f"a fleet's devices hold digits, for models of {inputs} inputs and {classes} classes; "
            "--data uniform sends made-up updates to any other"
        )
    if missing:
        raise UsageError("--missing is not for devices with digits: all of them have some")
    stated = read_round_model(target.recipe.question.round_input or "", spec.training)
    return Learners(spec, stated.clip, target.model, devices, SEED)
