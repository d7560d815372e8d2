"""The budget ledger of a stack: its whole log, read and verified, and what that leaves in each account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from infra.layout import Layout
from infra.terminal import computed_epsilon
from tacit.accounting.budgets import accountant_of_record
from tacit.codec import b64url
from tacit.ledger.account import Account, Charge
from tacit.ledger.balance import balance
from tacit.ledger.budget import Verdict, conservative, how_many, judge, largest_epsilon
from tacit.monitor.reading import WholeLog
from tacit.ports import Transport, TransportError
from tacit.recipe.charges import charges_of
from tacit.recipe.live import LeafSigners, LiveLog
from tacit.recipe.policy import Policy
from tacit.tlog.checkpoint import NoteKey
from tacit.tlog.client import signed_entries
from tacit.tlog.leaves import SignedLeaf

RELATION = "replacement"


async def whole_log(transport: Transport, layout: Layout, policy: Policy) -> LiveLog:
    """Every leaf of the stack's log since its beginning: they are the checkpoint's, and each is signed. Raises
    ``Refusal`` or ``TransportError``."""
    url = layout.urls["recipe_server"]
    log = WholeLog(transport, url, NoteKey.decode(layout.log_key))
    try:
        await log.read(await log.checkpoint(), 0)
    except TransportError as error:
        raise TransportError(f"{url} does not answer; is the stack up? ({error})") from error
    leaves = [SignedLeaf.decode(entry) for entry in log.tree.entries]
    return LiveLog.from_entries(signed_entries(range(len(leaves)), leaves, LeafSigners(policy)))


def ledger_document(log: LiveLog, policy: Policy, now: float) -> dict[str, Any]:
    """The ledger as JSON: every account of the policy, and every recipe of the log under its own."""
    charges = charges_of(log, now)
    names = sorted({*(policy.accounts or {}), *(charge.account for charge in charges)})
    return {
        "at": int(now),
        "relation": RELATION,
        "accounts": [_account_document(name, policy.account(name), charges, now) for name in names],
    }


def _account_document(name: str, account: Account | None, charges: Sequence[Charge], now: float) -> dict[str, Any]:
    own = [charge for charge in charges if charge.account == name]
    document: dict[str, Any] = {"account": name, "in_policy": account is not None}
    if account is not None:
        tight, light = (balance(own, account, now, one) for one in (accountant_of_record(), conservative))
        left = max(0.0, float(account.epsilon) - tight.spent)
        document |= {
            "epsilon": str(account.epsilon),
            "delta": f"{account.delta:f}",
            "window_seconds": account.window_seconds,
            "spent": computed_epsilon(tight.spent),
            "spent_conservative": computed_epsilon(light.spent),
            "peak": computed_epsilon(tight.peak),
            "remaining": f"{int(left * 10_000) / 10_000:g}",
            "delta_spent": f"{tight.delta_spent:f}",
            "over": tight.over,
            **_with_relay(account, own, now),
        }
    return document | {"recipes": [_recipe_document(charge) for charge in own]}


def _with_relay(account: Account, charges: Sequence[Charge], now: float) -> dict[str, Any]:
    """The second balance, of claims (b): against an aggregator with the relay."""
    beside, limit = account.with_relay() or account, account.epsilon_with_relay
    found = balance([charge.with_relay() for charge in charges], beside, now, accountant_of_record())
    return {
        "epsilon_with_relay": None if limit is None else str(limit),
        "spent_with_relay": computed_epsilon(found.spent),
        "peak_with_relay": computed_epsilon(found.peak),
        "over_with_relay": limit is not None and found.over,
    }


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
    """Whether a recipe would fit into its account, and what would."""

    charge: Charge
    account: Account
    verdict: Verdict
    conservative_total: float
    largest: Decimal | None
    count: int
    series: str | None = None
    """Of a round: the series that is charged instead, once for all rounds."""
    cap: Decimal | None = None
    """What the policy allows any one recipe to an aggregator, whatever its account has."""
    beside: Verdict | None = None
    """In the balance of claims (b), where the account limits these."""

    @property
    def fits(self) -> bool:
        """Whether both balances have room."""
        return self.verdict.fits and (self.beside is None or self.beside.fits)

    def document(self) -> dict[str, Any]:
        """As JSON."""
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
            "with_recipe_conservative": computed_epsilon(self.conservative_total),
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
    """Whether ``charge`` fits beside ``charges``, by the accountant of record; ``series``: the name of the series that
    it is the charge of. ``cap``: the policy's for one recipe."""
    accountant = accountant_of_record()
    verdict, limit = judge(charge, charges, account, accountant), account.with_relay()
    others = [one.with_relay() for one in charges]
    return Plan(
        charge,
        account,
        verdict,
        conservative(verdict.others, charge.cost, float(account.delta)),
        largest_epsilon(charge, charges, account, accountant),
        how_many(charge.cost, charge, charges, account, accountant),
        series,
        cap,
        None if limit is None else judge(charge.with_relay(), others, limit, accountant),
    )
