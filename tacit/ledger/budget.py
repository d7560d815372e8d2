"""Whether a charge fits into its account, and the largest that would: by the account's filter, in every period that it
touches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tacit.ledger.account import Account, Charge, Cost
from tacit.ledger.filter import Weight, filter_of
from tacit.ledger.windows import periods

PLACES = 4
"""Decimals to which the largest fitting epsilon is computed."""
MAX_COUNT = 1 << 12
"""The largest number that ``how_many`` counts to."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one charge in one account: what is spent in the deciding period (the fullest one that the charge
    touches), without the charge and with it. Infinite where deltas alone exceed what the account has for them."""

    fits: bool
    before: Decimal
    total: Decimal
    others: tuple[Cost, ...]
    """The other costs in that period."""


def costs_of(charges: Iterable[Charge]) -> tuple[Cost, ...]:
    return tuple(charge.cost for charge in charges if charge.counts)


def fits(costs: Iterable[Cost], account: Account) -> bool:
    """Whether the costs of one period stay within the account."""
    gate = filter_of(account)
    return gate.holds(gate.weigh(costs))


def spent_epsilon(costs: Iterable[Cost], account: Account) -> Decimal:
    """What the costs of one period take of the account's epsilon, at its delta; infinite where their own deltas exceed
    what the account has for them."""
    gate = filter_of(account)
    return gate.spent(gate.weigh(costs))


def verdict_on(cost: Cost, others: Sequence[Cost], account: Account) -> Verdict:
    """Judge ``cost`` beside the others of one period."""
    before, total = spent_epsilon(others, account), spent_epsilon([*others, cost], account)
    return Verdict(fits([*others, cost], account), before, total, tuple(others))


def judge(charge: Charge, charges: Sequence[Charge], account: Account) -> Verdict:
    """Judge whether ``charge`` fits beside the others of its account (it is left out of ``charges`` if it is among
    them)."""
    gate, same = filter_of(account), _same(charge, charges)
    own = gate.weigh([charge.cost])
    found = periods(same, account.window_seconds, gate, charge)
    fullest = max(found, key=lambda one: (gate.spent(one.weight.plus(own)), one.weight))
    end = fullest.begin + account.window_seconds
    return verdict_on(charge.cost, costs_of(one for one in same if one.touches(fullest.begin, end)), account)


def _same(charge: Charge, charges: Sequence[Charge]) -> list[Charge]:
    """The other charges that count in the charge's account."""
    return [
        one for one in charges if one.account == charge.account and one.counts and one.recipe_hash != charge.recipe_hash
    ]


def _beside(charge: Charge, charges: Sequence[Charge], account: Account) -> list[Weight]:
    """The weight of the others in each period that touches ``charge``; at least one period."""
    found = periods(_same(charge, charges), account.window_seconds, filter_of(account), charge)
    return [one.weight for one in found]


def largest_epsilon(charge: Charge, charges: Sequence[Charge], account: Account) -> Decimal | None:
    """Return the largest epsilon, to 4 decimals, that fits in place of ``charge``'s own at its delta; None where not
    even its delta fits."""
    return largest_beside(_beside(charge, charges, account), charge.cost.delta, account)


def largest_beside(beside: Sequence[Weight], delta: Decimal, account: Account) -> Decimal | None:
    """Return the largest epsilon, to 4 decimals, that fits at ``delta`` into every one of the periods that hold
    ``beside``; None where not even ``delta`` fits."""
    gate = filter_of(account)

    def holds(steps: int) -> bool:
        own = gate.weigh([Cost(Decimal(steps).scaleb(-PLACES), delta)])
        return all(gate.holds(one.plus(own)) for one in beside)

    if not holds(0):
        return None
    low, high = 0, int(account.epsilon.scaleb(PLACES)) + 1
    while holds(high):  # a claim a little above the account's epsilon may fit at its delta
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return Decimal(low).scaleb(-PLACES)


def how_many(cost: Cost, charge: Charge, charges: Sequence[Charge], account: Account) -> int:
    """How many recipes of ``cost`` fit in place of ``charge``, all in the same period."""
    if cost.delta <= 0 and cost.epsilon <= 0:
        raise ValueError("a recipe must have an epsilon or a delta above 0")
    gate, beside = filter_of(account), _beside(charge, charges, account)
    own = gate.weigh([cost])

    def holds(count: int) -> bool:
        return count == 0 or all(gate.holds(one.plus(own.times(count))) for one in beside)

    low, high = 0, 1
    while high <= MAX_COUNT and holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
