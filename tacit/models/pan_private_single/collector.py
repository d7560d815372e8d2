"""Local pan-privacy with one server, the collector: asks the analyzer for the sum until it is released."""

from __future__ import annotations

from tacit.models.interfaces.one_server_collector import AnalyzerCollector
from tacit.models.pan_private_single.task import one_server_task
from tacit.recipe.model import Recipe
from tacit.task.one_server import OneServerTask


class PanPrivateSingleCollector(AnalyzerCollector):
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """Derive the task of a recipe. Raises the refusals of ``one_server_task``."""
        return one_server_task(recipe, slot_key)
