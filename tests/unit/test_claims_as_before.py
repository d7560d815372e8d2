"""Methods claim to the last digit, and state to the last byte, what was claimed and stated before they had a room."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.recipes import RecipeKit
from tacit.dp.vector_noise import VectorStep
from tacit.errors import UsageError
from tacit.methods.registry import METHODS
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import randomizer_of, vdaf_spec
from tacit.recipe.model import Number, Question, Recipe, Vector
from tests.unit import claims_before as before

KIT = RecipeKit()


def question(statistic: str, **encoder: Any) -> Question:
    return Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic})


HISTOGRAMS = st.sampled_from([2, 3, 8, 24]).map(
    lambda cells: question("histogram", kind="buckets", edges=list(range(cells)))
)
COUNTS = st.just(question("count", kind="boolean"))
NUMBERS = st.builds(
    lambda statistic, low, span: question(statistic, kind="number", low=low, high=low + span),
    st.sampled_from(["sum", "mean"]),
    st.integers(-60, 60),
    st.integers(1, 90),
)
VECTORS = st.builds(
    lambda length, low, norm: question("vector-sum", kind="vector", length=length, low=low, high=8, norm=norm),
    st.integers(1, 20),
    st.sampled_from([0, -8]),
    st.integers(1, 30),
)
ASKED = st.one_of(
    st.tuples(HISTOGRAMS, st.sampled_from(["krr", "rappor", "flips"])),
    st.tuples(COUNTS, st.sampled_from(["rr", "flips"])),
    st.tuples(NUMBERS | VECTORS, st.just("flips")),
)


@settings(max_examples=25, deadline=None)
@given(
    ASKED,
    st.integers(100, 5000),
    st.sampled_from(["1", "0.5", "0.07"]),
    st.sampled_from(["0.3", "1", "2.5"]),
    st.sampled_from([0, 64]),
)
def test_every_claim_and_every_member_is_the_old_one(
    asked: tuple[Question, str], batch_size: int, rate: str, epsilon: str, batch_flips: int
) -> None:
    question, name = asked
    try:
        recipe = KIT.recipe(
            question=question,
            randomizer=name,
            min_batch_size=batch_size,
            population=20 * batch_size,
            rate=Decimal(rate),
            epsilon=Decimal(epsilon),
            aggregator_flips=0 if METHODS[name].IS_LOCAL else batch_flips,
        )
    except UsageError:
        return
    for n in (batch_size, batch_size // 2, 3 * batch_size):
        claim = claim_of(recipe, n)
        assert (claim.mechanism, tuple(claim.values())) == old_claim(recipe, n)
    if METHODS[name].IS_LOCAL:
        spec = recipe.randomizer
        largest = before.largest_epsilon0(name, batch_size, float(recipe.delta), float(epsilon))
        assert recipe.epsilon0 == min(Decimal(repr(largest)), Decimal(8))
        cells = spec.categories
        members = before.local_members(name, cells, recipe.epsilon0, batch_size, float(recipe.delta))
        assert vdaf_spec(recipe).model_dump(exclude_none=True) == members["vdaf"]
        assert spec.model_dump(exclude_none=True).items() >= members["randomizer"].items()


def old_claim(recipe: Recipe, n: int) -> tuple[str, tuple[float, ...]]:
    spec, encoder, rate, delta = recipe.randomizer, recipe.question.encoder, float(recipe.rate), float(recipe.delta)
    if spec.name != "flips":
        reject = randomizer_of(recipe).reject_probability
        return before.local_claim(spec.name, float(recipe.epsilon0), n, rate, delta, reject)
    assert not isinstance(encoder, Number) or spec.maximum == encoder.maximum
    vector = None
    if isinstance(encoder, Vector):
        one_signed = 0 in (encoder.low, encoder.high)
        vector = VectorStep.replaced(encoder.length, encoder.maximum, encoder.radius, one_signed=one_signed)
    given = {"scale": spec.scale or 0, "flips": spec.flips or 0, "maximum": spec.maximum or 0}
    cells = 1 if spec.categories == 1 else 2
    return before.noise_claim(given, vector, cells, recipe.aggregator_flips, n, rate, delta)
