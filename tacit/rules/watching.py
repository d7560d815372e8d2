"""Rules on recipes whose devices watch an event over steps: the models of local pan-privacy (P23, P24)."""

from __future__ import annotations

import re

from tacit.codec import unb64url
from tacit.errors import DecodeError
from tacit.extension_points import PAN_PRIVACY
from tacit.methods.base.statistics import STATISTICS
from tacit.models.forms import FORMS, form_of
from tacit.recipe.context import Context
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.member_types import EVENT_PATTERN
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.watch_work import seconds_for, update_work, work_per_second
from tacit.rules.budget import period_text
from tacit.rules.detail import Detail, at_least, at_most, exactly
from tacit.time_format import format_second

MAX_DECRYPTED = 1 << 20
"""Largest number that a server searches for in the exponent: with baby steps and giant steps, some milliseconds for a
report that holds none."""


def watch_question(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The encoder is ``occurrences`` exactly where the model's devices watch an event (pan-private,
    pan-private-single); ``metric`` is then the name of an event, the statistic one that the model supports (count,
    histogram; mean with one server only), and ``most`` of a count is 1."""
    question, watched = recipe.question, form_of(recipe.model).watched
    spec, statistic = question.encoder, question.statistic
    if not watched:
        models = " or ".join(name for name, form in FORMS.items() if form.watched)
        asks = f"devices of model {recipe.model} watch no events"
        return f"{asks}; model {models} asks how often one occurred" if isinstance(spec, Occurrences) else None
    if not isinstance(spec, Occurrences):
        return f"model {recipe.model} asks how often an event happened: an encoder occurrences, not {spec.kind}"
    if statistic not in watched:
        return f"model {recipe.model} does not support {statistic}; choose {' or '.join(watched)}"
    if not re.fullmatch(EVENT_PATTERN, question.metric):
        return (
            "metric is not an event's name; use 1 to 64 of a-z, 0-9, '.', '_' and '-', not beginning with one of these"
        )
    if STATISTICS[statistic].is_scalar and not STATISTICS[statistic].is_ratio and spec.most != 1:
        return f"a count asks whether the event happened at all: most must be 1, not {spec.most}"
    return None


def watch_randomizer(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Devices that watch an event randomise what they cannot read: the randomizer is rr for a count, rappor with
    ``max_weight`` k + 1 (every answer is sent) for a histogram and flips for a mean, and a result has at most the
    policy's ``max_length`` numbers."""
    spec, watched = recipe.randomizer, form_of(recipe.model).watched
    wanted = watched.get(recipe.question.statistic)
    if wanted is None:
        return None
    if spec.name != wanted:
        return f"a {recipe.question.statistic} of model {recipe.model} needs the randomizer {wanted}, not {spec.name}"
    if spec.name == "rappor" and spec.max_weight != spec.categories:
        bound = f"max_weight {spec.max_weight} would reject answers, which devices cannot read"
        words = f"{bound}; {spec.categories}, the number of categories, passes"
        return Detail(words, exactly(randomizer__max_weight=spec.categories))
    if spec.categories > policy.max_length:
        words = f"{spec.categories} numbers are over the limit of {policy.max_length}; a smaller most passes"
        return Detail(words, at_most("randomizer.categories", policy.max_length))
    return None


def watch_form(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Where devices watch an event there are neither importance sampling nor dummies nor ``aggregator_noise``, and the
    recipe is not a round of a series: an encrypted answer cannot influence decisions, and is sent once."""
    if not form_of(recipe.model).watched:
        return None
    found = {
        "sampling.importance": recipe.sampling.importance,
        "sampling.dummies": recipe.sampling.dummies,
        "aggregator_noise": recipe.aggregator_noise,
        "series": recipe.series,
    }
    stated = [name for name, value in found.items() if value is not None]
    return f"model {recipe.model} has no {', '.join(stated)}; leave it out" if stated else None


def watch_period(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The last of the steps in which an event is watched ends at or before ``interval.start`` (P9), and the first one
    begins at most the policy's ``max_watch_seconds`` before it."""
    spec, start = recipe.question.encoder, recipe.interval.start
    if not isinstance(spec, Occurrences):
        return None
    if spec.end > start:
        over = (
            f"the last of {spec.steps} steps ends at {format_second(spec.end)}, reports begin at {format_second(start)}"
        )
        words = f"{over}; start the interval at {format_second(spec.end)} or later, or use fewer or shorter steps"
        return Detail(words, at_least("interval.start", spec.end))
    if start - spec.start <= policy.max_watch_seconds:
        return None
    kept = f"devices would keep their state for {start - spec.start} seconds"
    words = f"{kept}; at most {period_text(policy.max_watch_seconds)} ({policy.max_watch_seconds} seconds) are allowed"
    return Detail(words, at_most("interval.start", spec.start + policy.max_watch_seconds))


def watch_work(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Keeping the state costs a device at most the policy's ``max_watch_work`` multiplications of group elements per
    second of a step: an update has 2 for every ciphertext of the state, and a step has one update in each second, one
    at its end, and one for each of the ``most`` events that may come in it."""
    rate, limit = work_per_second(recipe), policy.max_watch_work
    if rate <= limit:
        return None
    cost = f"watching takes {rate} multiplications per second ({update_work(recipe)} per update), at most {limit}"
    enough = seconds_for(recipe, limit)
    longer = "" if enough is None else f"steps of {enough} seconds, or "
    return f"{cost} pass; {longer}a smaller most would"


def decryption_bounded(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """With one server the largest number that a device may send, ``scale`` * ``maximum`` + ``flips``, is at most
    1,048,576, because the server has to find it in the exponent."""
    spec, form = recipe.randomizer, form_of(recipe.model)
    if form.proves or spec.name != "flips" or not form.watched:
        return None
    largest = (spec.scale or 0) * (spec.maximum or 0) + (spec.flips or 0)
    if largest <= MAX_DECRYPTED:
        return None
    return f"a report may hold {largest}, but at most {MAX_DECRYPTED} can be decrypted; use a smaller scale or most"


def state_keys(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Every ``state_key`` is the canonical form of an element of ristretto255 other than the identity, and no two
    servers have the same one."""
    seen: dict[bytes, str] = {}
    for role, text in recipe.parties.having("state_key").items():
        key = unb64url(text)
        try:
            PAN_PRIVACY["check-public-key"](key)
        except DecodeError as error:
            return f"{role}: {error}; use the public key of a generated state key"
        if key in seen:
            return f"{role} and {seen[key]} have the same state_key; each needs its own"
        seen[key] = role
    return None
