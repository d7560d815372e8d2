"""The task of model ``local``: the analyzer reads single reports."""

from __future__ import annotations

from tacit.methods.packing import packing_of
from tacit.models.interfaces.one_server import task_of_one_server
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.task.one_server import OneServerTask


def local_task(recipe: Recipe, token_key_spki: bytes) -> OneServerTask:
    """The recipe's task. Raises as ``task_of_one_server``, and refusal ``randomizer-parameters``."""
    packing = packing_of(randomizer_of(recipe))
    return task_of_one_server(recipe, token_key_spki, packing.cells, packing.size)
