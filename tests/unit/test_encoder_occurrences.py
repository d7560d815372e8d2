"""The encoder of watched events: total, monotone, and nothing but whole numbers from 0 to the most that is counted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Question

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.floats(), st.decimals(), st.lists(st.integers())
)
MOST = st.integers(1, 256)


def asked(statistic: Any, most: int) -> Question:
    spec = Occurrences(kind="occurrences", start=60, step_seconds=60, steps=30, most=most)
    return Question(text="How often was it visited?", metric="visit", encoder=spec, statistic=statistic)


@settings(max_examples=200, deadline=None)
@given(VALUES, MOST, st.sampled_from(["histogram", "mean"]))
def test_every_value_has_an_answer_from_0_to_the_most(value: Any, most: int, statistic: str) -> None:
    encoded = encoder_of(asked(statistic, most)).encode(value)
    assert type(encoded) is int
    assert 0 <= encoded <= most


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**30 - 1), MOST)
def test_a_number_of_occurrences_is_itself_up_to_the_most(value: int, most: int) -> None:
    encoder = encoder_of(asked("histogram", most))
    assert encoder.encode(value) == encoder.encode(str(value)) == encoder.encode(Decimal(value)) == min(value, most)


@settings(max_examples=200, deadline=None)
@given(st.decimals(allow_nan=False), st.decimals(allow_nan=False), MOST)
def test_more_occurrences_are_never_a_smaller_answer(one: Decimal, other: Decimal, most: int) -> None:
    encoder = encoder_of(asked("mean", most))
    low, high = (encoder.encode(value) for value in sorted((one, other)))
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert low <= high


@given(MOST)
def test_a_histogram_has_a_label_for_each_answer_and_the_other_statistics_one(most: int) -> None:
    labels = encoder_of(asked("histogram", most)).labels
    assert labels == (*map(str, range(most)), f"{most}+")
    assert len(set(labels)) == most + 1
    assert encoder_of(asked("mean", most)).labels == ("mean",)
    assert encoder_of(asked("count", 1)).labels == ("nonzero",)
