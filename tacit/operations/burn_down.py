"""How an account was spent, day by day, and when it would be used up if recipes kept coming at the same pace.

The figure of a day is the composed cost of the recipes in the account's period at the end of that day; the last figure
is the present one and also includes logged recipes that have not begun yet. Recipes that leave the period give their
budget back, so an account may last for ever: the forecast looks one whole period ahead. By then every recipe of today
has left the period, and if the recipes fit until then, they always fit.

The pace is that of the last 30 days (or of the period, or of the time since the first recipe, if that is shorter), at
the mean cost of their recipes; its bounds are the 95 % interval of a Poisson count. There is no forecast until a day
has passed since the first recipe. The forecast cannot know what an analyst will ask next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tacit.ledger.account import Account, Charge, Cost
from tacit.ledger.balance import computed_epsilon
from tacit.ledger.budget import costs_of, largest_beside
from tacit.ledger.filter import filter_of
from tacit.logview.live import LiveLog, charges_of
from tacit.methods.figures import NORMAL_95
from tacit.recipe.charges import rightful
from tacit.recipe.policy import Policy

DAY = 86_400
MOST_POINTS = 122
"""The most points that are shown; for a longer time there is one for every second day, or every third, and so on."""
RECENT_SECONDS = 30 * DAY
SHORTEST_SECONDS = 3_600
"""The shortest time, in seconds, from which a pace is computed."""
LEAST_HISTORY = DAY
"""How many seconds must have passed since the first recipe for a forecast: fewer would extrapolate the first hours."""
CHECKPOINTS = 48
"""At how many moments in the coming period it is tested whether all recipes fit."""


@dataclass(frozen=True, slots=True)
class Day:
    """The epsilon that was spent at POSIX second ``at``, at the account's delta, and the epsilon that was left."""

    at: int
    spent: Decimal
    left: Decimal

    def document(self) -> dict[str, Any]:
        """The day as a JSON object: time, epsilon spent, share left."""
        return {"at": self.at, "spent": computed_epsilon(self.spent), "left": computed_epsilon(self.left)}


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of an account: ``recipes`` recipes began within ``seconds`` (0: the first one has not begun yet), with a
    mean cost of ``epsilon``, ``epsilon_with_relay`` and ``delta``."""

    recipes: int
    seconds: int
    epsilon: Decimal
    epsilon_with_relay: Decimal
    delta: Decimal

    def document(self) -> dict[str, Any]:
        """The pace of spending as a JSON object."""
        return {
            "recipes": self.recipes,
            "seconds": self.seconds,
            "epsilon": computed_epsilon(self.epsilon),
            "epsilon_with_relay": computed_epsilon(self.epsilon_with_relay),
            "delta": f"{self.delta:.3g}",
        }


@dataclass(frozen=True, slots=True)
class BurnDown:
    """The burn-down of an account: its ``days`` in order (at midnight UTC; the last one is now), its ``pace`` (None:
    nothing was charged recently), and the POSIX second at which it would be used up at that pace, with the bounds
    ``earliest`` and ``latest`` (None: never, or there is no forecast)."""

    account: Account
    days: tuple[Day, ...]
    pace: Pace | None
    used_up_at: int | None
    earliest: int | None
    latest: int | None

    @property
    def has_forecast(self) -> bool:
        """Whether there have been recipes for long enough to make a forecast."""
        return self.pace is not None and self.pace.seconds >= LEAST_HISTORY

    def document(self) -> dict[str, Any]:
        """The account's spending and forecast as a JSON object."""
        limit = self.account.epsilon_with_relay
        return {
            "account": self.account.name,
            "epsilon": str(self.account.epsilon),
            "epsilon_with_relay": None if limit is None else str(limit),
            "delta": f"{self.account.delta:f}",
            "window_seconds": self.account.window_seconds,
            "days": [one.document() for one in self.days],
            "pace": None if self.pace is None else self.pace.document(),
            "has_forecast": self.has_forecast,
            "used_up": {"at": self.used_up_at, "earliest": self.earliest, "latest": self.latest},
        }


def burn_downs(log: LiveLog, policy: Policy, now: float) -> list[BurnDown]:
    """The burn-down of every account of ``policy``, from the recipes in ``log``, at ``now`` (POSIX seconds)."""
    charges = rightful(charges_of(log, now), policy)
    found = (policy.account(name) for name in sorted(policy.accounts or {}))
    return [burn_down(charges, account, now) for account in found if account is not None]


def burn_down(charges: Sequence[Charge], account: Account, now: float) -> BurnDown:
    own = sorted((one for one in charges if one.account == account.name and one.counts), key=lambda one: one.start)
    pace = _pace(own, account, now)
    found = BurnDown(account, _days(own, account, int(now)), pace, None, None, None)
    if pace is None or not found.has_forecast:
        return found
    spread = NORMAL_95 * math.sqrt(pace.recipes)
    rates = [max(0.0, pace.recipes + more) / max(SHORTEST_SECONDS, pace.seconds) for more in (0.0, spread, -spread)]
    ends = [_used_up(own, account, pace, rate, now) for rate in rates]
    return replace(found, used_up_at=ends[0], earliest=ends[1], latest=ends[2])


def _days(own: Sequence[Charge], account: Account, now: int) -> tuple[Day, ...]:
    first = min((one.start for one in own), default=now)
    begin = max(first, now - account.window_seconds) // DAY * DAY + DAY
    step = max(1, -(-(now - begin) // (DAY * (MOST_POINTS - 1)))) * DAY
    gate = filter_of(account)
    left = lru_cache(maxsize=None)(lambda weight: largest_beside([weight], Decimal(0), account) or Decimal(0))
    found = []
    for at in (*range(begin, now, step), now):
        ahead = math.inf if at == now else at
        held = costs_of(one for one in own if one.start <= ahead and one.end > at - account.window_seconds)
        weight = gate.weigh(held)
        found.append(Day(at, gate.spent(weight), left(weight)))
    return tuple(found)


def _pace(own: Sequence[Charge], account: Account, now: float) -> Pace | None:
    if not own:
        return None
    known = max(0, int(now) - own[0].start)
    seconds = min(known, account.window_seconds, RECENT_SECONDS)
    recent = [one for one in own if one.start >= int(now) - seconds]
    if not recent:
        return None
    costs = costs_of(recent)
    beside = [one.cost.epsilon for one in (charge.with_relay() for charge in recent)]
    count = len(recent)
    epsilon, delta = sum(one.epsilon for one in costs), sum(one.delta for one in costs)
    return Pace(count, seconds, epsilon / Decimal(count), sum(beside, Decimal(0)) / count, delta / Decimal(count))


def _hold(account: Account, held: Sequence[Cost], cost: Cost, count: int) -> bool:
    """Whether the account has room for ``held`` and ``count`` times ``cost``."""
    gate = filter_of(account)
    return gate.holds(gate.weigh(held).plus(gate.weigh([cost]).times(count)))


def _used_up(own: Sequence[Charge], account: Account, pace: Pace, rate: float, now: float) -> int | None:
    """The POSIX second at which a recipe with the pace's mean cost no longer fits, if there are ``rate`` recipes per
    second; None if all fit."""
    whole = math.ceil(rate * account.window_seconds)

    beside = account.with_relay()

    def fitting(count: int) -> bool:
        at = now + count / rate
        held = [one for one in own if one.end > at - account.window_seconds]
        if not _hold(account, costs_of(held), Cost(pace.epsilon, pace.delta), count):
            return False
        if beside is None:
            return True
        others = costs_of(one.with_relay() for one in held)
        return _hold(beside, others, Cost(pace.epsilon_with_relay, pace.delta), count)

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
