"""Rules on a round and its series (P26), and on the series by itself."""

from __future__ import annotations

from decimal import Decimal

from tacit.dp.claim import TOLERANCE, covers, stated_epsilon
from tacit.errors import Refusal
from tacit.models.forms import form_of
from tacit.moments import moment
from tacit.recipe.context import Context
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.recipe.series_claims import total_claim
from tacit.rules.detail import Detail, at_most, exactly


def series_missing(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The log holds the series that a round names."""
    if recipe.series is None or context.series is not None:
        return None
    return f"the log does not hold the series {recipe.series.hash}"


def series_mismatch(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """A round differs from its series' template only in the members of a round, and has the slot and the time that the
    series assigns to it."""
    if recipe.series is None or context.series is None or recipe.series.index >= context.series.rounds:
        return None
    return context.series.mismatch(recipe)


def series_round(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The index belongs to the series, and no other recipe holds it already."""
    if recipe.series is None or context.series is None:
        return None
    index, rounds = recipe.series.index, context.series.rounds
    if index >= rounds:
        words = f"the series has {rounds} rounds, from 0 to {rounds - 1}; there is no round {index}"
        return Detail(words, at_most("series.index", rounds - 1))
    if context.round_owner not in {None, recipe.hash}:
        return f"round {index} of the series is held by another recipe; take a free index"
    return None


def series_donation(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """With donation every round lasts exactly the window and begins where the one before it ends."""
    series = context.series
    if recipe.series is None or series is None or series.donation is None:
        return None
    own, wanted = recipe.interval, series.window(recipe.series.index)
    if own != wanted:
        has, must = (f"from {moment(one.start)} to {moment(one.end)}" for one in (own, wanted))
        words = f"round {recipe.series.index} must last {must}, not {has}"
        return Detail(words, exactly(interval__start=wanted.start, interval__duration=wanted.duration))
    return donation_form(series)


def series_claim(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The series' total claim is not below the composition of its rounds, and within the policy's caps."""
    return None if recipe.series is None or context.series is None else total_problem(context.series, policy)


def total_problem(series: Series, policy: Policy) -> str | None:
    """Why the total claim is not accepted, or None."""
    return claim_understated(series, policy) or claim_over_cap(series, policy)


def claim_understated(series: Series, policy: Policy) -> str | None:
    """No total epsilon is below the recomputed one, and the policy accepts the total delta."""
    delta = Decimal(series.claim.delta)
    if not 0 < delta <= Decimal(policy.max_delta):
        return f"the total delta {series.claim.delta} must be above 0 and at most {policy.max_delta}"
    if series.probe.batch.min_batch_size > policy.max_batch_size:
        return f"the claim is not computed for B over {policy.max_batch_size}"
    try:
        computed = total_claim(series)
    except Refusal as refusal:
        return refusal.detail
    for adversary, true in computed.items():
        claimed = series.claim.epsilon[adversary]
        if not covers(claimed, true):
            return f"{adversary}: a total epsilon of {claimed} is claimed, the rounds give {stated_epsilon(true)}"
    return None


def claim_over_cap(series: Series, policy: Policy) -> str | None:
    """With donation a device answers once, as to a single recipe: the total (a) must keep that recipe's caps, at B and
    at B/2 (P17). A round's own (a) is that of a single slot, and decreases with the number of slots."""
    if series.donation is None:
        return None
    half, charged = series.probe.batch.min_batch_size // 2, form_of(series.probe.model).charged
    try:
        at_half = total_claim(series, half)[charged]
    except Refusal as refusal:
        return f"at B/2 = {half}: {refusal.detail}"
    capped = (
        ("", float(series.claim.epsilon[charged]), policy.max_epsilon_aggregator),
        (f"at B/2 = {half} ", at_half, policy.max_epsilon_half_batch),
    )
    for where, epsilon, cap in capped:
        if epsilon > float(cap) * (1 + TOLERANCE):
            return f"{where}the total epsilon of {charged} is {epsilon:.6f}, over the cap of {cap}; more noise passes"
    return None


def donation_form(series: Series) -> str | None:
    """With donation the series lasts exactly as long as its rounds one after another."""
    if series.donation is None:
        return None
    whole = series.rounds * series.donation.window_seconds
    if series.interval.duration == whole:
        return None
    windows = f"{series.rounds} windows of {series.donation.window_seconds} seconds"
    return f"{windows} are {whole} seconds, not the series' {series.interval.duration}"
