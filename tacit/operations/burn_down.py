"""How an account has been spent, day by day, and when it would be used up if recipes kept coming as they did.

A figure is what the recipes that the account's period holds at the end of that day compose to; the last figure is
of now and holds also those that are logged and have yet to begin. What leaves the period gives its budget back, so that
an account may last for ever: the forecast goes one whole period ahead, in which everything of today has left it, and
what fits then fits always.

The pace is that of the last 30 days (of the period, or of the time since the first recipe, if that is less), at their
mean cost; its bounds are those of a Poisson count with 95 %. Nobody knows what an analyst will ask next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tacit.ledger.account import Account, Charge, Cost
from tacit.ledger.balance import computed_epsilon
from tacit.ledger.budget import Accountant, conservative, costs_of, fits
from tacit.recipe.charges import charges_of
from tacit.recipe.live import LiveLog
from tacit.recipe.policy import Policy

DAY = 86_400
MOST_POINTS = 122
"""Moments that are shown: of a longer time every second day, or every third and so on."""
RECENT_SECONDS = 30 * DAY
SHORTEST_SECONDS = 3_600
"""Least time that a pace is taken of."""
CHECKPOINTS = 48
"""Moments of the coming period at which it is looked whether everything fits."""
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Day:
    """What was spent at POSIX second ``at``, epsilon at the account's delta, and what was left of the account's."""

    at: int
    spent: float
    left: float

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"at": self.at, "spent": computed_epsilon(self.spent), "left": f"{int(self.left * 10_000) / 10_000:g}"}


@dataclass(frozen=True, slots=True)
class Pace:
    """``recipes`` began within ``seconds``, of ``epsilon``, ``epsilon_with_relay`` and ``delta`` each on average."""

    recipes: int
    seconds: int
    epsilon: Decimal
    epsilon_with_relay: Decimal
    delta: Decimal

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "recipes": self.recipes,
            "seconds": self.seconds,
            "epsilon": computed_epsilon(float(self.epsilon)),
            "epsilon_with_relay": computed_epsilon(float(self.epsilon_with_relay)),
            "delta": f"{self.delta:.3g}",
        }


@dataclass(frozen=True, slots=True)
class BurnDown:
    """An account's ``days`` in their order (midnights, UTC), the last one now; its ``pace`` (None: nothing was charged
    of late); and the POSIX second at which it would be used up at that pace, between ``earliest`` and ``latest`` (None:
    it would never be)."""

    account: Account
    days: tuple[Day, ...]
    pace: Pace | None
    used_up_at: int | None
    earliest: int | None
    latest: int | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        limit = self.account.epsilon_with_relay
        return {
            "account": self.account.name,
            "epsilon": str(self.account.epsilon),
            "epsilon_with_relay": None if limit is None else str(limit),
            "delta": f"{self.account.delta:f}",
            "window_seconds": self.account.window_seconds,
            "days": [one.document() for one in self.days],
            "pace": None if self.pace is None else self.pace.document(),
            "used_up": {"at": self.used_up_at, "earliest": self.earliest, "latest": self.latest},
        }


def burn_downs(log: LiveLog, policy: Policy, now: float) -> list[BurnDown]:
    """Those of every account of ``policy``, by what ``log`` charges to it, at ``now`` (POSIX seconds)."""
    charges = charges_of(log, now)
    found = (policy.account(name) for name in sorted(policy.accounts or {}))
    return [burn_down(charges, account, now) for account in found if account is not None]


def burn_down(
    charges: Sequence[Charge], account: Account, now: float, accountant: Accountant = conservative
) -> BurnDown:
    """That of one account. By default what is spent is what aggregators and devices reckon, a light bound that is never
    too small."""
    own = sorted((one for one in charges if one.account == account.name and one.counts), key=lambda one: one.start)
    pace = _pace(own, account, now)
    if pace is None:
        return BurnDown(account, _days(own, account, int(now), accountant), None, None, None, None)
    spread = NORMAL_95 * math.sqrt(pace.recipes)
    rates = [max(0.0, pace.recipes + more) / pace.seconds for more in (0.0, spread, -spread)]
    ends = [_used_up(own, account, pace, rate, now, accountant) for rate in rates]
    return BurnDown(account, _days(own, account, int(now), accountant), pace, *ends)


def _days(own: Sequence[Charge], account: Account, now: int, accountant: Accountant) -> tuple[Day, ...]:
    first = min((one.start for one in own), default=now)
    begin = max(first, now - account.window_seconds) // DAY * DAY + DAY
    step = max(1, -(-(now - begin) // (DAY * (MOST_POINTS - 1)))) * DAY
    composed = lru_cache(maxsize=None)(lambda costs: accountant(costs, None, float(account.delta)))
    found = []
    for at in (*range(begin, now, step), now):
        ahead = math.inf if at == now else at
        held = costs_of(one for one in own if one.start <= ahead and one.end > at - account.window_seconds)
        spent = composed(held) if held else 0.0
        found.append(Day(at, spent, max(0.0, float(account.epsilon) - spent)))
    return tuple(found)


def _pace(own: Sequence[Charge], account: Account, now: float) -> Pace | None:
    if not own:
        return None
    known = max(SHORTEST_SECONDS, int(now) - own[0].start)
    seconds = min(known, account.window_seconds, RECENT_SECONDS)
    recent = [one for one in own if one.start >= now - seconds]
    if not recent:
        return None
    costs = costs_of(recent)
    beside = [one.cost.epsilon for one in (charge.with_relay() for charge in recent)]
    count = len(recent)
    epsilon, delta = sum(one.epsilon for one in costs), sum(one.delta for one in costs)
    return Pace(count, seconds, epsilon / Decimal(count), sum(beside, Decimal(0)) / count, delta / Decimal(count))


def _used_up(
    own: Sequence[Charge], account: Account, pace: Pace, rate: float, now: float, accountant: Accountant
) -> int | None:
    """When a recipe of the pace's mean cost fits no more, if ``rate`` come a second; None: all do."""
    whole = math.ceil(rate * account.window_seconds)

    def fitting(count: int) -> bool:
        at = now + count / rate
        held = [one for one in own if one.end > at - account.window_seconds]
        beside = account.with_relay()
        new = [Cost(pace.epsilon, pace.delta)] * count
        if not fits([*costs_of(held), *new], None, account, accountant):
            return False
        if beside is None:
            return True
        more = [Cost(pace.epsilon_with_relay, pace.delta)] * count
        return fits([*costs_of(one.with_relay() for one in held), *more], None, beside, accountant)

    low = 0
    for step in range(1, CHECKPOINTS + 1):
        high = max(1, whole * step // CHECKPOINTS) if whole else 0
        if high <= low:
            continue
        if not fitting(high):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fitting(middle) else (low, middle)
            return math.ceil(now + high / rate)
        low = high
    return None
