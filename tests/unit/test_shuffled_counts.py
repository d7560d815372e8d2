"""Noise of counts in the shuffled model: exact enumeration of tiny populations, and the figures of the paper."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.dp.shuffled_counts import (
    delta_hist,
    delta_zsum,
    epsilon_hist,
    epsilon_zsum,
    lambda_hist,
    lambda_zsum,
    paper_hist_lambda,
    paper_lambda,
)

Multiset = tuple[int, ...]
"""How many messages of each category the analyzer sees."""


def multisets(values: tuple[int, ...], categories: int, p: Fraction) -> dict[Multiset, Fraction]:
    """The exact law of what the analyzer sees: each device sends its own category, and in every category one more
    message with probability ``p``."""
    law: dict[Multiset, Fraction] = {(0,) * categories: Fraction(1)}
    for value in values:
        new: dict[Multiset, Fraction] = defaultdict(Fraction)
        for seen, chance in law.items():
            for noise in itertools.product((0, 1), repeat=categories):
                share = math.prod((p if bit else 1 - p for bit in noise), start=Fraction(1))
                total = tuple(
                    count + bit + (category == value)
                    for category, (count, bit) in enumerate(zip(seen, noise, strict=True))
                )
                new[total] += chance * share
        law = dict(new)
    return law


def stick(one: dict[Multiset, Fraction], other: dict[Multiset, Fraction], epsilon: float) -> float:
    """The hockey stick of two laws."""
    bound = Fraction(math.exp(epsilon))
    return float(sum(max(Fraction(0), share - bound * other.get(seen, Fraction(0))) for seen, share in one.items()))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("users", [2, 3, 4])
@pytest.mark.parametrize("categories", [2, 3])
def test_the_delta_of_a_histogram_is_that_of_all_it_can_show(users: int, categories: int, epsilon: float) -> None:
    p = Fraction(2, 7)
    stated = delta_hist(epsilon, users, float(p) * users)
    others = tuple(range(categories))[: users - 1] + (0,) * max(0, users - 1 - categories)
    laws = [multisets((value, *others), categories, p) for value in range(categories)]
    worst = max(stick(one, other, epsilon) for one, other in itertools.permutations(laws, 2))
    assert worst == pytest.approx(stated, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("users", [1, 2, 5])
@pytest.mark.parametrize("p", [Fraction(1, 5), Fraction(4, 5)])
def test_the_delta_of_one_cell_is_that_of_its_total_and_of_its_mirror_image(
    users: int, p: Fraction, epsilon: float
) -> None:
    laws = [multisets((value, *[0] * (users - 1)), 2, p) for value in (0, 1)]
    cells: list[dict[Multiset, Fraction]] = []
    for law in laws:
        cell: dict[Multiset, Fraction] = defaultdict(Fraction)
        for (first, _), share in law.items():
            cell[(first,)] += share
        cells.append(dict(cell))
    none, own = cells
    worst = max(stick(none, own, epsilon), stick(own, none, epsilon))
    assert worst == pytest.approx(delta_zsum(epsilon, users, float(p) * users), rel=1e-8, abs=1e-12)
    assert delta_zsum(epsilon, users, float(1 - p) * users) == pytest.approx(worst, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "paper", "exact"),
    [
        (0.25, 1e-6, 11607, 280.2),
        (0.25, 1e-8, 15291, 431.5),
        (0.25, 1e-10, 18975, 589.0),
        (0.5, 1e-6, 2902, 90.1),
        (0.5, 1e-8, 3823, 134.9),
        (0.5, 1e-10, 4744, 181.2),
        (1, 1e-6, 725, 34.1),
        (1, 1e-8, 956, 49.4),
        (1, 1e-10, 1186, 65.1),
    ],
)
def test_one_cell_needs_far_less_noise_than_the_paper_takes(
    epsilon: float, delta: float, paper: float, exact: float
) -> None:
    assert paper_lambda(epsilon, delta) == pytest.approx(paper, abs=0.5)
    found = lambda_zsum(epsilon, delta, 10**6)
    assert found == pytest.approx(exact, abs=0.06)
    assert delta_zsum(epsilon, 10**6, found) <= delta
    assert delta_zsum(epsilon, 10**6, 0.99 * found) > delta
    assert epsilon_zsum(10**6, found, delta) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "paper", "exact"),
    [
        (0.5, 1e-6, 12161, 136.1),
        (0.5, 1e-8, 15846, 203.9),
        (1, 1e-6, 3040, 42.7),
        (1, 1e-8, 3961, 62.1),
        (2, 1e-6, 760, 18.1),
        (2, 1e-8, 990, 25.5),
    ],
)
def test_two_cells_that_move_in_opposite_directions_are_accounted_together(
    epsilon: float, delta: float, paper: float, exact: float
) -> None:
    assert paper_hist_lambda(epsilon, delta) == pytest.approx(paper, abs=0.5)
    found = lambda_hist(epsilon, delta, 10**6)
    assert found == pytest.approx(exact, abs=0.06)
    assert delta_hist(epsilon, 10**6, found) <= delta
    assert epsilon_hist(10**6, found, delta) == pytest.approx(epsilon, rel=1e-5)
    assert found < lambda_zsum(epsilon / 2, delta / 2, 10**6)


@settings(max_examples=40)
@given(st.integers(3, 400), st.floats(0.05, 0.45), st.floats(0, 3))
def test_more_noise_and_more_users_never_reveal_more(users: int, share: float, epsilon: float) -> None:
    noise = share * users
    assert delta_hist(epsilon, users, 1.1 * noise) <= delta_hist(epsilon, users, noise) * (1 + 1e-6) + 1e-15
    assert delta_hist(epsilon, 2 * users, 2 * noise) <= delta_hist(epsilon, users, noise) * (1 + 1e-6) + 1e-15


def test_below_the_papers_least_number_of_users_the_exact_noise_still_holds() -> None:
    assert 100 / 0.25**2 * math.log(2 / 1e-6) > 10**4
    assert lambda_zsum(0.25, 1e-6, 10**4) == pytest.approx(285.7, abs=0.05)


@pytest.mark.parametrize(
    ("epsilon", "users", "noise", "words"),
    [(1.0, 10, 0.0, "lambda"), (1.0, 10, 10.0, "lambda"), (-1.0, 10, 2.0, "epsilon"), (1.0, 0, 2.0, "n must")],
)
def test_parameters_out_of_range_are_refused(epsilon: float, users: int, noise: float, words: str) -> None:
    for function in (delta_zsum, delta_hist):
        with pytest.raises(ValueError, match=words):
            function(epsilon, users, noise)


def test_too_few_users_cannot_hide_one_of_them() -> None:
    with pytest.raises(ValueError, match="50 users cannot hide"):
        lambda_hist(0.1, 1e-6, 50)
    with pytest.raises(ValueError, match="above 0"):
        paper_lambda(0, 1e-6)
