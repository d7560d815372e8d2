"""The ledger's arithmetic: composition against enumeration and a library, periods against every period there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.accountants import epsilon_pld
from tacit.accounting.budgets import compose
from tacit.accounting.events import Approximate, Composed, Relation
from tacit.dp.composition import epsilon_composed
from tacit.dp.heterogeneous import epsilon_heterogeneous, slack_of
from tacit.ledger.account import COUNTED, Account, Charge, ChargeState, Cost, charge_state, series_state
from tacit.ledger.balance import balance
from tacit.ledger.budget import conservative, fits, how_many, judge, largest_epsilon
from tacit.ledger.windows import windows
from tacit.models.form import Cap, Form
from tacit.models.forms import FORMS

DELTA = Decimal("0.000000001")
ACCOUNT = Account("default", Decimal(2), Decimal("0.00001"), 1000)
ROUNDING = 1e-14
"""Relative: sums of decimals taken as floats are a few units in the last place off. ``fits`` adds the decimals."""
EPSILONS = st.integers(1_000, 1_500_000).map(lambda number: Decimal(number).scaleb(-6))


def cost(epsilon: str | Decimal, delta: Decimal = DELTA) -> Cost:
    return Cost(Decimal(epsilon), delta)


def charge(number: int, start: int, end: int, epsilon: str = "0.5", state: ChargeState = ChargeState.ACTIVE) -> Charge:
    return Charge("default", number.to_bytes(32, "big"), f"recipe-{number}", start, end, cost(epsilon), state)


def enumerated(epsilons: Sequence[float], slack: float) -> float:
    """epsilon of independent randomised responses, from the losses of all their 2^n outputs."""
    outputs = [
        (math.prod(1 / (1 + math.exp(-sign * step)) for sign, step in zip(signs, epsilons, strict=True)), signs)
        for signs in itertools.product((1, -1), repeat=len(epsilons))
    ]
    losses = [
        (probability, math.fsum(sign * step for sign, step in zip(signs, epsilons, strict=True)))
        for probability, signs in outputs
    ]

    def divergence(total: float) -> float:
        return math.fsum(p * -math.expm1(total - loss) for p, loss in losses if loss > total)

    low, high = 0.0, math.fsum(epsilons)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if divergence(middle) <= slack else (middle, high)
    return high


@settings(max_examples=25, deadline=None)
@given(st.lists(EPSILONS, min_size=2, max_size=8), st.sampled_from([1e-3, 1e-6]))
def test_composition_is_never_below_the_enumerated_one_and_close_to_it(epsilons: list[Decimal], total: float) -> None:
    costs = [cost(epsilon) for epsilon in epsilons]
    steps = [one.step for one in costs]
    true = enumerated([epsilon for epsilon, _ in steps], slack_of(steps, total))
    tight, light = compose(costs, None, total), conservative(costs, None, total)
    added = float(sum(epsilons)) * (1 + ROUNDING)
    assert true * (1 - 1e-6) - 1e-9 <= tight <= light <= added
    assert tight <= true * 1.001 + len(costs) * 1e-4


@pytest.mark.parametrize("count", [12, 60])
def test_composition_agrees_with_the_library(count: int) -> None:
    costs = [cost(Decimal(number * 7919 % 400 + 20).scaleb(-3)) for number in range(count)]
    library = epsilon_pld(Composed(tuple(Approximate(*one.step) for one in costs)), 1e-6, Relation.REPLACEMENT)
    assert compose(costs, None, 1e-6) == pytest.approx(library, rel=1e-3)
    assert compose(costs[:-1], costs[-1], 1e-6) == pytest.approx(library, rel=1e-3)
    assert library * (1 - 1e-3) <= conservative(costs, None, 1e-6) <= 1.15 * library


def test_a_sum_beyond_every_float_is_composed_all_the_same() -> None:
    for each, count in (("1", 1_000), ("10", 500), ("700", 3)):
        costs = [Cost(Decimal(each), Decimal(0))] * count
        tight, light = compose(costs, None, 1e-6), conservative(costs, None, 1e-6)
        assert 0 < tight <= light


def test_equal_claims_compose_to_the_optimal_bound() -> None:
    costs = [cost("0.1")] * 200
    optimal = epsilon_composed(0.1, float(DELTA), 200, 1e-6)
    assert conservative(costs, None, 1e-6) == pytest.approx(optimal, rel=1e-6)
    assert optimal * (1 - 1e-6) <= compose(costs, None, 1e-6) <= optimal * (1 + 1e-6)
    assert optimal < 0.5 * 200 * 0.1


@settings(max_examples=30, deadline=None)
@given(st.lists(EPSILONS, min_size=1, max_size=12), EPSILONS, EPSILONS, st.sampled_from([conservative, compose]))
def test_more_recipes_larger_claims_and_a_smaller_delta_never_cost_less(
    epsilons: list[Decimal], more: Decimal, raised: Decimal, accountant: object
) -> None:
    assert callable(accountant)
    costs = [cost(epsilon) for epsilon in epsilons]
    total = accountant(costs, None, 1e-6)
    slightly = 1 - 1e-7
    assert accountant(costs, cost(more), 1e-6) >= total * slightly
    assert accountant(costs, cost(more), 1e-6) >= accountant([], cost(more), 1e-6) * slightly
    larger = [cost(epsilons[0] + raised), *costs[1:]]
    assert accountant(larger, None, 1e-6) >= total * slightly
    assert accountant(costs, None, 1e-7) >= total * slightly
    assert accountant(costs, None, 1e-6) == pytest.approx(accountant(costs[:-1], costs[-1], 1e-6), rel=2e-3)


def test_the_claims_own_deltas_are_kept_within_the_accounts() -> None:
    tenth = [cost("0.5", Decimal("0.000001"))] * 10
    assert conservative(tenth, None, 1e-5) == pytest.approx(5.0)
    assert conservative([*tenth, tenth[0]], None, 1e-5) == math.inf
    assert compose([*tenth, tenth[0]], None, 1e-5) == math.inf
    whole = [cost("0.5", Decimal("0.00001"))]
    assert conservative(whole, None, 1e-5) == 0.5
    assert conservative([], None, 1e-5) == compose([], None, 1e-5) == 0.0


def test_bad_steps_and_totals_are_named() -> None:
    for steps, total, name in (
        ([(-0.1, 0.0)], 1e-6, "epsilon"),
        ([(0.1, 1.0)], 1e-6, "delta"),
        ([(math.nan, 0.0)], 1e-6, "epsilon"),
        ([(0.1, 0.0)], 0.0, "total_delta"),
    ):
        with pytest.raises(ValueError, match=name):
            epsilon_heterogeneous(steps, total)


@pytest.mark.slow
def test_a_thousand_different_recipes_are_accounted_for() -> None:
    charges = [charge(number, number, number + 500, f"0.{number + 1000:06d}") for number in range(1000)]
    account = Account("default", Decimal(10), Decimal("0.00001"), 365 * 86_400)
    tight, light = (balance(charges, account, 500, one) for one in (compose, conservative))
    assert 0 < tight.spent <= light.spent < float(sum(one.cost.epsilon for one in charges))
    assert tight.delta_spent == 1000 * DELTA
    daily = [charge(number, 86_400 * number, 86_400 * (number + 1), f"0.{number + 1000:06d}") for number in range(1000)]
    year = balance(daily, account, 500 * 86_400, compose)
    assert 0 < year.spent < year.peak < tight.peak
    verdict = judge(charge(1000, 500 * 86_400, 501 * 86_400, "0.1"), daily, account, compose)
    assert (verdict.fits, len(verdict.others)) == (True, 366)


SPANS = st.tuples(st.integers(0, 40), st.integers(1, 12))


@settings(max_examples=60, deadline=None)
@given(st.lists(SPANS, max_size=8), SPANS, st.integers(1, 30))
def test_a_few_periods_stand_for_every_period(spans: list[tuple[int, int]], own: tuple[int, int], length: int) -> None:
    charges = [charge(number, start, start + duration) for number, (start, duration) in enumerate(spans)]
    added = charge(99, own[0], own[0] + own[1])
    found = [set(held) for held in windows(charges, length, around=added)]
    everywhere = [set(held) for held in windows(charges, length)]
    for begin in range(-60, 80):
        held = {one for one in charges if one.touches(begin, begin + length)}
        assert not held or any(held <= period for period in everywhere)
        if added.touches(begin, begin + length):
            assert any(held <= period for period in found)
    for period in found:
        begins = range(added.start - length + 1, added.end)
        assert any(period == {one for one in charges if one.touches(b, b + length)} for b in begins)


def test_recipes_of_different_periods_do_not_pay_for_each_other() -> None:
    full = [charge(1, 0, 100, "2")]
    assert not judge(charge(2, 1098, 1200, "0.1"), full, ACCOUNT, conservative).fits
    assert judge(charge(2, 1099, 1200, "0.1"), full, ACCOUNT, conservative).fits
    assert not judge(charge(2, 50, 60, "0.1"), full, ACCOUNT, conservative).fits
    other = Charge("other", bytes(32), "x", 0, 100, cost("2"), ChargeState.ACTIVE)
    assert judge(charge(2, 50, 60, "2"), [other], ACCOUNT, conservative).fits


def test_what_is_void_or_never_began_costs_nothing() -> None:
    for state, counted in zip(ChargeState, (True, True, False, True, False, False), strict=True):
        held = [charge(1, 0, 100, "2", state)]
        assert judge(charge(2, 0, 100, "2"), held, ACCOUNT, conservative).fits is not counted
    both = ("leader", "helper")
    assert charge_state(both, (), (), 100, 99, refundable=True) is ChargeState.PENDING
    assert charge_state(both, ("leader",), (), 100, 100, refundable=True) is ChargeState.LAPSED
    assert charge_state(both, both, ("leader",), 100, 1e9, refundable=True) is ChargeState.ACTIVE
    assert charge_state(both, both, both, 100, 1e9, refundable=True) is ChargeState.VOID
    assert charge_state(both, both, both, 100, 1e9, refundable=False) is ChargeState.UNREFUNDED


def subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [chosen for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)]


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_whatever_leaves_are_signed_a_model_stays_charged_for_what_its_charged_adversary_has_seen(form: Form) -> None:
    """Whoever is charged at the cap of single reports sees them as they come; everybody else at a release at most."""
    charged = form.adversary(form.charged)
    assert charged is not None
    sees_reports = charged.cap is Cap.LOCAL
    assert "refunds" in vars(type(form)), "a model says so itself, and inherits nothing"
    assert not (sees_reports and form.refunds)
    for opted_in, void, now in itertools.product(subsets(form.opts_in), subsets(form.opts_in), (0, 99, 100, 1e9)):
        answered = set(opted_in) == set(form.opts_in)
        released = set(void) != set(form.opts_in)
        state = charge_state(form.opts_in, opted_in, void, 100, now, refundable=form.refunds)
        if answered and (sees_reports or released):
            assert state in COUNTED
        whole = series_state([state, ChargeState.VOID, ChargeState.LAPSED], 100, now)
        if state is ChargeState.UNREFUNDED:
            assert whole in COUNTED, "also as a round of a series"


def test_a_new_model_refunds_nothing_until_it_says_so() -> None:
    assert Form.refunds is False


@pytest.mark.parametrize("accountant", [conservative, compose])
def test_the_largest_epsilon_and_the_largest_number_that_fit_do_and_no_more(accountant: object) -> None:
    assert callable(accountant)
    held = [charge(number, 10 * number, 10 * number + 5, "0.25") for number in range(6)]
    planned = charge(99, 20, 40, "0.75")
    assert not judge(planned, held, ACCOUNT, accountant).fits
    largest = largest_epsilon(planned, held, ACCOUNT, accountant)
    assert largest is not None
    others = [one.cost for one in held]
    assert fits(others, cost(largest), ACCOUNT, accountant)
    assert not fits(others, cost(largest + Decimal("0.0002")), ACCOUNT, accountant)
    small = cost("0.01")
    count = how_many(small, planned, held, ACCOUNT, accountant)
    assert fits([*others, *[small] * (count - 1)], small, ACCOUNT, accountant)
    assert not fits([*others, *[small] * count], small, ACCOUNT, accountant)
    assert count > (2 - 1.5) / 0.01, "more than addition would allow"
    assert how_many(cost("3"), planned, held, ACCOUNT, accountant) == 0
    starved = Account("default", Decimal(2), 6 * DELTA, 1000)
    assert largest_epsilon(planned, held, starved, accountant) is None


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(SPANS, EPSILONS), max_size=10), st.integers(1, 30), st.integers(-5, 60))
def test_the_fullest_period_is_found_among_all(
    found: list[tuple[tuple[int, int], Decimal]], length: int, now: int
) -> None:
    charges = [charge(n, start, start + span, str(epsilon)) for n, ((start, span), epsilon) in enumerate(found)]
    account = Account("default", Decimal(3), Decimal("0.00001"), length)
    held = {begin: [one for one in charges if one.touches(begin, begin + length)] for begin in range(-60, 80)}
    totals = {begin: compose([one.cost for one in held[begin]], None, 1e-5) for begin in held}
    spent = max(total for begin, total in totals.items() if begin <= now < begin + length)
    result = balance(charges, account, now, compose)
    assert result.peak == pytest.approx(max(totals.values()), rel=1e-6)
    assert result.spent == pytest.approx(spent, rel=1e-6)
    added = (sum(one.cost.epsilon for one in period) for period in held.values())
    assert result.over == (max(totals.values()) > 3 and max(added, default=0) > 3)


def test_a_balance_looks_at_the_present_and_at_the_fullest_period() -> None:
    charges = [charge(1, 0, 100, "1"), charge(2, 5000, 5100, "0.5"), charge(3, 5200, 5300, "0.75")]
    now = balance(charges, ACCOUNT, 50, conservative)
    assert now.spent == pytest.approx(1.0, rel=1e-3)
    assert now.peak == pytest.approx(1.25, rel=1e-3)
    assert not now.over
    assert balance(charges, ACCOUNT, 3000, conservative).spent == 0.0
    assert balance([*charges, charge(4, 5100, 5101, "1")], ACCOUNT, 50, conservative).over
