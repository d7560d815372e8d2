"""Privacy accounts and the charges against them.

An account is a promise about every device of a population: in any period of ``window_seconds``, all charged recipes
whose report interval touches that period are together (epsilon, delta)-differentially private, by replacement of one
device's data, against one aggregator or the analyst (claim (a)). The relay sees who sends, so sampling hides no device
from an aggregator that colludes with it, and importance sampling alone already reveals something to the relay. A second
balance, of claims (b), is therefore kept beside the first, and an account may limit it too.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal

MAX_STATED_EPSILON = 500
"""Largest epsilon that counts as a claim; above it e^epsilon would soon overflow a double."""


class ChargeState(enum.StrEnum):
    """What the log says about a recipe, as far as its account is concerned."""

    PENDING = "pending"
    """Leader or helper has not opted in yet and still may: counts in full."""
    ACTIVE = "active"
    """Both have opted in: counts in full, released or not."""
    VOID = "void"
    """Both have closed it for good without a release: does not count."""
    UNREFUNDED = "unrefunded"
    """As ``VOID``, but something was learnt without a release: counts in full for ever."""
    LAPSED = "lapsed"
    """Its interval ended before both had opted in, so that no device ever answered: does not count."""
    COVERED = "covered"
    """A round of a series, which is charged as a whole: does not count by itself."""


COUNTED = frozenset({ChargeState.PENDING, ChargeState.ACTIVE, ChargeState.UNREFUNDED})


@dataclass(frozen=True, slots=True)
class Account:
    """The budget (epsilon, delta) for any period of ``window_seconds``; ``epsilon_with_relay`` limits claims (b) (None:
    they are counted, but not limited)."""

    name: str
    epsilon: Decimal
    delta: Decimal
    window_seconds: int
    epsilon_with_relay: Decimal | None = None

    def with_relay(self) -> Account | None:
        """The account for claims (b); None where they are not limited."""
        return None if self.epsilon_with_relay is None else replace(self, epsilon=self.epsilon_with_relay)


@dataclass(frozen=True, slots=True)
class Cost:
    """A claim (a): (epsilon, delta) by replacement."""

    epsilon: Decimal
    delta: Decimal

    @property
    def is_bounded(self) -> bool:
        """Whether the claim is finite and in range: a recipe may state anything."""
        return self.epsilon <= MAX_STATED_EPSILON and self.delta < 1

    @property
    def step(self) -> tuple[float, float]:
        """(epsilon, delta) as the nearest floats, which may be a little lower."""
        return float(self.epsilon), float(self.delta)


@dataclass(frozen=True, slots=True)
class Charge:
    """The ledger entry of a recipe or a series, identified by its hash. ``start`` (inclusive) and ``end`` (exclusive)
    are its report interval, POSIX seconds; ``epsilon_with_relay`` is claim (b), at the cost's delta (None: no more than
    the cost)."""

    account: str
    recipe_hash: bytes
    name: str
    start: int
    end: int
    cost: Cost
    state: ChargeState = ChargeState.PENDING
    epsilon_with_relay: Decimal | None = None
    analyst: str = ""
    """The operator that asks."""

    def with_relay(self) -> Charge:
        """This entry in the balance of claims (b)."""
        if self.epsilon_with_relay is None:
            return self
        return replace(self, cost=Cost(self.epsilon_with_relay, self.cost.delta))

    @property
    def counts(self) -> bool:
        """Whether the account holds its cost: it is pending, active or not refunded (``COUNTED``)."""
        return self.state in COUNTED

    def touches(self, begin: int, end: int) -> bool:
        """Whether the report interval and [begin, end) share a second."""
        return self.start < end and self.end > begin


def charge_state(
    roles: Collection[str],
    opted_in: Collection[str],
    void: Collection[str],
    end: int,
    now: float,
    *,
    refundable: bool,
) -> ChargeState:
    """Return the state at ``now`` (POSIX seconds) of a recipe that needs the opt-ins of ``roles``. ``opted_in`` and
    ``void`` are the roles that have logged an opt-in and a void leaf. ``refundable``: the charged adversary learns
    nothing without a release."""
    if set(void) >= set(roles):
        return ChargeState.VOID if refundable else ChargeState.UNREFUNDED
    if set(opted_in) >= set(roles):
        return ChargeState.ACTIVE
    return ChargeState.LAPSED if now >= end else ChargeState.PENDING


def series_state(rounds: Collection[ChargeState], end: int, now: float) -> ChargeState:
    """Return the state of a series from the states of its published rounds: the series counts until its time is over
    and nothing of any round was, or can still be, released."""
    for lasting in (ChargeState.ACTIVE, ChargeState.UNREFUNDED):
        if lasting in rounds:
            return lasting
    if now < end or ChargeState.PENDING in rounds:
        return ChargeState.PENDING
    return ChargeState.VOID if ChargeState.VOID in rounds else ChargeState.LAPSED
