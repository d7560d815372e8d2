"""The task of a recipe of model ``pan-private-single``, as devices, the analyzer and the collector derive it."""

from __future__ import annotations

from tacit.models.interfaces.one_server import task_of_one_server
from tacit.panprivate.elgamal import ciphertext_size
from tacit.recipe.encoder import labels
from tacit.recipe.model import Recipe
from tacit.task.one_server import OneServerTask


def one_server_task(recipe: Recipe, token_key_spki: bytes) -> OneServerTask:
    """The recipe's task: a report has one ciphertext for each label. Raises as ``task_of_one_server``."""
    cells = len(labels(recipe))
    return task_of_one_server(recipe, token_key_spki, cells, cells * ciphertext_size())
