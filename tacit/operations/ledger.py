"""The budget ledger: what the recipes in a log have left in each account of a policy, and what would still fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tacit.codec import b64url
from tacit.dp.claim import RELATION
from tacit.ledger.account import Account, Charge
from tacit.ledger.balance import Balance, balance, computed_epsilon
from tacit.ledger.budget import Verdict, how_many, judge, largest_epsilon
from tacit.ledger.filter import filter_of
from tacit.logview.live import LiveLog, charges_of
from tacit.recipe.charges import rightful
from tacit.recipe.policy import Policy


@dataclass(frozen=True)
class AccountState:
    """One account at a moment: the policy's ``account`` (None: the policy has none with this name), the log's recipes
    charged to it (``charges``), in the order of the log, and their total cost in claims (a) (``balance``) and in claims
    (b), against an aggregator with the relay (``with_relay``)."""

    name: str
    account: Account | None
    charges: tuple[Charge, ...]
    balance: Balance | None = None
    with_relay: Balance | None = None

    @property
    def over(self) -> bool:
        """Whether more is spent than the policy allows, in either of the balances that it limits."""
        return (self.balance is not None and self.balance.over) or self._over_with_relay

    @property
    def _over_with_relay(self) -> bool:
        limited = self.account is not None and self.account.epsilon_with_relay is not None
        return limited and self.with_relay is not None and self.with_relay.over

    def document(self) -> dict[str, Any]:
        """The account's balances as a JSON object."""
        document: dict[str, Any] = {"account": self.name, "in_policy": self.account is not None}
        account, own, beside = self.account, self.balance, self.with_relay
        if account is not None and own is not None and beside is not None:
            limit = account.epsilon_with_relay
            document |= {
                "epsilon": str(account.epsilon),
                "delta": f"{account.delta:f}",
                "window_seconds": account.window_seconds,
                "order": f"{filter_of(account).order:f}",
                "spent": computed_epsilon(own.spent),
                "peak": computed_epsilon(own.peak),
                "remaining": computed_epsilon(own.left),
                "delta_spent": f"{own.delta_spent:f}",
                "delta_of_claims": f"{own.delta:f}",
                "over": own.over,
                "epsilon_with_relay": None if limit is None else str(limit),
                "spent_with_relay": computed_epsilon(beside.spent),
                "peak_with_relay": computed_epsilon(beside.peak),
                "over_with_relay": self._over_with_relay,
            }
        return document | {"recipes": [_recipe_document(charge) for charge in self.charges]}


@dataclass(frozen=True)
class Ledger:
    """Every account of a policy, and every recipe of a log under its account, at a moment (POSIX seconds)."""

    at: int
    accounts: tuple[AccountState, ...]

    @property
    def over(self) -> bool:
        """Whether more is spent of any account than the policy allows, in either balance."""
        return any(one.over for one in self.accounts)

    def document(self) -> dict[str, Any]:
        """The whole ledger as a JSON object."""
        return {"at": self.at, "relation": RELATION, "accounts": [one.document() for one in self.accounts]}


def ledger_of(log: LiveLog, policy: Policy, now: float) -> Ledger:
    """The ledger of ``policy``'s accounts and of all recipes in ``log``, at ``now`` (POSIX seconds)."""
    charges = rightful(charges_of(log, now), policy)
    names = sorted({*(policy.accounts or {}), *(charge.account for charge in charges)})
    return Ledger(int(now), tuple(_state(name, policy.account(name), charges, now) for name in names))


def _state(name: str, account: Account | None, charges: Sequence[Charge], now: float) -> AccountState:
    own = tuple(charge for charge in charges if charge.account == name)
    if account is None:
        return AccountState(name, None, own)
    beside = account.with_relay() or account
    return AccountState(
        name,
        account,
        own,
        balance(own, account, now),
        balance([charge.with_relay() for charge in own], beside, now),
    )


def _recipe_document(charge: Charge) -> dict[str, Any]:
    return {
        "name": charge.name,
        "hash": b64url(charge.recipe_hash),
        "state": charge.state.value,
        "charged": charge.counts,
        "epsilon": f"{charge.cost.epsilon:f}",
        "epsilon_with_relay": f"{charge.with_relay().cost.epsilon:f}",
        "delta": f"{charge.cost.delta:f}",
        "start": charge.start,
        "end": charge.end,
    }


@dataclass(frozen=True)
class Plan:
    """Whether a recipe would fit into its account, the largest epsilon that would (``largest``), and how many such
    recipes would (``count``)."""

    charge: Charge
    account: Account
    verdict: Verdict
    largest: Decimal | None
    count: int
    series: str | None = None
    """For a round: the series that is charged instead, once for all rounds."""
    cap: Decimal | None = None
    """The policy's limit for any single recipe against an aggregator, whatever its account has left."""
    beside: Verdict | None = None
    """The verdict in the balance of claims (b), if the account limits that."""

    @property
    def fits(self) -> bool:
        """Whether both balances have room."""
        return self.verdict.fits and (self.beside is None or self.beside.fits)

    def document(self) -> dict[str, Any]:
        """The plan, and whether the account has room for it, as a JSON object."""
        return {
            "account": self.account.name,
            "epsilon": f"{self.charge.cost.epsilon:f}",
            "delta": f"{self.charge.cost.delta:f}",
            "start": self.charge.start,
            "end": self.charge.end,
            "fits": self.fits,
            "with_recipe_with_relay": None if self.beside is None else computed_epsilon(self.beside.total),
            "spent": computed_epsilon(self.verdict.before),
            "with_recipe": computed_epsilon(self.verdict.total),
            "budget": {"epsilon": f"{self.account.epsilon:f}", "delta": f"{self.account.delta:f}"},
            "beside": len(self.verdict.others),
            "largest_epsilon": None if self.largest is None else f"{self.largest:f}",
            "cap_of_one_recipe": None if self.cap is None else f"{self.cap:f}",
            "such_recipes": self.count,
            "series": self.series,
            "relation": RELATION,
        }


def plan(
    charge: Charge,
    charges: Sequence[Charge],
    account: Account,
    series: str | None = None,
    cap: Decimal | None = None,
) -> Plan:
    """Whether ``charge`` fits beside ``charges``. ``series``: the name of the series to which the charge belongs.
    ``cap``: the policy's limit for one recipe."""
    limit = account.with_relay()
    others = [one.with_relay() for one in charges]
    return Plan(
        charge,
        account,
        judge(charge, charges, account),
        largest_epsilon(charge, charges, account),
        how_many(charge.cost, charge, charges, account),
        series,
        cap,
        None if limit is None else judge(charge.with_relay(), others, limit),
    )
