"""Accounts as privacy filters: the strongest analyst who chooses each recipe after all results, played exactly.

The analyst may ask anything from a menu of epsilons, and deltas, as long as the account under test has room, or end
with as much as still fits. Every answer is the worst one that its claim allows: a randomised response. The most that
she gains, ``sup E[max(0, 1 - e^(epsilon - L))]`` or 1 after a failure, is found by dynamic programming over every
state (what was asked, the loss so far), so no strategy is missed.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from client_agent import device_rules
from client_agent.config import AgentConfig, Budget
from client_agent.journal import Entry, State
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from tacit.accounting.budgets import compose_steps
from tacit.accounting.fixed_steps import compose_fixed
from tacit.ledger.account import Account, Charge, ChargeState, Cost
from tacit.ledger.balance import balance
from tacit.ledger.budget import fits, judge, largest_beside
from tacit.ledger.filter import HIGHER, ORDERS, Weight, claims_delta, filter_at, filter_of
from tacit.operations.ledger import plan
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, Policy
from tacit.rules.budget import over_budget
from tacit.rules.table import check

KIT = RecipeKit()
GOOD = KIT.recipe()
YEAR = 365 * 86_400
Costs = tuple[Cost, ...]
Admits = Callable[[Costs], bool]
"""Whether an account holds these costs together."""


def account(epsilon: str = "2", delta: str = "0.001") -> Account:
    return Account("default", Decimal(epsilon), Decimal(delta), YEAR)


def costs_of(menu: Sequence[Cost], counts: Sequence[int]) -> Costs:
    return tuple(cost for cost, count in zip(menu, counts, strict=True) for _ in range(count))


def gain(admits: Admits, limit: Account, menu: Sequence[Cost], unit: Decimal, last: bool = True) -> float:
    """The most that an analyst gains in ``limit``. Epsilons of the ``menu`` are multiples of ``unit``, on whose grid
    losses lie. ``last``: she may end with 1, 2 or 4 recipes of the largest epsilon that fits, off the grid."""
    jumps = [int(cost.epsilon / unit) for cost in menu]

    def payoff(losses: Any) -> Any:
        return np.maximum(-np.expm1(np.minimum(float(limit.epsilon) - losses, 0)), 0)

    @cache
    def value(counts: tuple[int, ...]) -> Any:
        """The value of each loss on the grid, from -top to top."""
        top = sum(count * jump for count, jump in zip(counts, jumps, strict=True))
        losses = np.arange(-top, top + 1) * float(unit)
        best, held = payoff(losses), costs_of(menu, counts)
        for at, (cost, jump) in enumerate(zip(menu, jumps, strict=True)):
            if not admits((*held, cost)):
                continue
            then = value((*counts[:at], counts[at] + 1, *counts[at + 1 :]))
            up, fails = 1 / (1 + math.exp(-float(cost.epsilon))), float(cost.delta)
            size = len(losses)
            answered = up * then[2 * jump : 2 * jump + size] + (1 - up) * then[:size]
            best = np.maximum(best, fails + (1 - fails) * answered)
        for number in (1, 2, 4) if last else ():
            largest = most_of(admits, held, number, limit)
            up = 1 / (1 + math.exp(-largest))
            ends = [
                math.comb(number, ups) * up**ups * (1 - up) ** (number - ups)
                * payoff(losses + (2 * ups - number) * largest)
                for ups in range(number + 1)
            ]  # fmt: skip
            best = np.maximum(best, sum(ends))
        return best

    (found,) = value((0,) * len(menu))
    return float(found)


def most_of(admits: Admits, held: Costs, number: int, limit: Account) -> float:
    """The largest epsilon, to 4 decimals, of which ``number`` still fit."""
    low, high = 0, int(limit.epsilon * 10_000) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fit = admits((*held, *[Cost(Decimal(middle).scaleb(-4), Decimal(0))] * number))
        low, high = (middle, high) if fit else (low, middle)
    return low / 10_000


def pure(*epsilons: str) -> list[Cost]:
    return [Cost(Decimal(epsilon), Decimal(0)) for epsilon in epsilons]


def device(limit: Account) -> Admits:
    """The device's own rule, with its journal."""
    own = Budget(epsilon=f"{limit.epsilon:f}", epsilon_with_relay="1000", delta=f"{limit.delta:f}")
    config = cast(AgentConfig, SimpleNamespace(budget=own))
    context = Context(Stage.ACTIVE, NOW)

    def admits(costs: Costs) -> bool:
        *before, new = costs
        entries = [
            Entry(
                number.to_bytes(32, "big"), "earlier", State.SENT, NOW - number, charged_epsilon=f"{one.epsilon:f}",
                charged_delta=f"{one.delta:f}", charged_with_relay=f"{one.epsilon:f}",
            )
            for number, one in enumerate(before)
        ]  # fmt: skip
        return not [one for one in _device(asked(new), config, context, entries) if one == "budget-spent"]

    return admits


def _device(recipe: Recipe, config: AgentConfig, context: Context, entries: list[Entry]) -> list[str]:
    refusal = device_rules.RULES["budget-spent"](recipe, config.budget, Policy(), context, entries)  # type: ignore[operator]
    return [] if refusal is None else [refusal.rule]


@cache
def asked(cost: Cost) -> Recipe:
    """A recipe that claims ``cost``."""
    privacy = {"privacy.epsilon.aggregator": f"{cost.epsilon:f}", "privacy.delta": f"{cost.delta:f}"}
    found = GOOD
    for member, text in privacy.items():
        found = changed(found, member, text)
    return found


def table(limit: Account) -> Admits:
    """The rule of recipe server, leader, helper and collector."""
    stated = AccountLimit(epsilon=f"{limit.epsilon:f}", delta=f"{limit.delta:f}", window_seconds=YEAR)
    policy = KIT.policy.model_copy(update={"accounts": {"default": stated}})

    def admits(costs: Costs) -> bool:
        *before, new = costs
        held = tuple(charge(number, one) for number, one in enumerate(before))
        context = Context(Stage.LOGGED, NOW, charges=held)
        return check(asked(new), policy, context, only={"budget-spent"}) == []

    return admits


def charge(number: int, cost: Cost) -> Charge:
    start = GOOD.interval.start - 1000
    return Charge(
        "default", number.to_bytes(32, "big"), "", start, start + 5000, cost, ChargeState.ACTIVE, cost.epsilon
    )


def ledger(limit: Account) -> Admits:
    """What ``tacit privacy ledger``, the admin service and the monitor show."""
    return lambda costs: not balance([charge(*one) for one in enumerate(costs)], limit, NOW).over


def planned(limit: Account) -> Admits:
    """``tacit privacy plan``."""

    def admits(costs: Costs) -> bool:
        *before, new = costs
        return plan(charge(9999, new), [charge(*one) for one in enumerate(before)], limit).fits

    return admits


PARTIES = {"device": device, "table": table, "ledger": ledger, "plan": planned}


@pytest.mark.parametrize(
    ("limit", "unit", "menu"),
    [
        (account("1", "0.01"), "0.1", pure("0.1", "0.2", "0.5")),
        (account("2", "0.001"), "0.1", pure("0.1", "0.6")),
        (account("4", "0.00001"), "0.2", pure("0.2", "0.8", "2")),
        (account("0.5", "0.1"), "0.1", pure("0.1", "0.3")),
    ],
)
def test_whatever_is_asked_after_whatever_was_told_an_account_keeps_its_promise(
    limit: Account, unit: str, menu: list[Cost]
) -> None:
    apart = float(limit.delta) / 10
    gained = gain(lambda costs: fits(costs, limit), limit, menu, Decimal(unit))
    assert 0.01 * apart < gained <= apart


def test_claims_with_deltas_of_their_own_keep_the_promise_too() -> None:
    limit = account("1", "0.01")
    menu = [*pure("0.1"), Cost(Decimal("0.1"), Decimal("0.003")), Cost(Decimal(0), Decimal("0.0015"))]
    gained = gain(lambda costs: fits(costs, limit), limit, menu, Decimal("0.1"), last=False)
    assert 0.9 * float(claims_delta(limit)) < gained <= float(limit.delta)


def test_the_same_analyst_overdraws_an_account_that_composes_as_if_all_were_fixed_beforehand() -> None:
    limit = account("2", "0.001")

    @cache
    def fixed(costs: Costs) -> bool:
        return compose_fixed([one.step for one in costs if one.epsilon], float(limit.delta)) <= float(limit.epsilon)

    assert gain(fixed, limit, pure("0.2"), Decimal("0.2")) > 1.5 * float(limit.delta)


@pytest.mark.parametrize("party", PARTIES)
def test_the_game_against_every_party_s_own_rule(party: str) -> None:
    limit = account("1", "0.01")
    admits = PARTIES[party](limit)
    menu, unit = pure("0.1", "0.3"), Decimal("0.1")
    gained = gain(admits, limit, menu, unit, last=False)
    assert 0 < gained <= float(limit.delta) / 10
    assert gained == gain(lambda costs: fits(costs, limit), limit, menu, unit, last=False), "one filter for all"


@pytest.mark.parametrize("party", PARTIES)
def test_all_parties_agree_on_what_fits(party: str) -> None:
    draw = random.Random(party)
    for _ in range(6):
        limit = account(draw.choice(["0.5", "1", "10"]), draw.choice(["0.00001", "0.001"]))
        each = limit.epsilon / draw.choice([4, 20, 60])
        costs: Costs = ()
        own = Cost(each.quantize(Decimal("0.001")), limit.delta / 400)
        while fits((*costs, own), limit):
            costs = (*costs, own)
        admits = PARTIES[party](limit)
        assert admits(costs)
        assert not admits((*costs, own))


def test_not_even_the_smallest_part_of_a_cost_above_the_account_fits() -> None:
    for number in range(1, 11):
        each = (Decimal(10) / Decimal(number)).quantize(Decimal("1e-20"))
        costs = [Cost(each, Decimal(0))] * number
        assert fits(costs, Account("", sum((one.epsilon for one in costs), Decimal(0)), Decimal("0.00001"), 1))
    ten = account("10", "0.00001")
    for above in ("1e-16", "1e-20", "1e-24"):
        assert not fits([Cost(Decimal(10) + Decimal(above), Decimal(0))], ten)
        assert not fits([Cost(Decimal(5), Decimal(0)), Cost(Decimal(5) + Decimal(above), Decimal(0))], ten)
        assert not fits([Cost(Decimal(1), claims_delta(ten) + Decimal(above))], ten)
    assert fits([Cost(Decimal(10), claims_delta(ten))], ten)
    gate = filter_of(ten)
    full = Weight(gate.epsilon + 1, gate.delta, gate.moment)
    assert gate.holds(full)
    assert gate.spent(full) == 10
    for more in (Weight(0, 1, 0), Weight(0, 0, 1)):
        assert not gate.holds(full.plus(more))
        assert gate.spent(full.plus(more)) > 10


def test_what_is_spent_is_within_the_account_exactly_if_it_fits() -> None:
    draw = random.Random(5)
    for _ in range(60):
        limit = account(draw.choice(["0.1", "1", "10", "100"]), draw.choice(["0.000000001", "0.00001", "0.1"]))
        scale = float(limit.epsilon) * 10 ** draw.uniform(-2, 0)
        costs = [
            Cost(Decimal(f"{scale * draw.random():.6f}"), limit.delta / draw.randrange(1, 1000))
            for _ in range(draw.randrange(1, 60))
        ]
        gate = filter_of(limit)
        weight = gate.weigh(costs)
        assert gate.holds(weight) == (gate.spent(weight) <= limit.epsilon) == fits(costs, limit)
        largest = largest_beside([weight], Decimal(0), limit)
        assert (largest is not None) == fits(costs, limit)
        if largest is not None:
            assert fits([*costs, Cost(largest, Decimal(0))], limit)
            assert not fits([*costs, Cost(largest + Decimal("0.0001"), Decimal(0))], limit)


def test_moments_are_those_of_a_randomised_response_and_never_below() -> None:
    for limit in (account("1"), account("10", "0.00001"), account("300", "0.000001")):
        gate = filter_of(limit)
        t = float(gate.order)
        for epsilon in ("0.000001", "0.001", "0.1", "1", "7.5", "200"):
            x = float(epsilon)
            true = t * x + math.log1p(math.exp(-(2 * t + 1) * x)) - math.log1p(math.exp(-x))
            found = gate.weigh([Cost(Decimal(epsilon), Decimal(0))]).moment / 1e24
            assert found == pytest.approx(true, rel=1e-5, abs=1e-15)
            assert found <= t * x
        apart = float(limit.delta) / 10
        limit_of_moments = math.log(apart) + t * float(limit.epsilon) - t * math.log(t) + (1 + t) * math.log1p(t)
        assert gate.moment / 1e24 == pytest.approx(limit_of_moments, rel=1e-12)


def test_the_order_follows_from_epsilon_and_delta_alone_and_lies_a_fifth_above_that_of_most_small_claims() -> None:
    limit = account("10", "0.00001")
    gate = filter_of(limit)
    renamed = dataclasses.replace(limit, name="clinic", window_seconds=1, epsilon_with_relay=Decimal(20))
    assert filter_of(renamed) == gate == filter_at(Decimal("10.000"), Decimal("1e-5"))

    def small(order: Decimal) -> float:
        t = float(order)
        room = math.log(1e-6) + 10 * t - t * math.log(t) + (1 + t) * math.log1p(t)
        return room / (t * (t + 1))

    at = ORDERS.index(gate.order)
    assert small(ORDERS[at - HIGHER]) == max(map(small, ORDERS))
    assert 0.96 * small(ORDERS[at - HIGHER]) < small(gate.order)


def test_claims_without_a_bound_fit_into_no_account() -> None:
    limit = account("100000000", "0.5")
    unbounded = charge(1, Cost(Decimal("Infinity"), Decimal(0)))
    assert not fits([unbounded.cost], limit)
    assert balance([unbounded], limit, NOW).over
    assert "unbounded" in over_budget(unbounded, judge(unbounded, [], limit), limit, None)
    assert fits([Cost(Decimal(99_999_999), Decimal(0))], limit)


def test_the_smallest_account_for_steps_that_are_chosen_one_after_another() -> None:
    steps = [(0.1, 1e-9)] * 300
    assert compose_fixed(steps, 1e-5) < compose_steps(steps, 1e-5) < 0.5 * 300 * 0.1
    assert 9.9 < compose_steps([(0.1, 0.0)] * 309, 1e-5) <= 10
    assert compose_steps([(1.0, 1e-6)] * 9, 1e-5) == 9.0
    assert compose_steps([(1.0, 1e-6)] * 10, 1e-5) == math.inf
    assert compose_steps([], 1e-5) == compose_steps([(0.0, 0.0)], 1e-5) == 0.0
    for bad, total, name in (
        ([(-0.1, 0.0)], 1e-6, "epsilon"),
        ([(0.1, 1.0)], 1e-6, "delta"),
        ([(0.1, 0.0)], 0.0, "total_delta"),
        ([(1e10, 0.0)], 1e-6, "epsilons"),
    ):
        with pytest.raises(ValueError, match=name):
            compose_steps(bad, total)


def test_who_ends_a_series_when_it_pays_gains_by_a_charge_of_its_rounds_and_not_of_the_whole() -> None:
    """An account holds the total of 100 rounds, randomised responses of epsilon .1. The analyst ends the series after
    any number of them, having seen them, and spends what is free then on one more response."""
    rounds, each, delta = 100, 0.1, 1e-6
    up = 1 / (1 + math.exp(-each))

    def losses(count: int) -> Any:
        return (2 * np.arange(count + 1) - count) * each

    def missed(limit: float, loss: Any) -> Any:
        return np.maximum(-np.expm1(np.minimum(limit - loss, 0)), 0)

    @cache
    def total(count: int) -> float:
        """The least epsilon of so many rounds at ``delta``, if their number is fixed beforehand."""
        law = np.array([math.comb(count, ups) * up**ups * (1 - up) ** (count - ups) for ups in range(count + 1)])
        low, high = 0.0, count * each
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if law @ missed(middle, losses(count)) > delta else (low, middle)
        return high

    def gained(charged: Callable[[int], float]) -> float:
        limit, value = total(rounds), None
        for count in range(rounds, -1, -1):
            left = limit - charged(count) if count else 0.0
            more, loss = 1 / (1 + math.exp(-left)), losses(count)
            ends = more * missed(limit, loss + left) + (1 - more) * missed(limit, loss - left)
            value = ends if value is None else np.maximum(ends, up * value[1:] + (1 - up) * value[:-1])
        assert value is not None
        return float(value[0])

    assert gained(total) > 5 * delta
    assert gained(lambda _: total(rounds)) <= delta * (1 + 1e-9)
