"""Whether a charge fits into its account, and the largest that would: by composition, in every period that it
touches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tacit.dp.heterogeneous import epsilon_heterogeneous
from tacit.dp.solve import largest_where
from tacit.ledger.account import Account, Charge, Cost
from tacit.ledger.windows import windows

Accountant = Callable[[Sequence[Cost], Cost | None, float], float]
"""(costs, an additional cost or None, total delta) -> an upper bound of the composition's epsilon; infinite where the
costs' own deltas exceed the total. The additional cost is a separate argument so that the composition of the others can
be reused."""

PLACES = 4
"""Decimals to which the largest fitting epsilon is computed."""
MAX_EPSILON = 64.0


def conservative(costs: Sequence[Cost], more: Cost | None, delta: float) -> float:
    """The accountant of devices and aggregators: light bounds, never below the true composition. Infinite where a cost
    is unbounded."""
    everything = [*costs, more] if more is not None else costs
    if not all(cost.is_bounded for cost in everything):
        return math.inf
    return epsilon_heterogeneous([cost.step for cost in everything], delta)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one charge in one account: epsilon of the deciding period (the fullest one that the charge
    touches, or the first that would exceed the account), without the charge and with it. Infinite where deltas alone
    exceed the account's."""

    fits: bool
    before: float
    total: float
    others: tuple[Cost, ...]
    """The other costs in that period."""


def costs_of(charges: Iterable[Charge]) -> tuple[Cost, ...]:
    """The costs of those charges that count."""
    return tuple(charge.cost for charge in charges if charge.counts)


def fits(costs: Sequence[Cost], more: Cost | None, account: Account, accountant: Accountant) -> bool:
    """Whether the costs of one period stay within the account. Plain addition, which is exact in decimals, is tried
    first, then the light bounds."""
    everything = [*costs, more] if more is not None else costs
    added = sum(cost.epsilon for cost in everything), sum(cost.delta for cost in everything)
    if added[0] <= account.epsilon and added[1] <= account.delta:
        return True
    limit, delta = float(account.epsilon), float(account.delta)
    if conservative(costs, more, delta) <= limit:
        return True
    return accountant is not conservative and accountant(costs, more, delta) <= limit


def judge(charge: Charge, charges: Sequence[Charge], account: Account, accountant: Accountant) -> Verdict:
    """Judge whether ``charge`` fits beside the others of its account (it is left out of ``charges`` if it is among
    them)."""
    periods = _others(charge, charges, account)
    over = None if _fits_beside_all(charge, charges, account) else _first_over(charge, periods, account, accountant)
    others = max(periods, key=len) if over is None else over
    before, total = (accountant(others, more, float(account.delta)) for more in (None, charge.cost))
    return Verdict(over is None, before, total, others)


def _fits_beside_all(charge: Charge, charges: Sequence[Charge], account: Account) -> bool:
    """Whether the light bounds admit the charge even together with everything that any period with ``charge`` may
    hold."""
    reach = (charge.start - account.window_seconds, charge.end + account.window_seconds)
    held = costs_of(one for one in _same(charge, charges) if one.touches(*reach))
    return fits(held, charge.cost, account, conservative)


def _first_over(
    charge: Charge, periods: Sequence[tuple[Cost, ...]], account: Account, accountant: Accountant
) -> tuple[Cost, ...] | None:
    return next((others for others in periods if not fits(others, charge.cost, account, accountant)), None)


def _same(charge: Charge, charges: Sequence[Charge]) -> list[Charge]:
    """The other charges that count in the charge's account."""
    return [
        one for one in charges if one.account == charge.account and one.counts and one.recipe_hash != charge.recipe_hash
    ]


def _others(charge: Charge, charges: Sequence[Charge], account: Account) -> list[tuple[Cost, ...]]:
    """The other costs in each period that touches ``charge``; at least one period."""
    return [costs_of(held) for held in windows(_same(charge, charges), account.window_seconds, around=charge)]


def largest_epsilon(
    charge: Charge, charges: Sequence[Charge], account: Account, accountant: Accountant
) -> Decimal | None:
    """Return the largest epsilon, to 4 decimals, that fits in place of ``charge``'s own at its delta; None where not
    even its delta fits."""
    return largest_beside(_others(charge, charges, account), charge.cost.delta, account, accountant)


def largest_beside(
    periods: Sequence[Sequence[Cost]], delta: Decimal, account: Account, accountant: Accountant
) -> Decimal | None:
    """Return the largest epsilon, to 4 decimals, that fits at ``delta`` into every one of the ``periods``; None where
    not even ``delta`` fits. The fullest period should come first: then most others are evaluated only once."""
    best = min(float(account.epsilon), MAX_EPSILON)
    for others in sorted(periods, key=_weight, reverse=True):

        def holds(epsilon: float, others: Sequence[Cost] = others) -> bool:
            return fits(others, Cost(_rounded(epsilon), delta), account, accountant)

        found = largest_where(holds, 0.0, best, 10.0**-PLACES / 4)
        if found is None:
            return None
        best = found
    return _rounded(best)


def _weight(costs: Sequence[Cost]) -> float:
    return math.fsum(cost.step[0] ** 2 for cost in costs)


def _rounded(epsilon: float) -> Decimal:
    """Round down to 4 decimals, so that the epsilon returned is the one that was tested."""
    return Decimal(int(epsilon * 10**PLACES + 1e-6)).scaleb(-PLACES)


def how_many(cost: Cost, charge: Charge, charges: Sequence[Charge], account: Account, accountant: Accountant) -> int:
    """How many recipes of ``cost`` fit in place of ``charge``, all in the same period."""
    found = _others(charge, charges, account)

    def holds(count: int) -> bool:
        return count == 0 or all(fits((*others, *(cost,) * (count - 1)), cost, account, accountant) for others in found)

    if cost.delta <= 0 and cost.epsilon <= 0:
        raise ValueError("a recipe must have an epsilon or a delta above 0")
    low, high = 0, 1
    while high <= MAX_COUNT and holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


MAX_COUNT = 1 << 12
"""The largest number that ``how_many`` counts to."""
