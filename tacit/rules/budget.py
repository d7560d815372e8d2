"""Rules on the account that a recipe is charged to (P22)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from tacit.ledger.account import Account, Charge, ChargeState
from tacit.ledger.budget import Accountant, Verdict, judge, largest_epsilon
from tacit.models.forms import form_of
from tacit.recipe.charges import charge_of, series_charge
from tacit.recipe.context import Context
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.rules.detail import Detail, at_most, one_of

WITH_RELAY = "claims (b), an aggregator with the relay"


def account_known(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``privacy.account`` is one of the policy's ``accounts``, where it lists any."""
    name = recipe.privacy.account
    if policy.accounts is None or name in policy.accounts:
        return None
    words = f"the policy has no account {name}; it has {', '.join(sorted(policy.accounts))}"
    return Detail(words, *one_of("privacy.account", sorted(policy.accounts)))


def budget_left(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """In every period that the recipe's interval touches, its claim (a) and those of the recipes charged beside it
    compose to at most the account's (epsilon, delta); the same holds for their claims (b), where the account limits
    these. For a round, the claim and time of the whole series count."""
    if context.charges is None or (recipe.series is not None and context.series is None):
        return None
    charge = charge_of(recipe, ChargeState.PENDING)
    if context.series is not None:
        charge = series_charge(context.series, ChargeState.PENDING)
        return charge_left(charge, policy, context.charges, context.accountant)
    form = form_of(recipe.model)
    members = (f"privacy.epsilon.{form.charged}", f"privacy.epsilon.{form.charged_with_relay}")
    return charge_left(charge, policy, context.charges, context.accountant, members)


def charge_left(
    charge: Charge,
    policy: Policy,
    charges: Sequence[Charge],
    accountant: Accountant,
    members: tuple[str, str] | None = None,
) -> str | None:
    """The refusal where ``charge`` does not fit beside ``charges``; None where it fits, or where the policy does not
    have its account. ``members``: for a recipe, the members that state what is charged, without the relay and with it.
    """
    account = policy.account(charge.account)
    if account is None:
        return None
    member, with_relay = members or (None, None)
    found = _left(charge, account, charges, accountant, member)
    beside = account.with_relay()
    if found is not None or beside is None:
        return found
    found = _left(charge.with_relay(), beside, [one.with_relay() for one in charges], accountant, with_relay)
    return None if found is None else Detail(f"{WITH_RELAY}: {found}", *found.needed)


def _left(
    charge: Charge, account: Account, charges: Sequence[Charge], accountant: Accountant, member: str | None
) -> Detail | None:
    verdict = judge(charge, charges, account, accountant)
    if verdict.fits:
        return None
    largest = largest_epsilon(charge, charges, account, accountant)
    words = over_budget(charge, verdict, account, largest)
    if member is None:
        return Detail(words)
    if math.isinf(verdict.total):
        left = _delta_left(verdict, account)
        return Detail(words, *([at_most("privacy.delta", f"{left:f}")] if left else []))
    return Detail(words, *([at_most(member, f"{largest:f}")] if largest else []))


def _delta_left(verdict: Verdict, account: Account) -> Decimal:
    return max(Decimal(0), account.delta - sum((cost.delta for cost in verdict.others), Decimal(0)))


def over_budget(charge: Charge, verdict: Verdict, account: Account, largest: Decimal | None) -> str:
    """The text of a refusal: what is spent, what the recipe adds, and what would pass."""
    spent = f"account {account.name}, {counted(len(verdict.others), 'recipe')} in {period_text(account.window_seconds)}"
    deltas = sum((cost.delta for cost in verdict.others), Decimal(0))
    if math.isinf(verdict.total):
        left = _delta_left(verdict, account)
        return (
            f"{spent}: delta {deltas:f} of {account.delta:f} is spent, this recipe adds {charge.cost.delta:f}; "
            f"at most delta {left:f} still fits"
        )
    before, total = _places(verdict.before, up=False), _places(verdict.total, up=True)
    fitting = f"at most epsilon {largest:f} still fits" if largest else "nothing more fits"
    return (
        f"{spent}: epsilon {before} of {account.epsilon:f} at delta {account.delta:f} is spent, "
        f"with this recipe's {charge.cost.epsilon:f} it would be {total}; {fitting}"
    )


def period_text(seconds: int) -> str:
    """An account's period in words."""
    days, rest = divmod(seconds, 86400)
    return counted(seconds, "second") if rest else counted(days, "day")


def counted(number: int, noun: str) -> str:
    """A number with its noun, such as ``3 recipes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _places(value: float, *, up: bool) -> str:
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return f"{Decimal(repr(value)).quantize(Decimal('0.0001'), rounding=rounding):f}"
