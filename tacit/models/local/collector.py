"""The local model, the collector: estimates from the analyzer's sums, or from what its search found."""

from __future__ import annotations

import itertools

from tacit.errors import Refusal
from tacit.methods.affine import AffineHashing
from tacit.methods.result import Item, Ranked, Result
from tacit.models.faces.one_server_collector import AnalyzerCollector
from tacit.models.local.task import local_task
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import Encoder, StringEncoder, encoder_of
from tacit.recipe.model import Recipe
from tacit.roles.batches import RATE_FACTOR
from tacit.roles.collector import AggregateResult
from tacit.succinct.tree import FALSE_POSITIVE_RATE, MAX_TOP, Found, others_below, threshold
from tacit.task.one_server import OneServerTask

CONFIDENCE = 0.95


class LocalCollector(AnalyzerCollector):
    """The collector side of model ``local``."""

    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """See ``local_task``."""
        return local_task(recipe, slot_key)

    def result(self, recipe: Recipe, aggregate: AggregateResult) -> Result:
        """An answer for each label, or the most frequent items of a large domain."""
        method = randomizer_of(recipe)
        if isinstance(method, AffineHashing):
            return ranked(recipe, method, aggregate)
        return super().result(recipe, aggregate)


def ranked(recipe: Recipe, method: AffineHashing, aggregate: AggregateResult) -> Ranked:
    """The items whose estimate passes the threshold. Raises refusal ``collection-values`` for a search that cannot come
    from the recipe's reports."""
    encoder, design = encoder_of(recipe.question), design_of(recipe)
    try:
        found = _checked(recipe, method, aggregate)
        least = threshold(found, method, design, FALSE_POSITIVE_RATE)
        estimate = method.estimate(found.supports, found.levels[-1].reports, design)
    except ValueError as error:
        raise Refusal("collection-values", str(error)) from error
    passing = sum(value >= least for value in estimate.values)
    rows = zip(found.items[:passing], estimate.values, estimate.stderrs, strict=False)
    texts = ((_text(encoder, item), value, stderr) for item, value, stderr in rows)
    items = tuple(Item(text, value, stderr) for text, value, stderr in texts if text is not None)
    rest = others_below(found.first(passing), method, design, CONFIDENCE)
    return Ranked(items, max(1.0, rest), CONFIDENCE, least, FALSE_POSITIVE_RATE)


def _checked(recipe: Recipe, method: AffineHashing, aggregate: AggregateResult) -> Found:
    """The search, which must be one of this many reports, over this domain. Numbers that no search has would take long,
    or could not be computed with."""
    found = Found.from_document(aggregate.search)
    if len(found.levels) != len(method.levels):
        raise ValueError(f"the search has {len(found.levels)} levels, the recipe {len(method.levels)}")
    if sum(level.reports for level in found.levels) != aggregate.report_count:
        raise ValueError("the levels of the search must have all reports together")
    if aggregate.report_count > RATE_FACTOR * recipe.batch.expected_contributions:
        raise ValueError("there are more reports than are ever released")
    if any(item >> method.bits for item in found.items):
        raise ValueError(f"items must have {method.bits} bits")
    for level, (before, after) in zip(found.levels, itertools.pairwise((0, *method.levels)), strict=True):
        prefixes, rest = divmod(level.candidates, 1 << (after - before))
        if rest or not 1 <= prefixes <= (MAX_TOP if before else 1):
            raise ValueError("candidates must be all extensions of the prefixes that are kept")
    return found


def _text(encoder: Encoder, item: int) -> str | None:
    """The text of an item; None for one that no text of the domain has, which was found by chance."""
    return encoder.text(item) if isinstance(encoder, StringEncoder) else None
