"""Rules on a round and its series (P26), and on the series by itself."""

from __future__ import annotations

from decimal import Decimal

from tacit.dp.claim import TOLERANCE, UNBOUNDED, covers, stated_epsilon
from tacit.errors import DecodeError, Refusal
from tacit.models.forms import form_of
from tacit.recipe.candidates import candidates_of
from tacit.recipe.claims import total_claim
from tacit.recipe.context import Context, Stage
from tacit.recipe.encoder_specs import Prefixes, Update
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.recipe.training import External, read_round_model
from tacit.rules.detail import Detail, at_most, exactly
from tacit.time_format import format_second


def series_missing(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The log holds the series that a round names."""
    if recipe.series is None or context.series is not None:
        return None
    return f"the log does not hold the series {recipe.series.hash}"


def series_ended(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """No leaf that comes before the round in the log has ended the series."""
    ended = context.ended
    if recipe.series is None or ended is None or (context.index is not None and context.index < ended.index):
        return None
    return f"the series was ended by leaf {ended.index} of the log, before this round; make a new series"


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
    """With donation every round lasts exactly the window and begins where the one before it ends, or the series' pause
    later."""
    series = context.series
    if recipe.series is None or series is None or series.donation is None:
        return None
    own, wanted = recipe.interval, series.window(recipe.series.index)
    if own != wanted:
        has, must = (f"from {format_second(one.start)} to {format_second(one.end)}" for one in (own, wanted))
        words = f"round {recipe.series.index} must last {must}, not {has}"
        return Detail(words, exactly(interval__start=wanted.start, interval__duration=wanted.duration))
    return donation_form(series)


def round_candidates(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """A question about prefixes is asked in a series, and from publication on ``question.round_input`` holds the
    candidates of the round: well formed (docs/protocol.md), of the bits that ``levels`` state for this round, and each
    an extension of a candidate of the round before, where this party knows that."""
    question, place = recipe.question, recipe.series
    if not isinstance(question.encoder, Prefixes):
        return None
    is_draft = context.stage is Stage.DRAFT
    if place is None:
        return None if is_draft else "prefixes are asked for in the rounds of a series; make one: tacit series new"
    levels = question.encoder.levels
    if place.index >= len(levels):
        words = f"round {place.index} has no level; the encoder states {len(levels)}"
        return Detail(words, at_most("series.index", len(levels) - 1))
    try:
        found = candidates_of(question)
        before = None if context.round_before is None else candidates_of(context.round_before.question)
    except Refusal as refusal:
        return refusal.detail
    if found is None:
        return None if is_draft else "question.round_input must hold the round's candidates: tacit series next"
    if found.bits != levels[place.index]:
        return f"round {place.index} is about {levels[place.index]} bits, its candidates have {found.bits}"
    if before is not None and not found.extend(before):
        return f"a candidate of round {place.index} extends none of round {place.index - 1}"
    return None


def series_levels(series: Series) -> str | None:
    """A series about prefixes has no more rounds than its encoder has levels."""
    spec = series.probe.question.encoder
    if not isinstance(spec, Prefixes) or series.rounds <= len(spec.levels):
        return None
    return f"the series has {series.rounds} rounds, but its encoder states {len(spec.levels)} levels"


def round_model(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """A model is trained in a series, and from publication on ``question.round_input`` states the round's model: the
    length and hash of its file, and the clip (docs/protocol.md), for the architecture of ``encoder.training``; round 0
    trains the ``initial`` model of an external architecture."""
    spec, text = recipe.question.encoder, recipe.question.round_input
    if not isinstance(spec, Update):
        return None
    is_draft = context.stage is Stage.DRAFT
    if recipe.series is None:
        return None if is_draft else "a model is trained in the rounds of a series"
    if text is None:
        return None if is_draft else "question.round_input must state the round's model"
    try:
        stated = read_round_model(text, spec.training)
    except DecodeError as error:
        return str(error)
    architecture = spec.training.architecture
    if recipe.series.index == 0 and isinstance(architecture, External) and stated.model != architecture.initial:
        return f"round 0 must train {architecture.initial}, the initial model of the series, not {stated.model}"
    return None


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
    at B/2 (P17). A round's own (a) is that of a single slot, and decreases with the number of slots. With independent
    coins the totals (b) and (d), which no sampling lowers, have caps of their own."""
    if series.donation is None:
        return _independent_over_cap(series, policy)
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


def _independent_over_cap(series: Series, policy: Policy) -> str | None:
    for row in form_of(series.probe.model).capped():
        cap, stated = policy.series_cap(row.cap), series.claim.epsilon[row.name]
        if cap is not None and stated != UNBOUNDED and Decimal(stated) > Decimal(cap):
            words = f"the total epsilon of {row.name}, without sampling, is {stated}, over the cap of {cap}"
            return f"{words}; fewer rounds or donation pass"
    return None


def donation_form(series: Series) -> str | None:
    """With donation the series lasts exactly as long as its rounds and the pauses between them."""
    if series.donation is None:
        return None
    whole = series.donation.seconds(series.rounds)
    if series.interval.duration == whole:
        return None
    pauses = f" and {series.donation.pause} seconds between them" if series.donation.pause else ""
    windows = f"{series.rounds} windows of {series.donation.window_seconds} seconds{pauses}"
    return f"{windows} are {whole} seconds, not the series' {series.interval.duration}"
