"""The shuffled model's two tasks: bundles go to the shuffler, and single messages from there to the analyzer (P25)."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.methods.shuffled import ShuffledCounts
from tacit.models.interfaces.one_server import task_of_one_server
from tacit.models.parties import SHUFFLER
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.task.one_server import OneServerTask
from tacit.task.shuffled import Bundling, message_size


def counts_of(recipe: Recipe) -> ShuffledCounts:
    """The recipe's method. Raises refusal ``randomizer-parameters``, also for a method whose messages need no
    shuffling."""
    method = randomizer_of(recipe)
    if not isinstance(method, ShuffledCounts):
        raise Refusal("randomizer-parameters", f"{method.NAME} does not make messages that can be shuffled")
    return method


def bundling_of(recipe: Recipe, token_key_spki: bytes) -> Bundling:
    """How devices make the messages of a bundle. Raises the refusals of ``analyzer_task``."""
    return Bundling(analyzer_task(recipe, token_key_spki), counts_of(recipe).messages)


def analyzer_task(recipe: Recipe, token_key_spki: bytes) -> OneServerTask:
    """The task of the analyzer, to which single messages are sealed, and which takes no reports. Raises as
    ``task_of_one_server`` and ``counts_of``."""
    cells = counts_of(recipe).cells
    return task_of_one_server(recipe, token_key_spki, cells, message_size(cells))


def shuffler_task(recipe: Recipe, token_key_spki: bytes) -> OneServerTask:
    """The task of the shuffler, whose reports hold the messages of one device and count as one. Raises as
    ``task_of_one_server`` and ``counts_of``."""
    counts = counts_of(recipe)
    size = counts.messages * message_size(counts.cells)
    return task_of_one_server(recipe, token_key_spki, 1, size, role=SHUFFLER)
