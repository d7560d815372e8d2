"""How pages write numbers: costs never smaller than they are, lengths of time in a unit that people use."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.admin.pages.charts import Fill
from services.admin.pages.claims import meaning
from services.admin.pages.rendering import format_epsilon, lasting
from services.admin.people.people import WORDS, Permission, forbidden


@given(st.decimals(min_value="0.001", max_value="99", places=6, allow_nan=False))
def test_a_cost_in_four_digits_is_never_smaller_and_hardly_larger(exact: Decimal) -> None:
    shown = Decimal(format_epsilon(str(exact)))
    assert exact <= shown < exact + Decimal("0.0001")


@pytest.mark.parametrize(("exact", "shown"), [("0.999984", "1"), ("0.000001", "0.000001"), ("0", "0"), ("2.6", "2.6")])
def test_a_whole_cost_is_whole_and_a_small_one_stays_as_it_is(exact: str, shown: str) -> None:
    assert format_epsilon(exact) == shown


@given(st.floats(min_value=0, max_value=6.9, exclude_min=True))
def test_what_an_epsilon_means_is_never_told_as_less(epsilon: float) -> None:
    told = float(meaning(epsilon).split("at most ")[1].split()[0])
    assert math.exp(epsilon) <= told * (1 + 1e-12) <= math.exp(epsilon) * 1.011


def test_where_an_epsilon_is_nothing_nothing_is_told() -> None:
    assert meaning(0.0) == "what it sees is as likely with one answer of a device as with any other"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3600, "60 minutes"), (7200, "2 hours"), (86400, "24 hours"), (30 * 86400, "30 days"), (90, "90 seconds")],
)
def test_a_length_of_time_is_told_in_a_unit_of_which_it_has_two(seconds: float, words: str) -> None:
    assert lasting(seconds) == words


def test_a_batch_of_which_nothing_was_told_is_drawn_empty() -> None:
    told = {"contributions": 0, "min_batch_size": 400, "least": None, "most": None}
    assert (Fill.of(told, 500).count, Fill.of(told, 500).most) == (0, 0)
    assert Fill.of(told | {"contributions": 80}, 500).most == 100, "it may be anything from there on"


def test_whoever_may_not_hears_what_it_would_take_in_words() -> None:
    assert set(WORDS) == set(Permission)
    assert "publish, collect and end" in str(forbidden(Permission.OPERATE).detail)
