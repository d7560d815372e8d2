"""What a recipe or a series charges to its account (P22); ``tacit.logview.live`` says what a whole log charges.

A series is charged once, with its total claim; its rounds cost nothing more (P26).
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from tacit.ledger.account import Charge, ChargeState, Cost, series_state
from tacit.models.forms import find_form
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.privacy import Epsilons, epsilon_of
from tacit.recipe.series import Ended, Series


def charge_of(recipe: Recipe, state: ChargeState) -> Charge:
    """A recipe's ledger entry: its stated claims (a) and (b)."""
    interval, analyst = recipe.interval, recipe.parties.analyst.operator
    return Charge(
        recipe.privacy.account,
        recipe.hash,
        recipe.name,
        interval.start,
        interval.end,
        cost_of(recipe),
        state,
        with_relay_of(recipe),
        analyst,
    )


def cost_of(recipe: Recipe) -> Cost:
    """The stated claim that is charged: (a), or its counterpart in the recipe's model."""
    return Cost(_charged_epsilon(recipe.model, recipe.privacy.epsilon), Decimal(recipe.privacy.delta))


def with_relay_of(document: Recipe | Series) -> Decimal:
    """The stated claim (b), or its counterpart; for a series the total one; at the delta of claim (a)."""
    if isinstance(document, Recipe):
        return _charged_epsilon(document.model, document.privacy.epsilon, with_relay=True)
    return _charged_epsilon(document.probe.model, document.claim.epsilon, with_relay=True)


def _charged_epsilon(model: str, epsilon: Epsilons, *, with_relay: bool = False) -> Decimal:
    """One of the stated epsilons; for an unknown model the largest one."""
    form = find_form(model)
    if form is None:
        return max(map(epsilon_of, epsilon.root.values()), default=Decimal("Infinity"))
    return epsilon_of(epsilon[form.charged_with_relay if with_relay else form.charged])


def series_charge(series: Series, state: ChargeState, ended: Ended | None = None) -> Charge:
    """The ledger entry of a series: its stated total claims (a) and (b), over its whole time; of one that was ended,
    until the last of its published rounds is over."""
    probe, start = series.probe, series.interval.start
    return Charge(
        probe.privacy.account,
        series.hash,
        series.name,
        start,
        series.interval.end if ended is None else max(start, ended.until),
        series_cost(series),
        state,
        with_relay_of(series),
        probe.parties.analyst.operator,
    )


def series_cost(series: Series) -> Cost:
    """The series' total claim (a), as its account is charged. It stays that of all rounds where the series is ended:
    whoever ends it has seen its releases, and the total of the rounds that there were holds for a number of rounds that
    is fixed beforehand only (P40). By stopping when the loss of the rounds so far exceeds their own total, an account
    could be exceeded manifold."""
    return Cost(_charged_epsilon(series.probe.model, series.claim.epsilon), Decimal(series.claim.delta))


def is_refundable(recipe: Recipe) -> bool:
    """Whether the charged adversary learnt nothing from the recipe if it was not released: its model's server opens no
    single reports, and the number of messages reveals nothing (it does where answers decide who sends). A recipe with
    a shuffler is not refunded: that it kept or passed on nothing is its word alone, for which no leaf is asked."""
    form = find_form(recipe.model)
    if form is None or not form.refunds or form.is_mixed(recipe.parties):
        return False
    return recipe.sampling.importance is None


def rightful(charges: Iterable[Charge], policy: Policy) -> tuple[Charge, ...]:
    """The charges without those of analysts that ``policy`` does not let charge their account, as far as nothing can
    have been released for them yet: whoever follows this policy has no part in it."""
    return tuple(
        one for one in charges if one.state is not ChargeState.PENDING or policy.may_charge(one.account, one.analyst)
    )


def series_charges(
    series: Iterable[tuple[Series, Ended | None]], rounds: dict[bytes, list[ChargeState]], now: float
) -> tuple[Charge, ...]:
    """The ledger entries of these series, each with how it was ended; ``rounds`` maps the hash of a series to the
    states of its rounds."""
    found = []
    for one, ended in series:
        end = one.interval.end if ended is None else ended.until
        found.append(series_charge(one, series_state(rounds[one.hash], end, now), ended))
    return tuple(found)
