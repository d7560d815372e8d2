"""The privacy claim of a recipe, recomputed from its parameters by every party."""

from __future__ import annotations

from tacit.dp.claim import Claim, compute_claim
from tacit.errors import Refusal
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe


def claim_of(recipe: Recipe, n: int | None = None) -> Claim:
    """The claim at ``n`` reports (default: B). Refusal ``randomizer-parameters`` or ``claim-not-computable``."""
    randomizer = randomizer_of(recipe)
    try:
        return compute_claim(
            randomizer=recipe.randomizer.name,
            epsilon0=float(recipe.epsilon0),
            n=recipe.batch.min_batch_size if n is None else n,
            sampling_rate=float(recipe.rate),
            delta=float(recipe.delta),
            reject_probability=randomizer.reject_probability,
        )
    except ValueError as error:
        raise Refusal("claim-not-computable", str(error)) from error
