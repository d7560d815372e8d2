"""What an account has spent at a moment, and in its fullest period.

To find the fullest of many periods, each period is first bounded cheaply: it holds every charge that begins before the
period ends, except those that ended before it began, so the sums of the Chernoff bound's terms come from two running
sums. Only periods that may be the fullest are then composed by the accountant.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tacit.dp.claim import decimal_up
from tacit.dp.heterogeneous import chernoff, log_moments
from tacit.dp.parameters import MIN_DELTA
from tacit.ledger.account import Account, Charge, Cost
from tacit.ledger.budget import Accountant, costs_of, fits
from tacit.ledger.windows import begins

EXACT = 4
"""How many periods are composed in search of the fullest; if more may be the fullest, the light bound of the next one
is used."""
_ROUNDING = 1 + 1e-9
"""Factor that covers rounding: running sums are subtracted from each other."""


@dataclass(frozen=True, slots=True)
class Balance:
    """An account at a moment. ``spent`` is the cost of the fullest period that holds the moment, ``peak`` the cost of
    the fullest period of all; both are epsilons at the account's delta. ``delta_spent`` is the largest sum of deltas in
    a period that holds the moment."""

    account: Account
    spent: float
    peak: float
    delta_spent: Decimal
    over: bool


def balance(charges: Sequence[Charge], account: Account, now: float, accountant: Accountant) -> Balance:
    """Compute the account's balance from ``charges`` at ``now`` (POSIX seconds)."""
    counted = [charge for charge in charges if charge.account == account.name and charge.counts]
    present = Charge(account.name, b"", "", int(now), int(now) + 1, Cost(Decimal(0), Decimal(0)))
    around, everywhere = _bounded(counted, account, present), _bounded(counted, account)
    return Balance(
        account,
        spent=_fullest(around, account, accountant),
        peak=_fullest(everywhere, account, accountant),
        delta_spent=max((sum((cost.delta for cost in costs), Decimal(0)) for _, costs in around), default=Decimal(0)),
        over=any(
            bound > float(account.epsilon) and not fits(costs, None, account, accountant) for bound, costs in everywhere
        ),
    )


Bounded = tuple[float, tuple[Cost, ...]]
"""An upper bound of a period's epsilon, and the costs in the period."""


def _fullest(periods: Sequence[Bounded], account: Account, accountant: Accountant) -> float:
    found = 0.0
    for number, (bound, costs) in enumerate(periods):
        if bound <= found:
            break
        if number >= EXACT:
            return bound
        found = max(found, accountant(costs, None, float(account.delta)))
    return found


def _bounded(charges: Sequence[Charge], account: Account, around: Charge | None = None) -> list[Bounded]:
    """Bound every period that matters; the largest bound comes first."""
    begun, ended = sorted(charges, key=lambda one: one.start), sorted(charges, key=lambda one: one.end)
    starts, ends = [one.start for one in begun], [one.end for one in ended]
    before, behind = _running(begun), _running(ended)
    found = []
    for begin in begins(charges, account.window_seconds, around):
        end = begin + account.window_seconds
        added, taken = before[bisect_left(starts, end)], behind[bisect_right(ends, begin)]
        costs = costs_of(charge for charge in charges if charge.touches(begin, end))
        found.append((_bound([one - other for one, other in zip(added, taken, strict=True)], account, costs), costs))
    return sorted(found, key=lambda period: period[0], reverse=True)


def _running(charges: Iterable[Charge]) -> list[tuple[float, ...]]:
    """Sums of ``ln(1 - delta)`` and of the log moments over the first 0, 1, 2, ... charges."""
    sums = [(0.0,) * (1 + len(log_moments(1.0)))]
    for charge in charges:
        epsilon, delta = charge.cost.step
        terms = (math.log1p(-delta), *log_moments(epsilon))
        sums.append(tuple(one + other for one, other in zip(sums[-1], terms, strict=True)))
    return sums


def _bound(terms: Sequence[float], account: Account, costs: Sequence[Cost]) -> float:
    added = float(sum(cost.epsilon for cost in costs))
    if sum(cost.delta for cost in costs) > account.delta * 2:
        return math.inf
    slack = -math.expm1(math.log1p(-float(account.delta)) - terms[0]) / _ROUNDING
    if slack < MIN_DELTA:
        return added if sum(cost.delta for cost in costs) <= account.delta else math.inf
    return min(added, chernoff(terms[1:], slack) * _ROUNDING)


def computed_epsilon(value: float) -> str:
    """Format a computed epsilon, rounded up to 4 decimals."""
    return "inf" if math.isinf(value) else decimal_up(value, 4)
