"""The ledger's arithmetic: periods against every period there is, balances, and what still fits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.ledger.account import COUNTED, Account, Charge, ChargeState, Cost, charge_state, series_state
from tacit.ledger.balance import balance
from tacit.ledger.budget import fits, how_many, judge, largest_epsilon, spent_epsilon
from tacit.ledger.filter import filter_of
from tacit.ledger.windows import periods
from tacit.models.form import Cap, Form
from tacit.models.forms import FORMS
from tacit.operations.ledger import plan

DELTA = Decimal("0.000000001")
ACCOUNT = Account("default", Decimal(2), Decimal("0.00001"), 1000)
EPSILONS = st.integers(1_000, 1_500_000).map(lambda number: Decimal(number).scaleb(-6))


def cost(epsilon: str | Decimal, delta: Decimal = DELTA) -> Cost:
    return Cost(Decimal(epsilon), delta)


def charge(number: int, start: int, end: int, epsilon: str = "0.5", state: ChargeState = ChargeState.ACTIVE) -> Charge:
    return Charge("default", number.to_bytes(32, "big"), f"recipe-{number}", start, end, cost(epsilon), state)


def test_a_thousand_different_recipes_are_accounted_for() -> None:
    charges = [charge(number, number, number + 500, f"0.{number + 1000:06d}") for number in range(1000)]
    account = Account("default", Decimal(1), Decimal("0.00001"), 365 * 86_400)
    whole = balance(charges, account, 500)
    assert 0 < whole.spent < sum(one.cost.epsilon for one in charges)
    assert whole.delta_spent == 1000 * DELTA
    assert whole.delta == Decimal("0.000009")
    daily = [charge(number, 86_400 * number, 86_400 * (number + 1), f"0.{number + 1000:06d}") for number in range(1000)]
    year = balance(daily, account, 500 * 86_400)
    assert 0 < year.spent < year.peak < whole.peak
    verdict = judge(charge(1000, 500 * 86_400, 501 * 86_400, "0.1"), daily, account)
    assert (verdict.fits, len(verdict.others)) == (True, 366)


SPANS = st.tuples(st.integers(0, 40), st.integers(1, 12))


@settings(max_examples=60, deadline=None)
@given(st.lists(SPANS, max_size=8), SPANS, st.integers(1, 30))
def test_a_few_periods_stand_for_every_period(spans: list[tuple[int, int]], own: tuple[int, int], length: int) -> None:
    charges = [charge(number, start, start + duration) for number, (start, duration) in enumerate(spans)]
    added = charge(99, own[0], own[0] + own[1])
    gate = filter_of(ACCOUNT)

    def held(begin: int) -> tuple[Charge, ...]:
        return tuple(one for one in charges if one.touches(begin, begin + length))

    found = [set(held(one.begin)) for one in periods(charges, length, gate, around=added)]
    everywhere = [set(held(one.begin)) for one in periods(charges, length, gate)]
    for begin in range(-60, 80):
        assert not held(begin) or any(set(held(begin)) <= period for period in everywhere)
        if added.touches(begin, begin + length):
            assert any(set(held(begin)) <= period for period in found)
    for one in (*periods(charges, length, gate), *periods(charges, length, gate, around=added)):
        assert one.weight == gate.weigh(charge.cost for charge in held(one.begin))


def test_recipes_of_different_periods_do_not_pay_for_each_other() -> None:
    full = [charge(1, 0, 100, "2")]
    assert not judge(charge(2, 1098, 1200, "0.1"), full, ACCOUNT).fits
    assert judge(charge(2, 1099, 1200, "0.1"), full, ACCOUNT).fits
    assert not judge(charge(2, 50, 60, "0.1"), full, ACCOUNT).fits
    other = Charge("other", bytes(32), "x", 0, 100, cost("2"), ChargeState.ACTIVE)
    assert judge(charge(2, 50, 60, "2"), [other], ACCOUNT).fits


def test_what_is_void_or_never_began_costs_nothing() -> None:
    for state, counted in zip(ChargeState, (True, True, False, True, False, False), strict=True):
        held = [charge(1, 0, 100, "2", state)]
        assert judge(charge(2, 0, 100, "2"), held, ACCOUNT).fits is not counted
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


def test_the_largest_epsilon_and_the_largest_number_that_fit_do_and_no_more() -> None:
    held = [charge(number, 10 * number, 10 * number + 5, "0.25") for number in range(6)]
    planned = charge(99, 20, 40, "0.75")
    assert not judge(planned, held, ACCOUNT).fits
    largest = largest_epsilon(planned, held, ACCOUNT)
    assert largest is not None
    others = [one.cost for one in held]
    assert fits([*others, cost(largest)], ACCOUNT)
    assert not fits([*others, cost(largest + Decimal("0.0001"))], ACCOUNT)
    small = cost("0.01")
    count = how_many(small, planned, held, ACCOUNT)
    assert fits([*others, *[small] * count], ACCOUNT)
    assert not fits([*others, *[small] * (count + 1)], ACCOUNT)
    assert how_many(cost("0.01"), planned, [], ACCOUNT) > 2 / 0.01, "more than addition would allow"
    assert how_many(cost("3"), planned, held, ACCOUNT) == 0
    starved = Account("default", Decimal(2), 7 * DELTA, 1000)
    assert largest_epsilon(planned, held, starved) is None


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(SPANS, EPSILONS), max_size=10), st.integers(1, 30), st.integers(-5, 60))
def test_the_fullest_period_is_found_among_all(
    found: list[tuple[tuple[int, int], Decimal]], length: int, now: int
) -> None:
    charges = [charge(n, start, start + span, str(epsilon)) for n, ((start, span), epsilon) in enumerate(found)]
    account = Account("default", Decimal(3), Decimal("0.00001"), length)
    held = {begin: [one for one in charges if one.touches(begin, begin + length)] for begin in range(-60, 80)}
    totals = {begin: spent_epsilon([one.cost for one in held[begin]], account) for begin in held}
    result = balance(charges, account, now)
    assert result.peak == max(totals.values())
    assert result.spent == max(total for begin, total in totals.items() if begin <= now < begin + length)
    assert result.over == (max(totals.values()) > 3)
    assert result.over == any(not fits([one.cost for one in period], account) for period in held.values())


def test_a_balance_looks_at_the_present_and_at_the_fullest_period() -> None:
    charges = [charge(1, 0, 100, "1"), charge(2, 5000, 5100, "0.5"), charge(3, 5200, 5300, "0.75")]
    now = balance(charges, ACCOUNT, 50)
    assert (now.spent, now.peak, now.left) == (Decimal(1), Decimal("1.25"), Decimal(1))
    assert not now.over
    assert balance(charges, ACCOUNT, 3000).spent == 0
    assert balance([*charges, charge(4, 5100, 5101, "1")], ACCOUNT, 50).over


def test_a_plan_and_the_ledger_tell_the_same_of_what_is_left() -> None:
    account = Account("default", Decimal(100), Decimal("0.00001"), 1000)
    held = [Charge("default", bytes(32), "", 0, 100, Cost(Decimal("2.6"), DELTA), ChargeState.ACTIVE)]
    planned = Charge("default", (9999).to_bytes(32, "big"), "", 0, 100, Cost(Decimal(1), Decimal(0)))
    many = [charge(number, 0, 100, "0.5") for number in range(1, 240)]
    for charges, left in ((held, Decimal("97.4")), (many, None)):
        found = plan(planned, charges, account).largest
        assert found == balance(charges, account, 50).left
        assert left in (None, found)
    assert sum(one.cost.epsilon for one in many) > 100
