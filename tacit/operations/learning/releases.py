"""What the release of a training round says: the mean of what devices sent, where that many can have sent it.

A release states totals over all devices, made of the sum over those who took part divided by the rate q of their coin
(``tacit.methods.flips``); the mean is the sum over their number n, ``q total / n``. Every release is held to what n
valid contributions can add up to, as the collector holds the aggregators' shares to it (``tacit.vdaf.release``): one
that was forged or damaged afterwards would otherwise be trained on by everybody who follows the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UsageError
from tacit.methods.flips import Flips
from tacit.methods.result import rows
from tacit.recipe.derive import randomizer_of, vdaf_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe
from tacit.roles.batches import RATE_FACTOR
from tacit.vdaf.release import require_plausible

Documents = Sequence[Mapping[str, Any]]


def released_mean(recipe: Recipe, documents: Documents) -> tuple[NDArray[np.float64] | None, int | None]:
    """The mean of what was sent in a round, and how many took part; None where nothing is released. Raises
    ``UsageError`` for releases that are not of the round, are malformed, come twice, have fewer than B contributions or
    more than the recipe allows for, or numbers that so many valid ones cannot add up to."""
    if any(one in documents[:at] for at, one in enumerate(documents)):
        raise UsageError(f"a release of {recipe.name} comes twice")
    try:
        return _mean_vector(recipe, documents)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise UsageError(f"a release of {recipe.name} is malformed") from error


def _mean_vector(recipe: Recipe, documents: Documents) -> tuple[NDArray[np.float64] | None, int | None]:
    if not documents:
        return None, None
    if any(one.get("recipe_hash") != recipe.hash_text for one in documents):
        raise UsageError(f"a release is not of {recipe.name}")
    if any(type(one["report_count"]) is not int or one["report_count"] < 1 for one in documents):
        raise UsageError(f"a release of {recipe.name} has no contributions")
    _require_size(recipe, [one["report_count"] for one in documents])
    labels = encoder_of(recipe.question).labels
    columns = [_totals(recipe, one, labels) for one in documents]
    for one, totals in zip(documents, columns, strict=True):
        _require_possible(recipe, totals, one["report_count"])
    reports = sum(one["report_count"] for one in documents)
    whole = np.array([math.fsum(cell) for cell in zip(*columns, strict=True)])
    return whole * (float(recipe.rate) / reports), reports


def _totals(recipe: Recipe, document: Mapping[str, Any], labels: Sequence[str]) -> list[float]:
    """The estimates of a release in the order of ``labels``; of many, those that are 0 are not listed."""
    found = rows(document)
    listed = {row["label"]: float(row["estimate"]) for row in found}
    unlisted = document.get("unlisted", {}).get("answers", 0)
    if (
        len(found) + unlisted != len(labels)
        or len(listed) < len(found)
        or not listed.keys() <= set(labels)
        or not all(map(math.isfinite, listed.values()))
    ):
        raise UsageError(f"a release of {recipe.name} does not have the {len(labels)} numbers of its update")
    return [listed.get(label, 0.0) for label in labels]


def _require_size(recipe: Recipe, counts: Sequence[int]) -> None:
    """Refuse numbers of contributions that honest aggregators do not release (P15)."""
    least, most = recipe.batch.min_batch_size, RATE_FACTOR * recipe.batch.expected_contributions
    if min(counts) < least or sum(counts) > most:
        raise UsageError(
            f"a release of {recipe.name} does not have the {least} to {most} contributions that aggregators release"
        )


def _require_possible(recipe: Recipe, totals: Sequence[float], reports: int) -> None:
    """Refuse estimates of which no sum of ``reports`` valid contributions is the origin: the sums are found by undoing
    ``FlipsEstimator.estimate``, in whole numbers, as floating-point ones may be too large."""
    method = randomizer_of(recipe)
    if not isinstance(method, Flips):
        raise UsageError(f"{recipe.name} has no noise shares")
    rate = Fraction(recipe.rate)
    steps = [(Fraction(total) * rate - reports * method.low) / method.unit for total in totals]
    sums = tuple(round(step * method.scale + Fraction(reports * method.flips, 2)) for step in steps)
    try:
        require_plausible(vdaf_of(recipe), sums, reports, method.batch_flips)
    except ValueError as error:
        raise UsageError(
            f"a release of {recipe.name} has numbers that {reports} contributions cannot add up to; it is not trained "
            "on: ask the collector's operator what it released, and begin a new series with another name of the plan"
        ) from error
