"""Rules on who sends: sampling rate, importance sampling, dummies (P17b, P19, P20)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from decimal import Decimal

from tacit.dp.hidden_claim import (
    Sample,
    count_cost,
    dummies_cost,
    largest_intensity,
    sufficient_intensity,
    unfilled_cost,
)
from tacit.dp.hidden_count import MAX_COUNT_EPSILON
from tacit.dp.reports import Reports
from tacit.dp.solve import largest_where
from tacit.errors import Refusal
from tacit.methods.base.statistics import STATISTICS
from tacit.models.forms import form_of
from tacit.recipe.claims import sample_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of, shape_of
from tacit.recipe.encoder_specs import Number, Range
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.quantity import in_words
from tacit.recipe.randomised import Importance
from tacit.rules.detail import Bound, Detail, at_least, at_most
from tacit.time_format import format_second

B, RATE = "batch.min_batch_size", "sampling.rate"
DEFAULT_RATE, INTENSITY = "sampling.importance.default_rate", "sampling.dummies.intensity"
MOST_DUMMY_PROBABILITY = 0.5
LEAST_COUNTED_SECONDS = 1_800
"""Shortest interval in which the claim may count on a number of devices: it leaves over 7 minutes to decide, and
devices poll every minute."""
_SUGGESTED_EPSILON = 1.0
_MOST_ATTESTED = 1 << 15
"""Largest number of devices up to which a refusal searches for what would pass."""
_CLAIMED = ("sampling", "importance", "dummies")


def sampling_rate(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``sampling.rate``, q, is above 0 and at most 1."""
    if 0 < recipe.rate <= 1:
        return None
    words = f"q = {recipe.sampling.rate} is not a sampling rate; it must be above 0 and at most 1"
    return Detail(words, {RATE: Bound(above=0, at_most=1)})


def sampling_cap(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """q is at most the policy's ``max_sampling_rate``."""
    if recipe.rate <= Decimal(policy.max_sampling_rate):
        return None
    words = f"q = {recipe.sampling.rate} is over the cap of {policy.max_sampling_rate}"
    return Detail(words, at_most(RATE, policy.max_sampling_rate))


def sampling_one(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """q = 1 only where no amplification by sampling is claimed (P19): the mechanism names none, and claim (a) is not
    below claim (b)."""
    form, claimed = form_of(recipe.model), recipe.privacy.epsilon
    amplified = Decimal(claimed[form.charged]) < Decimal(claimed[form.charged_with_relay])
    named = any(word in recipe.privacy.mechanism for word in _CLAIMED)
    if recipe.rate < 1 or not (named or amplified):
        return None
    return (
        f"q = 1 gives no amplification by sampling, but the claim has it ({recipe.privacy.mechanism}, epsilon "
        f"{claimed[form.charged]} against an aggregator); claim {claimed[form.charged_with_relay]} there as with the "
        f"relay, or lower q below 1"
    )


def importance_supported(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Importance sampling names an answer that is sampled less, has rates that hide something, and a statistic with an
    unbiased estimate."""
    importance, statistic = recipe.sampling.importance, recipe.question.statistic
    if importance is None:
        return None
    if not STATISTICS[statistic].bears_importance:
        bearing = ", ".join(one.name for one in STATISTICS.values() if one.bears_importance)
        return f"importance sampling is not possible for a {statistic}, only for {bearing}"
    if not 0 < Decimal(importance.default_rate) <= recipe.rate or recipe.rate >= 1:
        return (
            f"the default answer's rate {importance.default_rate} must be above 0 and at most q = "
            f"{recipe.sampling.rate}, and q below 1: where q is 1, a silent device reveals its answer"
        )
    return _default_problem(recipe, importance)


def _default_problem(recipe: Recipe, importance: Importance) -> str | None:
    encoder = recipe.question.encoder
    if isinstance(encoder, Number):
        value = encoder.least + importance.default * encoder.step
        if value != 0:
            return f"the default of a sum must stand for 0, not for {in_words(value)}; only then does it add nothing"
    shape = shape_of(recipe.question)
    answers = shape.maximum if isinstance(encoder, Range) else max(1, shape.cells - 1)
    if importance.default <= answers:
        return None
    return f"{importance.default} is not an answer of the encoder; the largest is {answers}"


def _sample(recipe: Recipe, policy: Policy) -> Sample | None:
    """The sample; None where other rules refuse the members from which it is made."""
    if recipe.batch.min_batch_size > policy.max_batch_size:
        return None
    try:
        return sample_of(recipe)
    except ValueError:
        return None


def importance_count(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Where taking part depends on the answer, something hides one message: coins of the other devices, or dummies;
    also in a batch that does not fill, with the fewest devices that are not ruled out."""
    sample = _sample(recipe, policy)
    if recipe.sampling.importance is None or sample is None:
        return None
    delta = float(recipe.delta)
    try:
        reports = randomizer_of(recipe)
        if math.isfinite(count_cost(reports, sample, n=sample.batch, delta=delta)):
            return _unfilled_problem(reports, sample, policy, delta)
        size = sample.batch
        while size <= policy.max_batch_size:
            size *= 2
            larger = dataclasses.replace(sample, batch=size)
            if math.isfinite(count_cost(reports, larger, n=size, delta=delta)):
                return f"a batch of B = {sample.batch} tells whether one device took part; B = {size} would hide it"
    except (Refusal, ValueError) as error:
        return str(error)
    return f"the number of messages tells whether one device took part, at q = {recipe.sampling.rate} whatever B is"


def _unfilled_problem(reports: Reports, sample: Sample, policy: Policy, delta: float) -> str | None:
    cap = float(policy.max_epsilon_aggregator)

    def told(one: Sample) -> float:
        return unfilled_cost(reports, one, n=one.batch, delta=delta)

    found = told(sample)
    if found <= cap or sample.default_rate is None:
        return None
    largest = min(_MOST_ATTESTED, policy.max_population)
    devices = _least_where(
        lambda count: told(dataclasses.replace(sample, attested=count)) <= cap, sample.attested, largest
    )
    low, high = sample.default_rate, sample.rate

    def nearer(less: float) -> bool:
        return told(dataclasses.replace(sample, default_rate=high - less)) <= cap

    rate = largest_where(nearer, 0, high - low, 1e-4) if sample.attested <= _MOST_ATTESTED else None
    fitting = [] if devices is None else [f"{devices} devices that a census attests"]
    fitting += [] if rate is None else [f"a default rate of {_nearest_above(high - rate)}"]
    ways = [] if devices is None else [at_least("sampling.importance.devices", devices)]
    ways += [] if rate is None else [at_least(DEFAULT_RATE, _nearest_above(high - rate))]
    return Detail(
        f"a batch that does not fill tells epsilon {found:.4f} by the number of its messages, where {sample.attested} "
        f"{'device is' if sample.attested == 1 else 'devices are'} counted on, over the cap of {cap:g}; "
        f"{' or '.join(fitting)} would pass",
        *ways,
    )


def _nearest_above(rate: float) -> str:
    """A rate with few decimals, rounded up."""
    return f"{math.ceil(1e4 * rate) / 1e4:g}"


def _least_where(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The least number above ``low``, at most 2 % too large, at which a monotone condition holds; None where it does
    not hold at ``high``."""
    upper = low
    while not holds(upper):
        if upper >= high:
            return None
        low, upper = upper, min(high, 2 * upper)
    while upper - low > max(1, low // 50):
        middle = (low + upper) // 2
        low, upper = (low, middle) if holds(middle) else (middle, upper)
    return upper


def importance_devices(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Where importance sampling counts on a number of devices, that many devices can be expected to fill a batch."""
    sample = _sample(recipe, policy)
    importance = recipe.sampling.importance
    if importance is None or importance.devices is None or sample is None:
        return None
    try:
        most = math.floor(importance.devices * sample.sending_rates(randomizer_of(recipe)).sends)
    except (Refusal, ValueError) as error:
        return str(error)
    if sample.batch <= most:
        return None
    words = f"{importance.devices} devices send at most {most} messages, which is below B = {sample.batch}"
    return Detail(f"{words}; lower B to that", at_most(B, most))


def importance_in_time(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Importance sampling that counts on a number of devices (`importance.devices`) has an interval of at least half an
    hour, in the first quarter of which they decide; log, leader and helper accept the recipe before it begins."""
    importance, interval = recipe.sampling.importance, recipe.interval
    if importance is None or importance.devices is None:
        return None
    if interval.duration < LEAST_COUNTED_SECONDS:
        return Detail(
            f"{importance.devices} devices cannot be counted on to decide in the first quarter of {interval.duration} "
            f"seconds; an interval of {LEAST_COUNTED_SECONDS} would pass",
            at_least("interval.duration", LEAST_COUNTED_SECONDS),
        )
    if context.stage not in {Stage.PUBLISH, Stage.LOGGED} or context.now <= interval.start:
        return None
    return Detail(
        f"{importance.devices} devices cannot be counted on to decide in time about a recipe that begins before it is "
        f"taken up; a start after {format_second(math.ceil(context.now))} would pass",
        {"interval.start": Bound(above=math.ceil(context.now))},
    )


def dummies_valid(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The number of dummies is above 0, devices are left to send them, a batch is not mostly dummies, and they hide a
    device even from an observer who knows which others took part (P20)."""
    dummies = recipe.sampling.dummies
    if dummies is None:
        return None
    intensity, size = Decimal(dummies.intensity), recipe.batch.min_batch_size
    if intensity <= 0:
        return "an intensity of 0 means no dummies; leave them out, or raise it"
    if dummies.population < size:
        words = f"the population {dummies.population} is below B = {size}; that batch never fills"
        return Detail(words, at_least("sampling.dummies.population", size), at_most(B, dummies.population))
    most = Decimal(MOST_DUMMY_PROBABILITY) * dummies.population
    if intensity > most:
        return f"{intensity} dummies of {dummies.population} devices are too many; at most {most} are accepted"
    if recipe.rate >= 1:
        return "q = 1 leaves no device to send a dummy; lower q"
    sample = _sample(recipe, policy)
    return None if sample is None else _dummies_worth(recipe, sample)


def _dummies_worth(recipe: Recipe, sample: Sample) -> str | None:
    delta, stated = float(recipe.delta), sample.intensity
    try:
        most = largest_intensity(sample.batch, delta)
        if stated > most:
            return (
                f"more than half of a batch of B = {sample.batch} may be dummies; at most {most:.1f} expected ones "
                f"pass, or a larger B"
            )
        if dummies_cost(randomizer_of(recipe), sample, n=sample.batch, delta=delta) <= MAX_COUNT_EPSILON:
            return None
        enough = sufficient_intensity(sample, _SUGGESTED_EPSILON, delta)
    except (Refusal, ValueError) as error:
        return str(error)
    passing = "no number of them would" if enough is None else f"{enough:.1f} would, to epsilon {_SUGGESTED_EPSILON:g}"
    words = f"{stated:g} expected dummies do not hide whether a device sent, at delta {recipe.privacy.delta}; {passing}"
    return words if enough is None else Detail(words, at_least(INTENSITY, f"{math.ceil(10 * enough) / 10:g}"))


def population_cap(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``importance.devices`` is at most the policy's ``max_population``, whatever a census says."""
    importance = recipe.sampling.importance
    if importance is None or importance.devices is None or importance.devices <= policy.max_population:
        return None
    words = f"the claim counts on {importance.devices} devices, over the cap of {policy.max_population}"
    return Detail(words, at_most("sampling.importance.devices", policy.max_population))
