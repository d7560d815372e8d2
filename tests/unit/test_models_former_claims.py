"""Claims are those of before models, to the last digit, over random recipes."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.recipes import RecipeKit
from tacit.dp.claim import NoiseStep
from tacit.dp.hidden_claim import Sample, local_reports, noise_reports
from tacit.errors import Refusal
from tacit.recipe.claims import claim_of, noise_step, reports_of, sample_of
from tacit.recipe.derive import flips_of, randomizer_of
from tacit.recipe.model import Recipe
from tests.claims import FORM
from tests.unit.former_claims import FormerClaim, compute_claim, compute_hidden_claim, compute_noise_claim

KIT = RecipeKit()
RECIPES = [KIT.recipe(), KIT.recipe(randomizer="rappor"), KIT.recipe(randomizer="flips", epsilon=Decimal("0.9"))]


def former(recipe: Recipe, n: int) -> FormerClaim:
    """As ``claim_of`` was."""
    rate, delta = float(recipe.rate), float(recipe.delta)
    if recipe.sampling.importance is not None or recipe.sampling.dummies is not None:
        return compute_hidden_claim(reports_of(recipe), sample_of(recipe), n=n, delta=delta)
    if recipe.randomizer.name == "flips":
        step = noise_step(recipe.question.encoder, flips_of(recipe))
        return compute_noise_claim(step, n=n, sampling_rate=rate, delta=delta)
    return compute_claim(
        randomizer=recipe.randomizer.name,
        epsilon0=float(recipe.epsilon0),
        n=n,
        sampling_rate=rate,
        delta=delta,
        reject_probability=randomizer_of(recipe).reject_probability,
    )


def members(claim: Any) -> dict[str, Any]:
    found = dataclasses.asdict(claim)
    return {**found.pop("by_adversary", {}), **found}


SAMPLING = st.fixed_dictionaries(
    {"rate": st.decimals("0.01", "1", places=3).map(str)},
    optional={
        "importance": st.fixed_dictionaries(
            {"default": st.just(0), "default_rate": st.decimals("0.01", "0.5", places=3).map(str)},
            optional={"devices": st.integers(1, 10**6)},
        ),
        "dummies": st.fixed_dictionaries(
            {"intensity": st.decimals("0", "400", places=2).map(str), "population": st.integers(401, 10**6)}
        ),
    },
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(RECIPES),
    SAMPLING,
    st.integers(1, 100_000),
    st.floats(0.01, 1),
    st.sampled_from(["0.000001", "0.0000000001", "0.01", "0"]),
    st.decimals("0.1", "12", places=3),
    st.integers(1, 5000),
)
def test_claims_are_the_former_ones_to_the_last_digit(
    recipe: Recipe,
    sampling: dict[str, Any],
    batch: int,
    share: float,
    delta: str,
    epsilon0: Decimal,
    flips: int,
) -> None:
    body = recipe.body()
    body["sampling"] = sampling
    body["batch"] |= {"min_batch_size": batch, "expected_contributions": batch}
    body["privacy"]["delta"] = delta
    body["randomizer"] |= {"flips": flips} if "flips" in body["randomizer"] else {"epsilon0": str(epsilon0)}
    changed, n = Recipe.from_body(body), max(1, math.floor(batch * share))
    try:
        wanted = members(former(changed, n))
    except ValueError:
        with pytest.raises(Refusal, match="claim-not-computable"):
            claim_of(changed, n)
        return
    assert members(claim_of(changed, n)) == wanted


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10**6), st.floats(0.001, 1), st.floats(1e-12, 0.1), st.floats(0.01, 20), st.integers(1, 400))
def test_bare_claims_are_the_former_ones_too(n: int, rate: float, delta: float, epsilon0: float, flips: int) -> None:
    for name, reject in (("krr", 0.0), ("rr", 0.0), ("rappor", 1e-9)):
        wanted = compute_claim(
            randomizer=name, epsilon0=epsilon0, n=n, sampling_rate=rate, delta=delta, reject_probability=reject
        )
        found = FORM.claim(local_reports(name, epsilon0, reject), Sample(n, rate), n=n, delta=delta)
        assert members(found) == members(wanted)
    step = NoiseStep(3, flips, 2, 2)
    try:
        noise = compute_noise_claim(step, n=n, sampling_rate=rate, delta=delta)
    except ValueError:
        with pytest.raises(ValueError, match=r"no epsilon"):
            FORM.claim(noise_reports(step), Sample(n, rate), n=n, delta=delta)
        return
    assert members(FORM.claim(noise_reports(step), Sample(n, rate), n=n, delta=delta)) == members(noise)
