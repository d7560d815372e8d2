"""Exactness of the samplers: thresholds never exceed epsilon0, draws follow their thresholds."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.draws import ONE, bernoulli, epsilon0_from, keep_threshold
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.uniform import uniform_below
from tests.kit.methods import randomizer_from

EPSILONS = ["0.000001", "0.1", "0.5", "1", "2.718281828", "3.1", "8", "40"]
BIAS = Fraction(1, 2**64)


def e_to_the(epsilon: Decimal) -> Fraction:
    """Compute e^epsilon to 100 digits."""
    with localcontext() as context:
        context.prec = 100
        return Fraction(epsilon.exp())


@pytest.mark.parametrize("text", EPSILONS)
@pytest.mark.parametrize("categories", [2, 3, 16, 1000])
def test_krr_never_exceeds_epsilon0_and_stays_within_the_bias_bound(text: str, categories: int) -> None:
    krr = randomizer_from("krr", text, categories)
    true, other = krr.output_probabilities()
    power = e_to_the(Decimal(text))
    assert true + (categories - 1) * other == 1
    assert true / other <= power
    assert 0 <= power / (power + categories - 1) - true < BIAS


@pytest.mark.parametrize("text", EPSILONS)
def test_rr_and_rappor_never_exceed_epsilon0(text: str) -> None:
    power = e_to_the(Decimal(text))
    one, zero = randomizer_from("rr", text, 2).output_probabilities()
    assert one + zero == 1
    assert one / zero <= power
    assert 0 <= power / (power + 1) - one < BIAS
    kept, flipped = randomizer_from("rappor", text, 8, 8).output_probabilities()
    assert kept + flipped == 1
    assert (kept / flipped) ** 2 <= power
    root = e_to_the(Decimal(text) / 2)
    assert 0 <= root / (root + 1) - kept < BIAS


def test_bernoulli_compares_128_bits_with_the_threshold() -> None:
    def fixed(value: int) -> bool:
        return bernoulli(1000, lambda length: value.to_bytes(length, "big"))

    assert [fixed(value) for value in (0, 999, 1000, ONE - 1)] == [True, True, False, False]


def test_uniform_redraws_instead_of_favouring_small_values() -> None:
    draws = [ONE - 1, 4]
    assert uniform_below(3, lambda length: draws.pop(0).to_bytes(length, "big")) == 1
    assert draws == []


@given(st.integers(1, 2**64), st.integers(0, 2**32))
def test_uniform_stays_below_its_bound(bound: int, seed: int) -> None:
    assert 0 <= uniform_below(bound, SeededEntropy(seed)) < bound


@pytest.mark.parametrize("bound", [0, -1, 2**64 + 1])
def test_uniform_refuses_a_bound_out_of_range(bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        uniform_below(bound, SeededEntropy(1))


def test_epsilon0_is_read_as_the_decimal_that_a_person_wrote() -> None:
    assert epsilon0_from(3.1) == epsilon0_from("3.1") == epsilon0_from(Decimal("3.1")) == Decimal("3.1")


@pytest.mark.parametrize("bad", ["x", "NaN", "inf", 0, -1, 41, float("nan"), float("inf"), "1e-9"])
def test_a_bad_epsilon0_is_refused_by_name(bad: str | float) -> None:
    with pytest.raises(ValueError, match="epsilon0"):
        epsilon0_from(bad)


def test_thresholds_of_equal_probabilities_are_near_one_half() -> None:
    assert 0 < keep_threshold(Decimal("0.000001"), 1) - ONE // 2 < ONE // 10**6


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("olh", 1.0, 4), "randomizer"),
        (("krr", 1.0, 1), "categories"),
        (("krr", 1.0, 4, 2), "krr has max_weight"),
        (("rappor", 1.0, 4), "rappor needs"),
        (("rappor", 1.0, 4, 0), "max_weight"),
        (("rappor", 1.0, 4, 5), "max_weight"),
        (("rappor", 1.0, 1, 1), "categories"),
        (("rappor", 1.0, 2000, 1), "categories"),
        (("rr", 1.0, 3), "categories"),
        (("rr", float("nan"), 2), "epsilon0"),
    ],
)
def test_a_randomizer_with_bad_parameters_is_refused_by_name(arguments: tuple[str, float, int], name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} "):
        randomizer_from(*arguments)


@pytest.mark.parametrize("category", [-1, 4])
@pytest.mark.parametrize("name", ["krr", "rappor", "rr"])
def test_a_category_out_of_range_is_refused(name: str, category: int) -> None:
    randomizer = randomizer_from(name, 1.0, 2 if name == "rr" else 4, 4 if name == "rappor" else None)
    with pytest.raises(ValueError, match="category"):
        device_randomiser_of(randomizer).randomise(category, SeededEntropy(0))
