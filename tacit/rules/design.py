"""Rules on the design: question, randomizer, VDAF, batch, interval."""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.errors import Refusal
from tacit.methods.base.method import Method
from tacit.methods.base.proof import NORM_PROOF, NormProof
from tacit.methods.base.statistics import STATISTICS
from tacit.methods.registry import METHODS
from tacit.models.forms import find_form, form_of, unsupported
from tacit.ohttp import SIZE_CLASSES
from tacit.recipe.context import Context
from tacit.recipe.derive import members_of, mode_of_close, norm_proof_of, randomizer_of, shape_of, vdaf_of
from tacit.recipe.encoder_specs import MAX_LABELS, MAX_SUM, Occurrences
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.randomised import VdafSpec
from tacit.rules.detail import Bound, Detail, at_least, at_most, exactly, one_of
from tacit.time_format import format_second

B = "batch.min_batch_size"
EXPECTED = "batch.expected_contributions"
ENVELOPE = 4096
"""Bytes that a size class has for token, envelope, addresses and the other share beside the leader's input share (P12).
"""
MOST_REJECTED = 0.5
"""Largest share of answers that a weight bound may reject."""
_ONE_ELEMENT = ("Prio3Count", "Prio3Sum", "Prio3CountVec")


def model_supported(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``model`` is one that this version knows; for any other recipe no further rule is applied."""
    return None if find_form(recipe.model) is not None else unsupported(recipe.model)


def randomizer_allowed(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``randomizer.name`` is one of the policy's ``randomizers``."""
    name = recipe.randomizer.name
    if name in policy.randomizers:
        return None
    words = f"randomizer {name!r} is not allowed; {', '.join(policy.randomizers)} are"
    return Detail(words, *one_of("randomizer.name", policy.randomizers))


def randomizer_parameters(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The randomizer exists, states each of its own members and no others (``epsilon0``, ``max_weight``, ``scale``,
    ``flips``, ``maximum``, ``reports``, as docs/device.md lists them), and can be made: ``epsilon0`` is from 10^-6 to
    40. ``aggregator_noise`` is allowed only for randomizers without ``epsilon0``."""
    spec, noise = recipe.randomizer, recipe.aggregator_noise
    method = METHODS.get(spec.name)
    if noise is not None and (method is None or method.IS_LOCAL):
        unbounded = ", ".join(one.NAME for one in METHODS.values() if not one.IS_LOCAL)
        return f"{spec.name} has aggregator_noise of {noise.flips} flips; only {unbounded} may have it"
    try:
        randomizer_of(recipe)
    except Refusal as refusal:
        return refusal.detail
    return None


def rejection_capped(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The weight bound rejects at most half of all answers, which are then not sent."""
    try:
        method = randomizer_of(recipe)
        chance = method.reject_probability
        if chance <= MOST_REJECTED:
            return None
        fitting = method.rejecting_at_most(MOST_REJECTED)
    except (Refusal, ValueError):
        return None
    stated, enough = (one.members()["max_weight"] for one in (method, fitting))
    passing = f"at most {MOST_REJECTED} passes; take {enough}"
    words = f"max_weight {stated} rejects an answer with probability {chance:.3f}, {passing}"
    return Detail(words, at_least("randomizer.max_weight", enough))


def randomizer_vdaf(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The VDAF proves exactly the outputs of the randomizer (P18): its name, ``vdaf.length``, ``max_weight`` and
    ``max_measurement`` are those of the randomizer's own proof, as docs/device.md lists them; for model pan-private it
    is Prio3CountVec with the randomizer's cells (P23). Where it is Prio3L2BoundSum, ``vdaf.vector`` follows from the
    randomizer and the encoder's norm."""
    if recipe.vdaf is None:
        return None
    randomizer, vdaf = recipe.randomizer, recipe.vdaf
    try:
        proof = form_of(recipe.model).proof(randomizer_of(recipe))
    except Refusal:
        return None
    stated = (vdaf.name, vdaf.length, vdaf.max_weight, vdaf.max_measurement, vdaf.vector_members)
    vector = None if proof.vector is None else proof.vector.members()
    if stated == (proof.name, proof.length, proof.max_weight, proof.max_measurement, vector):
        return None
    has = f"the recipe has {vdaf.name} of length {vdaf.length}"
    needed: dict[str, int | str | None] = {
        "vdaf.name": proof.name,
        "vdaf.length": proof.length,
        "vdaf.max_weight": proof.max_weight,
        "vdaf.max_measurement": proof.max_measurement,
        **{f"vdaf.vector.{name}": value for name, value in (vector or {}).items()},
    }
    return Detail(
        f"{randomizer.name} over {randomizer.categories} categories needs {proof.words()}; {has}",
        {member: Bound(exactly=value) for member, value in needed.items() if value is not None},
    )


def encoder_randomizer(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The encoder fits the statistic (histogram: buckets, categories, attributes; count: boolean; sum, mean: number;
    vector-sum: vector, update; heavy-hitters: strings; ``occurrences`` has its own rule), the randomizer answers the
    statistic in the recipe's model, ``randomizer.categories`` is the number of the encoder's labels (rr, one-bit,
    succinct-histogram: 2; affine: a power of two), and ``randomizer.maximum``, where there is one, the largest encoded
    value."""
    question, spec = recipe.question, recipe.randomizer
    statistic = STATISTICS[question.statistic]
    if not isinstance(question.encoder, Occurrences) and question.encoder.kind not in statistic.encoders:
        wanted = " or ".join(statistic.encoders)
        return f"a {statistic.name} needs an encoder {wanted}, not {question.encoder.kind}"
    form = form_of(recipe.model)

    def answers(method: type[Method]) -> bool:
        return statistic.name in method.STATISTICS and bool(form.watched or form.answers_by(method))

    method = METHODS.get(spec.name)
    if method is not None and answers(method):
        return method.mismatch(shape_of(question), members_of(spec))
    fitting = [one.NAME for one in METHODS.values() if answers(one)]
    if not fitting:
        return f"model {recipe.model} has no randomizer for {statistic.name}"
    return f"a {statistic.name} needs the randomizer {' or '.join(fitting)}, not {spec.name}"


def norm_proved(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Where the policy asks for it (``require_norm_proof``), the length of what enters a sum of vectors is proved,
    noise included, by Prio3L2BoundSum with ``vector.flips`` 0."""
    if not (policy.require_norm_proof and STATISTICS[recipe.question.statistic].is_vector):
        return None
    proved = norm_proof_of(recipe)
    if proved is NormProof.SUM:
        return None
    if proved is NormProof.VALUES:
        return Detail(
            f"{NORM_PROOF} with vector.flips above 0 proves the length of the values alone, and a device chooses the "
            "noise; vectors are accepted only with a proof of both together, whose vector.flips is 0",
            {"vdaf.vector.flips": Bound(exactly=0)},
        )
    found = "none" if recipe.vdaf is None else recipe.vdaf.name
    return Detail(
        f"vectors are accepted only with a proof of their norm, {NORM_PROOF}, not {found}",
        {"vdaf.name": Bound(exactly=NORM_PROOF)},
    )


def _elements(spec: VdafSpec) -> int:
    """How many elements the circuit checks."""
    if spec.vector is None:
        return spec.length * (spec.max_measurement.bit_length() if spec.max_measurement else 1)
    bits = spec.vector.max_value.bit_length() + spec.vector.flips.bit_length()
    return spec.length * bits + spec.vector.max_square.bit_length()


def vdaf_parameters(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The VDAF can be made. ``vdaf.length`` is at most the policy's ``max_length``, ``chunk_length`` at most the number
    of elements that the circuit checks (1 for Prio3Count, Prio3Sum and Prio3CountVec). A device can send the leader's
    input share, which has at most the policy's ``max_upload`` less 4,096 bytes (by default, and behind a shuffler,
    258,048)."""
    spec = recipe.vdaf
    if spec is None:
        return None
    if spec.length > policy.max_length:
        return f"length {spec.length} is over the limit of {policy.max_length}"
    elements = _elements(spec)
    if spec.chunk_length > elements or (spec.name in _ONE_ELEMENT and spec.chunk_length != 1):
        most = 1 if spec.name in _ONE_ELEMENT else elements
        return (
            f"chunk_length {spec.chunk_length} must be from 1 to {most}, the number of elements that {spec.name} checks"
        )
    try:
        size = vdaf_of(recipe).leader_share_size
    except Refusal as refusal:
        return refusal.detail
    upload = SIZE_CLASSES[-1] if form_of(recipe.model).is_mixed(recipe.parties) else policy.max_upload
    most = upload - ENVELOPE
    if size <= most:
        return None
    fitting = "fewer or smaller entries, or a chunk_length near the root of the elements, make them smaller"
    return f"reports of {spec.name} hold {size} bytes for the leader, but at most {most} can be sent; {fitting}"


def result_size(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Behind a shuffler a device sends at most the policy's ``max_messages`` messages; in every other model a result
    has at most 4,096 entries, a sum of vectors 16,384."""
    categories = recipe.randomizer.categories
    try:
        method = randomizer_of(recipe)
    except Refusal:
        return None  # another rule says why
    if not method.IS_SHUFFLED:
        most = MAX_SUM if STATISTICS[recipe.question.statistic].is_vector else MAX_LABELS
        if categories <= most:
            return None
        return Detail(f"{categories:,} entries are more than {most:,}; model shuffled takes as many")
    if method.messages <= policy.max_messages:
        return None
    words = f"a device would send {method.messages:,} messages, but the limit is {policy.max_messages:,}"
    return Detail(f"{words}; fewer answers, or randomizer flipped and more devices, need fewer")


def batch_floor(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """B, ``batch.min_batch_size``, is at least the policy's ``min_batch_size``."""
    size = recipe.batch.min_batch_size
    if size >= policy.min_batch_size:
        return None
    words = f"B = {size} is below the floor of {policy.min_batch_size}"
    return Detail(words, at_least(B, policy.min_batch_size))


def batch_ceiling(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """B is at most the policy's ``max_batch_size``."""
    size = recipe.batch.min_batch_size
    if size <= policy.max_batch_size:
        return None
    return Detail(f"B = {size} is over the limit of {policy.max_batch_size}", at_most(B, policy.max_batch_size))


def batch_mode(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``close`` ``interval_end`` requires mode ``time_interval``, and ``at_B`` requires ``leader_selected`` (P13); with
    one server, or behind a shuffler, a batch closes at ``interval_end``."""
    closes = form_of(recipe.model).closes_of(recipe.parties)
    if recipe.batch.close not in closes:
        behind = " behind a shuffler" if form_of(recipe.model).is_mixed(recipe.parties) else ""
        words = f"a batch of model {recipe.model}{behind} must close {' or '.join(closes)}, not {recipe.batch.close}"
        return Detail(words, *one_of("batch.close", tuple(closes)))
    wanted = mode_of_close(recipe.batch.close)
    if recipe.batch.mode == wanted:
        return None
    words = f"close {recipe.batch.close} needs mode {wanted}, not {recipe.batch.mode}"
    return Detail(words, exactly(batch__mode=wanted))


def batch_contributions(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``expected_contributions`` is at least B: a recipe whose batch is not expected to fill is refused (P15)."""
    batch = recipe.batch
    if batch.expected_contributions >= batch.min_batch_size:
        return None
    expected, size = batch.expected_contributions, batch.min_batch_size
    words = f"expected_contributions {expected} is below B = {size}; expect at least {size}, or lower B to {expected}"
    return Detail(words, at_least(EXPECTED, size), at_most(B, expected))


def contributions_bounded(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``expected_contributions`` is at most what the policy's ``max_devices`` send on average: each takes
    part at the rate q, and where there are dummies sends one otherwise. Twice as many are released at most (P15), so
    the bound is the party's own and not the analyst's."""
    expected, rate = recipe.batch.expected_contributions, Fraction(recipe.rate)
    if not 0 < rate <= 1:
        return None  # another rule says why
    most = math.ceil((rate + (1 - rate) * Fraction(recipe.sampling.dummy_rate)) * policy.max_devices)
    if expected <= most:
        return None
    words = f"expected_contributions {expected} are more than {policy.max_devices} devices send on average, {most}"
    return Detail(f"{words}; the policy's max_devices is the party's own number", at_most(EXPECTED, most))


def interval_aligned(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Start and duration of ``interval`` are multiples of ``batch.time_precision``."""
    precision = recipe.batch.time_precision
    if recipe.interval.start % precision == 0 and recipe.interval.duration % precision == 0:
        return None
    interval = recipe.interval
    start, duration = (-(-seconds // precision) * precision for seconds in (interval.start, interval.duration))
    return Detail(
        f"start {format_second(interval.start)} and duration {interval.duration} must be multiples of "
        f"{precision} seconds; "
        f"{format_second(start)} and {duration} are the next",
        exactly(interval__start=start, interval__duration=duration),
    )


def interval_over(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The interval has not ended."""
    if context.now < recipe.interval.end:
        return None
    end, now = recipe.interval.end, int(context.now)
    words = (
        f"the interval ended at {format_second(end)}, {now - end} seconds ago; it must end after {format_second(now)}"
    )
    return Detail(words, {"interval.start": Bound(above=now - recipe.interval.duration)})


def interval_long(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``interval.duration`` is at most the policy's ``max_duration``."""
    if recipe.interval.duration <= policy.max_duration:
        return None
    words = f"{recipe.interval.duration} seconds are over the limit of {policy.max_duration}"
    return Detail(words, at_most("interval.duration", policy.max_duration))


def interval_epoch(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``interval`` lies inside the spend window of the token's epoch, [epoch * epoch_seconds, (epoch + 1) *
    epoch_seconds) according to the issuer's directory (P9)."""
    directory = context.directory
    if directory is None or directory.start <= recipe.interval.start <= recipe.interval.end <= directory.end:
        return None
    return outside_epoch(recipe, directory.start, directory.end)


def outside_epoch(recipe: Recipe, start: int, end: int) -> str:
    """The refusal: the interval, its token's epoch, and which start would pass."""
    interval, epoch = recipe.interval, recipe.token.epoch
    latest = end - interval.duration
    fitting = (
        f"a start from {format_second(start)} to {format_second(latest)} passes"
        if latest >= start
        else f"a duration of {interval.duration} needs an issuer with longer epochs, at most {end - start} passes"
    )
    asked = f"{format_second(interval.start)} to {format_second(interval.end)}"
    words = f"{asked} is not inside epoch {epoch}, {format_second(start)} to {format_second(end)}; {fitting}"
    if latest < start:
        return Detail(words, {**exactly(interval__start=start), **at_most("interval.duration", end - start)})
    return Detail(words, {"interval.start": Bound(at_least=start, at_most=latest)})
