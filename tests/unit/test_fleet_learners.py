"""Which rounds a fleet whose devices have digits trains, and what it refuses."""

from __future__ import annotations

import pytest

from infra.lab.devices.destination import Destination
from infra.lab.fleet.run import learners_of, trains
from infra.lab.kit.learning import LEARNING, model_of, training_series
from infra.lab.kit.recipes import RecipeKit
from tacit.errors import UsageError
from tacit.learning.plan import EXAMPLE, Plan
from tacit.recipe.encoder_specs import Update

KIT = RecipeKit()
DIGITS = Plan.model_validate(EXAMPLE).encoder


def target_of(spec: Update) -> Destination:
    """A round that trains a model of ``spec``, as devices verified it."""
    model = model_of(spec, 1)
    recipe = KIT.round(training_series(KIT, rate=1, spec=spec), 0, model.stated("0.5").text())
    return Destination("", "", (), recipe.encode(), b"", 0.0, model=model.file)


def test_the_devices_train_the_round_s_model_with_its_clip() -> None:
    target = target_of(DIGITS)
    assert trains(target.recipe)
    learners = learners_of(target, 40, 0.0)
    assert (learners.spec, learners.clip, learners.file, learners.devices) == (DIGITS, "0.5", target.model, 40)
    assert repr(target.model) not in repr(target)


@pytest.mark.parametrize(
    ("spec", "missing", "said"),
    [(LEARNING, 0.0, "models of 64 inputs and 10 classes"), (DIGITS, 0.1, "all of them have some")],
)
def test_other_models_and_devices_without_a_value_are_refused(spec: Update, missing: float, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        learners_of(target_of(spec), 40, missing)


def test_a_recipe_that_trains_no_model_has_no_learners() -> None:
    recipe = KIT.recipe()
    assert not trains(recipe)
    with pytest.raises(UsageError, match="trains no model"):
        learners_of(Destination("", "", (), recipe.encode(), b"", 0.0), 40, 0.0)
