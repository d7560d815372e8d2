"""What a device answers to a round that trains a model: its update, made of its own examples or by its application.

Every device that is asked trains, before its coin is tossed, as every datum is read before: so neither whether it takes
part nor when it sends depends on how long that takes, and a device that stops meanwhile has decided nothing. An update
that cannot be made is no value, like a datum that cannot be read (P27).

NumPy is imported by the first training and not before: it takes 13 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from client_agent.data.sources import Ask, Value
from client_agent.learning.learners import Learner, update_by
from client_agent.learning.model_files import ModelFiles
from tacit.errors import DecodeError, UsageError
from tacit.ports import Entropy
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.quantity import exact
from tacit.recipe.training import External, RoundModel, Training, read_round_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SEED_BYTES: Final = 16
"""Of the generator that chooses the examples of each step."""


class Trainer:
    """Trains the models of rounds whose files are in ``models``; ``learner`` those that only the application knows."""

    def __init__(self, models: ModelFiles, entropy: Entropy, learner: Learner | None = None) -> None:
        self._models, self._entropy, self._learner = models, entropy, learner

    def ready(self, recipe: Recipe) -> bool:
        """Whether the round's model is here."""
        return self._models.of(recipe) is not None

    def trains(self, recipe: Recipe, ask: Ask, is_over: Callable[[], bool]) -> Ask:
        """A function that makes the vector that the device sends, or None where it has no examples, which it asks for
        with ``ask``, or the application has none. It may run in another thread, gives up when ``is_over``, and raises
        ``UsageError`` where no update can be made."""
        file, seed = self._models.of(recipe), int.from_bytes(self._entropy(_SEED_BYTES), "big")
        spec, stated = recipe.question.encoder, recipe.question.round_input or ""

        def trained() -> Value | None:
            if file is None or not isinstance(spec, Update):
                raise UsageError("the round's model is not here any more")
            training, metric = spec.training, recipe.question.metric
            try:
                if isinstance(training.architecture, External):
                    update = update_by(self._learner, metric, training, file)
                else:
                    value = ask()
                    update = None if value is None else _update(training, file, value, seed, is_over)
                return None if update is None else _vector(spec, read_round_model(stated, training), update)
            except (DecodeError, ValueError) as error:
                raise UsageError(f"no update: {error}") from error

        return trained


def _update(
    training: Training, file: bytes, value: Value, seed: int, is_over: Callable[[], bool]
) -> NDArray[np.float64]:
    """The update of the examples in ``value``. Raises ``DecodeError``, ``ValueError`` and ``TimeoutError``."""
    import numpy as np

    from tacit.learning import local, model_file

    examples = local.examples_of(training.architecture, _numbers(value))
    random = np.random.default_rng(seed)
    return local.local_update(training, model_file.decode(file), examples, random, is_over)


def _vector(spec: Update, stated: RoundModel, update: NDArray[np.float64]) -> list[str | int | float | bool]:
    """What the encoder is given: the update, clipped."""
    from tacit.learning import local
    from tacit.learning.projection import projection_of

    training = spec.training
    norm = float(exact(spec.norm)) * local.room_for_units(spec.length, spec.radius)
    projected = projection_of(training, stated.model)
    vector: list[str | int | float | bool] = local.sent_vector(
        training, update, float(exact(stated.clip)), norm, projected
    ).tolist()
    return vector


def _numbers(value: Value) -> list[float]:
    """The numbers of a list, or of a text with commas between them. Raises ``DecodeError``."""
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, list | tuple):
        raise DecodeError("examples: there must be a list of numbers, or numbers with commas between them")
    try:
        return [float(entry) for entry in entries]
    except (TypeError, ValueError, OverflowError) as error:
        raise DecodeError("examples: something is not a number") from error
