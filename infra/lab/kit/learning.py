"""A tiny training: its question, its series, and models for its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.lab.kit.recipes import RecipeKit
from tacit.learning import model_file
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Question
from tacit.recipe.series import Series
from tacit.recipe.training import External, RoundModel, Softmax, Training

METRIC: Final = "strokes"
LEARNING: Final = Update(
    kind="update",
    length=6,
    low=-1,
    high=1,
    unit="0.01",
    norm=1,
    training=Training(architecture=Softmax(kind="softmax", inputs=2, classes=2), steps=2, learning_rate="0.5"),
)
"""Two classes of points in the plane."""

STROKES: Mapping[str, Any] = {
    "name": "strokes",
    "metric": "strokes",
    "text": "What do your strokes teach?",
    "training": {
        "architecture": {"kind": "softmax", "inputs": 2, "classes": 2},
        "steps": 2,
        "learning_rate": 1,
    },
    "clip": 1,
    "unit": "0.1",
    "server": {"kind": "fedavg", "learning_rate": 1},
    "rate": "0.9",
    "rounds": 2,
    "epsilon": 8,
    "delta": "0.000001",
}
"""What all tests of small plans state; how many devices there are, and when they are asked, a test adds."""


@dataclass(frozen=True)
class Model:
    """The model of a round, as devices fetch it: ``file`` holds its parameters (``tacit.learning.model_file``)."""

    file: bytes

    def stated(self, clip: int | str = 1) -> RoundModel:
        """The ``question.round_input`` of a round about this model: length, clip and hash of its file."""
        return RoundModel(bytes=len(self.file), clip=clip, model=model_file.name_of(self.file))


def model_of(spec: Update, seed: int) -> Model:
    """A model for ``spec`` with random parameters around 0."""
    import numpy as np

    return Model(model_file.encode(np.random.default_rng(seed).normal(0, 0.3, spec.training.parameters)))


def external(first: Model) -> Update:
    """The same training of a model that only an application knows, which begins with ``first``."""
    own = External(kind="external", entries=LEARNING.length, initial=model_file.name_of(first.file))
    return LEARNING.model_copy(update={"training": LEARNING.training.model_copy(update={"architecture": own})})


def learning_question(spec: Update = LEARNING) -> Question:
    return Question(text="What do your strokes teach?", metric=METRIC, encoder=spec, statistic="vector-sum")


def training_series(kit: RecipeKit, rounds: int = 3, spec: Update = LEARNING, **options: Any) -> Series:
    """A series without donation whose rounds train ``spec``; ``options`` as for ``kit.series``."""
    own = {"question": learning_question(spec), "randomizer": "flips", **options}
    return kit.series(rounds, None, **own)
