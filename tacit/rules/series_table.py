"""What makes a series acceptable before any of its rounds exists: the rules of the table on what its rounds have in
common, and rules on the series itself.

Names are those of the table: ``series-donation``, ``round-candidates``, ``series-claim``, ``account-unknown``,
``account-analyst``, ``budget-spent``, and every rule that applies to a draft.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.errors import Refusal
from tacit.ledger.account import Charge, ChargeState
from tacit.recipe.charges import series_charge
from tacit.recipe.context import Context, Stage
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.rules import table as rules
from tacit.rules.budget import charge_left
from tacit.rules.series import donation_form, series_levels, total_problem

OF_A_ROUND = frozenset({"interval-unaligned", "interval-too-long"})
"""Rules on the interval, which each round has for itself without donation."""


def check(series: Series, policy: Policy, now: float, charges: Sequence[Charge] | None = None) -> list[Refusal]:
    """Return every refusal of the series at ``now`` (POSIX seconds); empty: it is accepted. ``charges``: what the log
    charges to the accounts beside it; None: unknown."""
    found = _template(series, policy, now)
    own = {
        "series-donation": donation_form(series),
        "round-candidates": series_levels(series),
        "series-claim": total_problem(series, policy),
    }
    if charges is not None:
        charge = series_charge(series, ChargeState.PENDING)
        own["budget-spent"] = charge_left(charge, policy, charges)
    return found + [Refusal(rule, detail) for rule, detail in own.items() if detail is not None]


def require(series: Series, policy: Policy, now: float, charges: Sequence[Charge] | None) -> None:
    """Raise the first refusal of ``check``, if there is one."""
    refusals = check(series, policy, now, charges)
    if refusals:
        raise refusals[0]


def _template(series: Series, policy: Policy, now: float) -> list[Refusal]:
    """The rules of a draft, applied to the last round where all rounds are known, else to what they have in common."""
    drafts = {rule.name for rule in rules.RULES if rule.stage is Stage.DRAFT} - {"round-candidates"}
    if series.donation is None:
        return rules.check(series.probe, policy, Context(Stage.DRAFT, now), only=drafts - OF_A_ROUND)
    last = series.rounds - 1
    return rules.check(series.round(last, series.window(last)), policy, Context(Stage.DRAFT, now), only=drafts)
