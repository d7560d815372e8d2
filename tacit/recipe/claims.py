"""The privacy claim of a recipe, recomputed from its parameters by every party."""

from __future__ import annotations

from tacit.dp.claim import Claim, NoiseStep, compute_claim, compute_noise_claim
from tacit.errors import Refusal
from tacit.randomizers.flips import Flips
from tacit.recipe.derive import randomizer_of, vector_step
from tacit.recipe.model import EncoderSpec, Recipe, Vector


def claim_of(recipe: Recipe, n: int | None = None) -> Claim:
    """The claim at ``n`` reports (default: B). Refusal ``randomizer-parameters`` or ``claim-not-computable``."""
    randomizer = randomizer_of(recipe)
    reports = recipe.batch.min_batch_size if n is None else n
    try:
        if isinstance(randomizer, Flips):
            step = noise_step(recipe.question.encoder, randomizer)
            return compute_noise_claim(step, n=reports, sampling_rate=float(recipe.rate), delta=float(recipe.delta))
        return compute_claim(
            randomizer=recipe.randomizer.name,
            epsilon0=float(recipe.epsilon0),
            n=reports,
            sampling_rate=float(recipe.rate),
            delta=float(recipe.delta),
            reject_probability=randomizer.reject_probability,
        )
    except ValueError as error:
        raise Refusal("claim-not-computable", str(error)) from error


def noise_step(encoder: EncoderSpec, shares: Flips) -> NoiseStep:
    """What replacing one device's answer changes in the sum of its randomised answers: two cells of a histogram, one
    number, or a vector."""
    if isinstance(encoder, Vector):
        return NoiseStep(shares.scale, shares.flips, vector=vector_step(encoder), batch_flips=shares.batch_flips)
    cells = 1 if shares.cells == 1 else 2
    return NoiseStep(shares.scale, shares.flips, shares.maximum, cells, batch_flips=shares.batch_flips)
