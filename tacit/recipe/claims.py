"""The privacy claim of a recipe, recomputed from its parameters by every party."""

from __future__ import annotations

from tacit.dp.claim import Claim
from tacit.dp.hidden_claim import Sample, count_cost
from tacit.errors import Refusal
from tacit.models.forms import form_of
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe

CLAIMS_KEPT = 16
"""Computed values of one recipe, with which no further claim is kept: a search for what would pass asks for many."""


def claim_of(recipe: Recipe, n: int | None = None) -> Claim:
    """The claim at ``n`` reports (default: B), dummies included. Raises refusal ``model-unsupported``,
    ``randomizer-parameters`` or ``claim-not-computable``."""
    size = recipe.batch.min_batch_size if n is None else n
    name = f"claim at {size}"
    claim: Claim = recipe.derived.get(name) or _computed(recipe, size)
    if len(recipe.derived) < CLAIMS_KEPT:
        recipe.derived[name] = claim
    return claim


def _computed(recipe: Recipe, size: int) -> Claim:
    form = form_of(recipe.model)
    try:
        return form.claim(randomizer_of(recipe), sample_of(recipe), n=size, delta=float(recipe.delta))
    except ValueError as error:
        raise Refusal("claim-not-computable", str(error)) from error


def count_cost_of(recipe: Recipe) -> float:
    """What the number of messages at B adds, before sampling, to claim (a) of a recipe with importance sampling or
    dummies; infinite where nothing hides one message. Raises refusal ``randomizer-parameters`` or
    ``claim-not-computable``."""
    size = recipe.batch.min_batch_size
    try:
        return count_cost(randomizer_of(recipe), sample_of(recipe), n=size, delta=float(recipe.delta))
    except ValueError as error:
        raise Refusal("claim-not-computable", str(error)) from error


def sample_of(recipe: Recipe) -> Sample:
    """Who sends, in the form that claims need. ``ValueError`` names a bad parameter."""
    importance, dummies = recipe.sampling.importance, recipe.sampling.dummies
    return Sample(
        recipe.batch.min_batch_size,
        float(recipe.rate),
        None if importance is None else float(importance.default_rate),
        0.0 if dummies is None else float(dummies.intensity),
        None if dummies is None else dummies.population,
        1 if importance is None else importance.devices or 1,
    )
