"""Root finding: on the safe side, close to the root, and sparing with evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.dp import amplification, binomial_noise, binomial_shift, gaussian, rr_exact
from tacit.dp.solve import largest_where, largest_where_both, smallest_epsilon, smallest_epsilon_of_all

DELTA = 1e-8
CAP = 60.0
MECHANISMS: dict[str, tuple[Callable[[float], float], float]] = {
    "shuffled": (lambda epsilon: amplification.delta_fmt22(epsilon, 2.0, 3000), 2.0),
    "hardly shuffled": (lambda epsilon: amplification.delta_fmt22(epsilon, 4.0, 300), 4.0),
    "one cell": (lambda epsilon: rr_exact.delta_one_cell(epsilon, 0.2, 2000), math.log(4)),
    "two cells": (lambda epsilon: rr_exact.delta_two_cells(epsilon, 0.2, 1000), 2 * math.log(4)),
    "noise shares": (lambda epsilon: binomial_noise.delta_noise(epsilon, 5000, 5, 2), CAP),
    "many messages": (lambda epsilon: binomial_shift.delta_binomial_shift(epsilon, 3000, 0.3), CAP),
    "few messages": (lambda epsilon: binomial_shift.delta_binomial_shift(epsilon, 200, 0.2), CAP),
    "normal": (lambda epsilon: gaussian.delta_gaussian(epsilon, 3.0), CAP),
    "a line": (lambda epsilon: max(0.0, 1 - epsilon), CAP),
    "a step": (lambda epsilon: 0.5 if epsilon < 0.7 else 0.0, CAP),
    "stairs": (lambda epsilon: 10.0 ** -math.floor(10 * epsilon), CAP),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_smallest_epsilon_is_safe_and_a_billionth_less_is_not(name: str) -> None:
    delta_of, cap = MECHANISMS[name]
    asked: list[float] = []

    def counted(epsilon: float) -> float:
        asked.append(epsilon)
        return delta_of(epsilon)

    found = smallest_epsilon(counted, DELTA, cap)
    assert found in asked
    assert delta_of(found) <= DELTA < delta_of(found * (1 - 2e-9))
    assert len(asked) <= (60 if name.startswith(("a ", "stairs")) else 14)


def test_where_nothing_below_the_cap_will_do_the_cap_is_returned_and_where_everything_will_nothing() -> None:
    assert smallest_epsilon(lambda epsilon: 0.1, DELTA, 3.0) == pytest.approx(3.0, rel=1e-9)
    assert smallest_epsilon(lambda epsilon: 0.1, 0.1, 3.0) == 0
    assert smallest_epsilon(lambda epsilon: 1.0, DELTA, 3.0) == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("order", [1, -1])
def test_several_functions_together_need_the_epsilon_of_the_worst(order: int) -> None:
    deltas_of = [MECHANISMS[name][0] for name in ("many messages", "few messages", "normal")][::order]
    alone = [smallest_epsilon(delta_of, DELTA, CAP) for delta_of in deltas_of]
    assert smallest_epsilon_of_all(deltas_of, DELTA, CAP) == max(alone)
    assert smallest_epsilon_of_all([], DELTA, CAP) == 0


@given(st.floats(-0.1, 1.1), st.floats(0, 0.01) | st.floats(0, 1.1))
def test_a_cheaper_predicate_that_holds_longer_spares_questions_and_changes_no_digit(edge: float, gap: float) -> None:
    asked: list[float] = []

    def dear(value: float) -> bool:
        asked.append(value)
        return value <= edge

    found = largest_where_both(lambda value: value <= edge + gap, dear, 0.0, 1.0, 1e-6)
    assert len(asked) <= (1 if gap == 0 else 34)
    assert found == largest_where(dear, 0.0, 1.0, 1e-6)
