"""What a device checks of a recipe in addition to the rule table: its own pins, its own tokens, its own ledger.

The names continue those of ``tacit.rules.table``; ``slot-taken`` and ``interval-outside-epoch`` are the same rules,
seen from what this device remembers. A round of a series has one slot, so ``slot-taken`` is also what refuses a second
recipe for it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from decimal import Decimal

from client_agent.config import AgentConfig, Budget
from client_agent.journal import Entry, State
from tacit.codec import unb64url
from tacit.errors import Refusal
from tacit.extras import install_command
from tacit.ledger import budget as ledger
from tacit.ledger.account import Account, Charge, ChargeState, Cost
from tacit.ledger.filter import filter_of
from tacit.recipe.charges import charge_of, series_charge
from tacit.recipe.context import Context
from tacit.recipe.derive import slot_of
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.training import External
from tacit.rules.budget import WITH_RELAY, over_budget
from tacit.rules.design import outside_epoch


def check(
    recipe: Recipe,
    config: AgentConfig,
    policy: Policy,
    context: Context,
    entries: Sequence[Entry],
    *,
    has_learner: bool = False,
) -> list[Refusal]:
    """Every refusal of these rules; ``entries`` is the journal so far, ``has_learner`` as for ``pins``."""
    refusals = (
        *pins(recipe, config, has_learner=has_learner),
        _epoch(recipe, config, context),
        _slot(recipe, entries),
        _budget(recipe, config.budget, policy, context, entries),
    )
    return [refusal for refusal in refusals if refusal is not None]


def pins(recipe: Recipe, config: AgentConfig, *, has_learner: bool = False) -> list[Refusal]:
    """The refusals among them that follow from the configuration alone; ``has_learner``: whether the agent runs within
    an application that trains models of its own (``client_agent.learning.learners``)."""
    refusals = _relay(recipe, config), _learning(recipe, config, has_learner=has_learner)
    return [refusal for refusal in refusals if refusal is not None]


def training_trouble(config: AgentConfig) -> str:
    """Why this device trains no models; empty if it does."""
    if not config.learning:
        return "this device trains no models: its configuration says learning = false"
    if importlib.util.find_spec("numpy") is None:
        return f"this device trains no models without NumPy; install it with: {install_command('learn')}"
    return ""


def charged_costs(entries: Sequence[Entry], since: float, *, with_relay: bool = False) -> tuple[Cost, ...]:
    """The claims (a), or (b) with ``with_relay``, that were charged after ``since`` (POSIX seconds), or for which an
    answer may have been sent after it: a series may last longer than a budget's days."""

    def epsilon(entry: Entry) -> Decimal:
        return Decimal((entry.charged_with_relay if with_relay else "") or entry.charged_epsilon)

    return tuple(
        Cost(epsilon(entry), Decimal(entry.charged_delta or "0"))
        for entry in entries
        if entry.charged_epsilon and max(entry.decided_at, entry.charged_until) > since
    )


def spent_epsilon(entries: Sequence[Entry], budget: Budget, now: float, *, with_relay: bool = False) -> Decimal:
    """What the charged claims (a), or (b), take of the device's budget at ``now``, as an epsilon at its delta; infinite
    if their deltas alone exceed what it has for them."""
    account = (budget.account.with_relay() if with_relay else None) or budget.account
    return ledger.spent_epsilon(charged_costs(entries, now - budget.seconds, with_relay=with_relay), account)


def _relay(recipe: Recipe, config: AgentConfig) -> Refusal | None:
    """Check that this device uses the relay that the claim assumes (P12)."""
    if recipe.parties.relay.url == config.relay_url:
        return None
    theirs, ours = recipe.parties.relay.url, config.relay_url
    detail = f"the recipe assumes the relay {theirs}; it must name the one that this device uses: {ours}"
    return Refusal("relay-mismatch", detail)


def _learning(recipe: Recipe, config: AgentConfig, *, has_learner: bool = False) -> Refusal | None:
    """Check, for a round that trains a model, that this device does: it is configured to, NumPy is installed, and a
    model that only an application knows has one here."""
    spec = recipe.question.encoder
    if not isinstance(spec, Update):
        return None
    trouble = training_trouble(config)
    if not trouble and isinstance(spec.training.architecture, External) and not has_learner:
        trouble = "this device trains no external models: only an application that has a learner does"
    return Refusal("learning-unsupported", trouble) if trouble else None


def _epoch(recipe: Recipe, config: AgentConfig, context: Context) -> Refusal | None:
    """Check, while the epoch's directory is still to come, that the interval lies within that epoch (P9)."""
    seconds, token = config.issuer.epoch_seconds, recipe.token
    start, end = token.epoch * seconds, (token.epoch + 1) * seconds
    if context.directory is not None or start <= recipe.interval.start <= recipe.interval.end <= end:
        return None
    return Refusal("interval-outside-epoch", outside_epoch(recipe, start, end))


def _slot(recipe: Recipe, entries: Sequence[Entry]) -> Refusal | None:
    """Check that the slot belongs to no other recipe, for ever (P8), even if the log's answer leaves the first one
    out."""
    slot = slot_of(recipe)
    owners = (entry for entry in entries if entry.slot == slot and entry.state is not State.REFUSED)
    owner = next((entry for entry in owners if entry.recipe_hash != recipe.hash), None)
    if owner is None:
        return None
    where = f"slot {slot.slot} of epoch {slot.epoch}"
    return Refusal("slot-taken", f"this device met recipe {owner.name} on {where} before; take a free one")


def _budget(
    recipe: Recipe, budget: Budget, policy: Policy, context: Context, entries: Sequence[Entry]
) -> Refusal | None:
    """Check that the claim, with everything charged within the budget's days, passes the budget's filter (P21, P40),
    and with what its analyst has charged that of the analyst's share (P38). A series is charged whole, with the first
    of its rounds, ended or not (``client_agent.series``)."""
    charge = charge_of(recipe, ChargeState.PENDING)
    if recipe.series is not None:
        own = unb64url(recipe.series.hash)
        if context.series is None or any(entry.series_hash == own and entry.charged_epsilon for entry in entries):
            return None
        charge = series_charge(context.series, ChargeState.PENDING)
    since = ledger_time(context) - budget.seconds
    refused = _over(charge, budget.account, entries, since)
    share = policy.budget_share(budget.account, recipe.parties.analyst.operator)
    if refused is None and share is not None and share != budget.account:
        # whoever charged before analysts were recorded may have been this one
        of_analyst = [one for one in entries if one.analyst in {recipe.parties.analyst.operator, ""}]
        refused = _over(charge, share, of_analyst, since)
    return None if refused is None else Refusal("budget-spent", refused)


RULES = {
    "relay-mismatch": _relay,
    "learning-unsupported": _learning,
    "interval-outside-epoch": _epoch,
    "slot-taken": _slot,
    "budget-spent": _budget,
}
"""The device's own rules, by name."""


def ledger_time(context: Context) -> float:
    """The time (POSIX seconds) by which charges leave the ledger: the device's time, but no later than the end of the
    epoch of which the log shows the issuer's signed directory. So a clock that runs ahead frees nothing."""
    return context.now if context.directory is None else min(context.now, float(context.directory.end))


def _over(charge: Charge, account: Account, entries: Sequence[Entry], since: float) -> str | None:
    """Why ``charge`` does not fit into the account beside what ``entries`` have charged to it ``since``, for an
    aggregator by itself or with the relay; None where it fits."""
    refused, beside = _over_limit(charge, account, charged_costs(entries, since)), account.with_relay()
    if refused is not None or beside is None:
        return refused
    refused = _over_limit(charge.with_relay(), beside, charged_costs(entries, since, with_relay=True))
    return None if refused is None else f"{WITH_RELAY}: {refused}"


def _over_limit(charge: Charge, account: Account, before: tuple[Cost, ...]) -> str | None:
    verdict = ledger.verdict_on(charge.cost, before, account)
    if verdict.fits:
        return None
    largest = ledger.largest_beside([filter_of(account).weigh(before)], charge.cost.delta, account)
    return over_budget(charge, verdict, account, largest)
