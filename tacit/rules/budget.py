"""Rules on the account that a recipe is charged to (P22)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from tacit.counting_words import plural
from tacit.ledger.account import Account, Charge, ChargeState
from tacit.ledger.balance import balance
from tacit.ledger.budget import Verdict, judge, largest_epsilon
from tacit.ledger.filter import claims_delta
from tacit.models.forms import form_of
from tacit.recipe.charges import charge_of, rightful, series_charge
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


def account_chargeable(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The analyst is one of those that may charge ``privacy.account`` by the policy, where it names any."""
    name, analyst = recipe.privacy.account, recipe.parties.analyst.operator
    if policy.may_charge(name, analyst):
        return None
    own = [one for one in sorted(policy.accounts or {}) if policy.may_charge(one, analyst)]
    words = f"{analyst} may not charge account {name}; it may charge {', '.join(own) or 'none'}"
    return Detail(words, *one_of("privacy.account", own))


def budget_left(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """In every period that the recipe's interval touches, its claim (a) and those of the recipes charged beside it pass
    the filter of the account's (epsilon, delta), and those of its analyst that of the analyst's share; the same holds
    for their claims (b), where the account limits these. For a round, the claim and time of the whole series count."""
    if context.charges is None or (recipe.series is not None and context.series is None):
        return None
    charge = charge_of(recipe, ChargeState.PENDING)
    if context.series is not None:
        charge = series_charge(context.series, ChargeState.PENDING, context.ended)
        return charge_left(charge, policy, context.charges)
    form = form_of(recipe.model)
    members = (f"privacy.epsilon.{form.charged}", f"privacy.epsilon.{form.charged_with_relay}")
    return charge_left(charge, policy, context.charges, members)


def charge_left(
    charge: Charge,
    policy: Policy,
    charges: Sequence[Charge],
    members: tuple[str, str] | None = None,
) -> str | None:
    """The refusal where ``charge`` does not fit beside ``charges``; None where it fits, or where the policy does not
    have its account. ``members``: for a recipe, the members that state what is charged, without the relay and with it.
    """
    whole, share = policy.account(charge.account), policy.account_share(charge.account, charge.analyst)
    if whole is None:
        return None
    found = _left_in(charge, whole, charges, members)
    if found is not None or share is None or share == whole:
        return found
    own = [replace(one, account=share.name) for one in charges if one.analyst == charge.analyst]
    return _left_in(replace(charge, account=share.name), share, own, members)


def _left_in(
    charge: Charge, account: Account, charges: Sequence[Charge], members: tuple[str, str] | None
) -> Detail | None:
    member, with_relay = members or (None, None)
    found = _left(charge, account, charges, member)
    beside = account.with_relay()
    if found is not None or beside is None:
        return found
    found = _left(charge.with_relay(), beside, [one.with_relay() for one in charges], with_relay)
    return None if found is None else Detail(f"{WITH_RELAY}: {found}", *found.needed)


def _left(charge: Charge, account: Account, charges: Sequence[Charge], member: str | None) -> Detail | None:
    verdict = judge(charge, charges, account)
    if verdict.fits:
        return None
    largest = largest_epsilon(charge, charges, account)
    words = over_budget(charge, verdict, account, largest)
    if member is None:
        return Detail(words)
    if verdict.total.is_infinite():
        left = _delta_left(verdict, account)
        return Detail(words, *([at_most("privacy.delta", f"{left:f}")] if left else []))
    return Detail(words, *([at_most(member, f"{largest:f}")] if largest else []))


def _delta_left(verdict: Verdict, account: Account) -> Decimal:
    return max(Decimal(0), claims_delta(account) - sum((cost.delta for cost in verdict.others), Decimal(0)))


def find_overspent(policy: Policy, charges: Sequence[Charge], now: float) -> dict[str, list[str]]:
    """The accounts of ``policy`` in which some period holds more than it may, as a whole or of one analyst: by name,
    with what is wrong in words."""
    found: dict[str, list[str]] = {}
    charges = rightful(charges, policy)
    for name in sorted(policy.accounts or {}):
        for account, own in _parts_of(name, policy, charges):
            beside = account.with_relay()
            for limit, with_relay in ((account, False), (beside, True)):
                if limit is None:
                    continue
                state = balance([one.with_relay() for one in own] if with_relay else own, limit, now)
                if state.over:
                    what = "with the relay" if with_relay else "in its fullest period"
                    words = f"account {account.name}: epsilon {state.peak:.4f} {what}, limit {limit.epsilon}"
                    found.setdefault(name, []).append(words)
    return found


def _parts_of(name: str, policy: Policy, charges: Sequence[Charge]) -> Iterator[tuple[Account, Sequence[Charge]]]:
    """The account as a whole, and the share of each analyst that has charged it, with their charges."""
    whole, own = policy.account(name), [one for one in charges if one.account == name]
    if whole is None:
        return
    yield whole, own
    for analyst in sorted({one.analyst for one in own}):
        share = policy.account_share(name, analyst)
        if share is not None and share != whole:
            yield share, [replace(one, account=share.name) for one in own if one.analyst == analyst]


def over_budget(charge: Charge, verdict: Verdict, account: Account, largest: Decimal | None) -> str:
    """The text of a refusal: what is spent, what the recipe adds, and what would pass."""
    spent = f"account {account.name}, {plural(len(verdict.others), 'recipe')} in {period_text(account.window_seconds)}"
    if not charge.cost.epsilon.is_finite():
        return f"{spent}: this recipe's claim is unbounded, which fits into no account"
    deltas = sum((cost.delta for cost in verdict.others), Decimal(0))
    if verdict.total.is_infinite():
        left = _delta_left(verdict, account)
        return (
            f"{spent}: delta {deltas:f} of {claims_delta(account):f} is spent (of the account's {account.delta:f}, a "
            f"part is set aside for composition), this recipe adds {charge.cost.delta:f}; at most delta {left:f} still "
            "fits"
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
    return plural(seconds, "second") if rest else plural(days, "day")


def _places(value: Decimal, *, up: bool) -> str:
    return f"{value.quantize(Decimal('0.0001'), rounding=ROUND_CEILING if up else ROUND_FLOOR):f}"
