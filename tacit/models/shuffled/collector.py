"""The shuffled model, the collector: estimates from the analyzer's totals."""

from __future__ import annotations

from dataclasses import replace

from tacit.methods.estimators.shuffled import shuffled_estimator_of
from tacit.methods.result import Buckets, Zeros
from tacit.models.interfaces.one_server_collector import AnalyzerCollector
from tacit.models.interfaces.release import buckets_of
from tacit.models.shuffled.task import analyzer_task, counts_of
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tacit.task.one_server import OneServerTask

CONFIDENCE = 0.95
"""With this probability an answer that is released as 0 has fewer devices than stated."""


class ShuffledCollector(AnalyzerCollector):
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """The task whose sum is collected: the analyzer's. Raises as ``analyzer_task``."""
        return analyzer_task(recipe, slot_key)

    def result(self, recipe: Recipe, aggregate: AggregateResult) -> Buckets:
        """An estimate for each label, and what one of 0 means."""
        found, n = buckets_of(recipe, aggregate), aggregate.report_count
        estimator = shuffled_estimator_of(counts_of(recipe))
        below, false = (
            estimator.zeros_below(n, float(recipe.rate), 1 - CONFIDENCE),
            estimator.false_positive_rate(n),
        )
        if below is None or false is None:
            return found
        return replace(found, zeros=Zeros(below, CONFIDENCE, false))
