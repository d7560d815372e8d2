"""What an account has spent at a moment, and in its fullest period, and what it has left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from tacit.ledger.account import Account, Charge, Cost
from tacit.ledger.budget import largest_beside
from tacit.ledger.filter import Filter, as_decimal, filter_of
from tacit.ledger.windows import Period, periods

NOTHING = Cost(Decimal(0), Decimal(0))


@dataclass(frozen=True, slots=True)
class Balance:
    """An account at a moment. ``spent`` is the cost of the fullest period that holds the moment, ``peak`` the cost of
    the fullest period of all; both are epsilons at the account's delta. ``left`` is the largest epsilon, to 4 decimals,
    that still fits into every period that holds the moment, for a claim whose delta is 0. ``delta_spent`` is the
    largest sum of deltas in a period that holds the moment, ``delta`` the most that it may be."""

    account: Account
    spent: Decimal
    peak: Decimal
    left: Decimal
    delta_spent: Decimal
    delta: Decimal
    over: bool


def balance(charges: Sequence[Charge], account: Account, now: float) -> Balance:
    """Compute the account's balance from ``charges`` at ``now`` (POSIX seconds)."""
    counted = [charge for charge in charges if charge.account == account.name and charge.counts]
    gate, present = filter_of(account), Charge(account.name, b"", "", int(now), int(now) + 1, NOTHING)
    around = periods(counted, account.window_seconds, gate, present)
    everywhere = periods(counted, account.window_seconds, gate)
    return Balance(
        account,
        spent=_fullest(around, gate),
        peak=_fullest(everywhere, gate),
        left=largest_beside([one.weight for one in around], Decimal(0), account) or Decimal(0),
        delta_spent=as_decimal(max(one.weight.delta for one in around)),
        delta=as_decimal(gate.delta),
        over=not all(gate.holds(one.weight) for one in everywhere),
    )


def _fullest(found: Iterable[Period], gate: Filter) -> Decimal:
    return max((gate.spent(one.weight) for one in found), default=Decimal(0))


def computed_epsilon(value: Decimal) -> str:
    """Format a computed epsilon, rounded up to 4 decimals."""
    if value.is_infinite():
        return "inf"
    text = f"{value.quantize(Decimal('0.0001'), rounding=ROUND_CEILING):f}"
    return text.rstrip("0").rstrip(".")
