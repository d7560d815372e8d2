"""What a log charges to the accounts: a pure function of its leaves and of the time (P22)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from tacit.ledger.account import Charge, ChargeState, Cost, charge_state
from tacit.recipe.live import LiveRecipe
from tacit.recipe.model import Recipe


def charge_of(recipe: Recipe, state: ChargeState) -> Charge:
    """A recipe's entry: its stated claim (a)."""
    privacy, interval = recipe.privacy, recipe.interval
    cost = Cost(Decimal(privacy.epsilon.aggregator), Decimal(privacy.delta))
    return Charge(privacy.account, recipe.hash, recipe.name, interval.start, interval.end, cost, state)


def charges_of(recipes: Iterable[LiveRecipe], now: float) -> tuple[Charge, ...]:
    """The entries of logged recipes at ``now`` (POSIX seconds), in the order of the log."""
    return tuple(
        charge_of(live.recipe, charge_state(live.opted_in_roles, live.void_roles, live.recipe.interval.end, now))
        for live in recipes
    )
