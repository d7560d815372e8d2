"""The local model, the collector: estimates from the analyzer's sums, or from what its search found."""

from __future__ import annotations

from typing import Any

from tacit.errors import Refusal
from tacit.methods.result import Item, Ranked, Result
from tacit.models.interfaces.one_server_collector import AnalyzerCollector
from tacit.models.local.task import local_task
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import Encoder, StringEncoder, encoder_of
from tacit.recipe.encoder_specs import Domain
from tacit.recipe.model import Recipe
from tacit.roles.batches import RATE_FACTOR
from tacit.roles.collector import AggregateResult
from tacit.succinct.engines import Engine, engine_of
from tacit.task.one_server import OneServerTask


class LocalCollector(AnalyzerCollector):
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """Derive the task of a recipe. Raises the refusals of ``local_task``."""
        return local_task(recipe, slot_key)

    def result(self, recipe: Recipe, aggregate: AggregateResult) -> Result:
        """An answer for each label, or the most frequent items of a large domain."""
        engine = engine_of(randomizer_of(recipe))
        return super().result(recipe, aggregate) if engine is None else rank(recipe, engine, aggregate)


def rank(recipe: Recipe, engine: Engine[Any], aggregate: AggregateResult) -> Ranked:
    """The items whose estimate passes the threshold. Raises refusal ``collection-values`` for a search that cannot come
    from the recipe's reports."""
    encoder = encoder_of(recipe.question)
    if aggregate.report_count > RATE_FACTOR * recipe.batch.expected_contributions:
        raise Refusal("collection-values", "there are more reports than are ever released")
    try:
        found = engine.ranking(aggregate.search, aggregate.report_count, design_of(recipe))
    except ValueError as error:
        raise Refusal("collection-values", str(error)) from error
    rows = zip(found.items, found.estimate.values, found.estimate.stderrs, strict=True)
    texts = ((_text(encoder, item), value, stderr) for item, value, stderr in rows)
    items = tuple(Item(text, value, stderr) for text, value, stderr in texts if text is not None)
    counted = isinstance(recipe.question.encoder, Domain) and recipe.question.encoder.outside is not None
    outside = found.outside if counted else None
    return Ranked(items, found.below, found.probability, found.threshold, found.false_positive_rate, outside)


def _text(encoder: Encoder, item: int) -> str | None:
    """The text of an item; None for one that no text of the domain has, which was found by chance."""
    return encoder.text(item) if isinstance(encoder, StringEncoder) else None
