"""From what a person says on the command line, or is asked for, to a recipe."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, cast

import typer

from tacit.errors import DecodeError, UsageError
from tacit.methods.flips import Flips
from tacit.methods.registry import METHODS
from tacit.models.forms.parties import Parties
from tacit.recipe.builder import propose
from tacit.recipe.encoder import encoder_of
from tacit.recipe.live import LiveLog
from tacit.recipe.model import Audience, Buckets, Categories, Question, Recipe, TokenSlot, Vector
from tacit.recipe.quantity import spoken
from tacit.tlog.canonical import validated
from tacit.tlog.leaves import IssuerDirectory

PRECISION_SECONDS = 60
SETTLE_SECONDS, SETTLE_SHARE = 20.0, 0.25
"""How long before its beginning a recipe is written at least: so many seconds, or this share of an epoch."""
NUMERIC = ("sum", "mean", "vector-sum")
NUMBER_FLAGS = ("low", "high", "unit", "length", "norm")
MECHANISMS = ("local", Flips.NAME)
RANDOMIZERS = f"One of {', '.join(METHODS)} (default: the first that fits the question)."
AUTO = "auto"
DUMMY_EPSILON = "1"
NAME = "[a-z0-9][a-z0-9-]{0,62}"


@dataclass(frozen=True)
class Form:
    """The flags of ``tacit recipe new`` and ``tacit recipe census``; ``None`` where nothing was said."""

    name: str | None = None
    text: str | None = None
    metric: str | None = None
    buckets: str | None = None
    categories: str | None = None
    boolean: bool = False
    population: int | None = None
    rate: str = "0.5"
    epsilon: str = "1"
    delta: str = "0.000001"
    min_batch_size: int | None = None
    randomizer: str | None = None
    start: int | None = None
    duration: int | None = None
    epoch: int | None = None
    slot: int | None = None
    close: str = "interval_end"
    statistic: str | None = None
    mechanism: str | None = None
    low: str | None = None
    high: str | None = None
    unit: str | None = None
    length: int | None = None
    norm: str | None = None
    aggregator_flips: int = 0
    importance_default: str | None = None
    importance_rate: str | None = None
    non_default_share: str | None = None
    dummies: str | None = None
    dummy_epsilon: str | None = None
    target: tuple[str, ...] = ()
    """Criteria, each ``NAME=VALUE``."""
    attributes: tuple[str, ...] = ()
    """What a census asks for, each ``NAME=VALUE,VALUE,...``."""
    other_label: str | None = None
    missing_label: str | None = None
    """Categories for values outside, and for devices without one."""
    attested_devices: int | None = None

    @property
    def numeric(self) -> bool:
        """Whether the question asks for numbers, in a range."""
        return self.statistic in NUMERIC


@dataclass(frozen=True)
class Place:
    """When a recipe asks, and which tokens it spends. ``precision`` in seconds."""

    start: int
    duration: int
    epoch: int
    slot: int
    precision: int


def completed(form: Form) -> Form:
    """``form`` with what is missing asked for, where a person is there to answer; otherwise a usage error."""
    asked = bool(form.attributes)
    encoders = [form.buckets is not None, form.categories is not None, form.boolean, form.numeric, asked]
    if sum(encoders) > 1:
        raise typer.BadParameter("give one of --buckets, --categories, --boolean, and a sum, mean or vector-sum")
    if (form.other_label or form.missing_label) and (form.boolean or form.numeric):
        raise typer.BadParameter("--other-label and --missing-label go with --buckets or --categories")
    _check_numbers(form)
    _check_sampling(form)
    missing = [f"--{name}" for name in ("name", "metric", "population") if getattr(form, name) is None]
    missing += [] if any(encoders) else ["--buckets, --categories or --boolean"]
    if missing and not sys.stdin.isatty():
        raise typer.BadParameter(f"missing {', '.join(missing)}")
    if form.metric is None:
        form = replace(form, metric=_ask("Which metric of the device's data is asked for (for example mdvis)?"))
    if form.text is None and missing:
        form = replace(form, text=_ask("The question, as a person reads it?"))
    if form.name is None:
        form = replace(form, name=_ask("A short name for the recipe (a-z, 0-9 and -)?"))
    if not any(encoders):
        form = _asked_encoder(form)
    if form.population is None:
        form = replace(
            form, population=typer.prompt("How many devices will be asked?", type=int, err=True, prompt_suffix=" ")
        )
    _check(form)
    return form


def _check_numbers(form: Form) -> None:
    """The flags that belong to one statistic alone. Raises ``BadParameter``."""
    if form.statistic not in {None, "histogram", "count", *NUMERIC}:
        raise typer.BadParameter("--statistic is histogram, count, sum, mean or vector-sum")
    if form.mechanism not in {None, *MECHANISMS}:
        raise typer.BadParameter(f"--mechanism is {' or '.join(MECHANISMS)}")
    if form.mechanism is not None and form.randomizer is not None:
        raise typer.BadParameter("give either --mechanism or --randomizer")
    if form.mechanism == "local" and form.numeric:
        raise typer.BadParameter(f"a {form.statistic} has --mechanism flips")
    needed = {"sum": ("low", "high"), "mean": ("low", "high"), "vector-sum": ("low", "high", "length", "norm")}
    wanted = needed.get(form.statistic or "", ())
    missing = [f"--{name}" for name in wanted if getattr(form, name) is None]
    if missing:
        raise typer.BadParameter(f"a {form.statistic} needs {', '.join(missing)}")
    allowed = {*wanted, "unit"} if form.numeric else {*wanted}
    odd = [f"--{name}" for name in NUMBER_FLAGS if getattr(form, name) is not None and name not in allowed]
    if odd:
        raise typer.BadParameter(f"{', '.join(odd)}: not for a {form.statistic or 'histogram or count'}")
    if form.aggregator_flips and Flips.NAME not in {form.mechanism, form.randomizer} and not form.numeric:
        raise typer.BadParameter("--aggregator-flips needs --mechanism flips")
    if form.aggregator_flips % 2:
        raise typer.BadParameter("--aggregator-flips is an even number")
    if form.statistic == "count" and (form.buckets is not None or form.categories is not None):
        raise typer.BadParameter("a count asks a --boolean question")
    if form.statistic == "histogram" and form.boolean:
        raise typer.BadParameter("a histogram needs --buckets or --categories")


def _check_sampling(form: Form) -> None:
    """The flags of importance sampling and dummies. Raises ``BadParameter``."""
    flags = {
        "--importance-default": form.importance_default,
        "--importance-rate": form.importance_rate,
        "--non-default-share": form.non_default_share,
    }
    missing = [flag for flag, said in flags.items() if said is None]
    if missing and len(missing) < len(flags):
        raise typer.BadParameter(f"importance sampling needs {', '.join(missing)} too")
    if form.dummy_epsilon is not None and form.dummies != AUTO:
        raise typer.BadParameter(f"--dummy-epsilon belongs to --dummies {AUTO}")
    if form.attested_devices is not None and form.importance_default is None:
        raise typer.BadParameter("--attested-devices belongs to --importance-default")
    for flag, said in (("--importance-rate", form.importance_rate), ("--non-default-share", form.non_default_share)):
        if said is not None and _decimal(said, flag) > 1:
            raise typer.BadParameter(f"{flag} is above 0 and at most 1")
    if form.dummies not in {None, AUTO}:
        _decimal(form.dummies or "", "--dummies")
    if form.dummy_epsilon is not None:
        _decimal(form.dummy_epsilon, "--dummy-epsilon")


def _check(form: Form) -> None:
    """Everything that can be said of the flags before anybody is asked. Raises ``BadParameter``."""
    if not re.fullmatch(NAME, form.name or ""):
        raise typer.BadParameter("--name: a-z, 0-9 and -, at most 63, such as doctor-visits")
    if form.close not in {"interval_end", "at_B"}:
        raise typer.BadParameter("--close is interval_end or at_B")
    if _decimal(form.rate, "--rate") > 1:
        raise typer.BadParameter("--rate is above 0 and at most 1")
    if _decimal(form.delta, "--delta") >= 1:
        raise typer.BadParameter("--delta is above 0 and below 1")
    _decimal(form.epsilon, "--epsilon")
    _criteria(form.target)
    try:
        _question(form)
    except DecodeError as error:
        raise typer.BadParameter(str(error)) from error


def _ask(question: str) -> str:
    return str(typer.prompt(question, err=True, prompt_suffix=" ")).strip()


def _asked_encoder(form: Form) -> Form:
    said = _ask("Possible answers: bucket edges (0,1,2,4), categories (red,green,blue) or yes/no?")
    if said.lower() in {"yes/no", "yes,no", "boolean"}:
        return replace(form, boolean=True)
    try:
        edges_of(said)
    except typer.BadParameter:
        return replace(form, categories=said)
    return replace(form, buckets=said)


def place_by_hand(form: Form) -> Place:
    """Interval and slot from the flags alone."""
    if form.start is None or form.duration is None or form.epoch is None or form.slot is None:
        raise typer.BadParameter("with --parties also give --start, --duration, --epoch and --slot")
    return Place(
        form.start, form.duration, form.epoch, form.slot, math.gcd(PRECISION_SECONDS, form.start, form.duration)
    )


def place_in_stack(form: Form, live: LiveLog, issuer: str, epoch_seconds: int, now: float) -> Place:
    """The next epoch (whose tokens devices fetch now; the one after, where the next is about to begin) and its first
    free slot, where the flags say nothing else.

    Raises ``UsageError`` where the log has no directory of the epoch, or every slot is taken.
    """
    epoch = form.epoch
    if epoch is None:
        epoch = _next_epoch(live, issuer, epoch_seconds, now) if form.start is None else form.start // epoch_seconds
    start = epoch * epoch_seconds if form.start is None else form.start
    duration = (epoch + 1) * epoch_seconds - start if form.duration is None else form.duration
    directory = live.directory(issuer, epoch)
    if directory is None:
        raise UsageError(f"the log shows no token keys for epoch {epoch}; wait a moment, or choose another --epoch")
    slot = _free_slot(directory, live) if form.slot is None else form.slot
    return Place(start, duration, epoch, slot, math.gcd(PRECISION_SECONDS, start, duration))


def _next_epoch(live: LiveLog, issuer: str, epoch_seconds: int, now: float) -> int:
    """The next epoch; where it begins so soon that devices could hardly read the recipe and fetch a token in time, the
    one after it, if the log has its directory."""
    following = int(now // epoch_seconds) + 1
    soon = following * epoch_seconds - now < min(SETTLE_SECONDS, SETTLE_SHARE * epoch_seconds)
    return following + 1 if soon and live.directory(issuer, following + 1) is not None else following


def _free_slot(directory: IssuerDirectory, live: LiveLog) -> int:
    taken = {
        item.recipe.token.slot
        for item in live.recipes
        if (item.recipe.token.issuer, item.recipe.token.epoch) == (directory.issuer, directory.epoch)
    }
    free = [key.slot for key in directory.keys if key.slot not in taken]
    if not free:
        raise UsageError(f"all {len(directory.keys)} slots of epoch {directory.epoch} are taken; wait for the next one")
    return free[0]


def recipe_of(form: Form, parties: Parties, place: Place) -> Recipe:
    """The recipe with the largest local epsilon that fits. Raises ``UsageError``."""
    try:
        question = _question(form)
        return propose(
            name=form.name or "",
            question=question,
            population=form.population or 0,
            parties=parties,
            token=TokenSlot(issuer=parties.issuer.name, epoch=place.epoch, slot=place.slot),
            start=place.start,
            duration=place.duration,
            rate=_decimal(form.rate, "--rate"),
            **_sampling(form, question),
            min_batch_size=form.min_batch_size,
            epsilon=_decimal(form.epsilon, "--epsilon"),
            delta=_decimal(form.delta, "--delta"),
            randomizer=Flips.NAME if form.mechanism == Flips.NAME else form.randomizer,
            aggregator_flips=form.aggregator_flips,
            close=cast(Literal["interval_end", "at_B"], form.close),
            time_precision=place.precision,
            criteria=_criteria(form.target),
        )
    except DecodeError as error:
        raise UsageError(str(error)) from error


def _sampling(form: Form, question: Question) -> dict[str, Any]:
    """What ``propose`` is told of importance sampling and dummies."""
    said: dict[str, Any] = {}
    if form.importance_default is not None:
        said["default"] = default_answer(question, form.importance_default)
        said["default_rate"] = _decimal(form.importance_rate or "", "--importance-rate")
        said["non_default_share"] = _decimal(form.non_default_share or "", "--non-default-share")
        said["attested_devices"] = form.attested_devices
    if form.dummies == AUTO:
        said["dummy_epsilon"] = _decimal(form.dummy_epsilon or DUMMY_EPSILON, "--dummy-epsilon")
    elif form.dummies is not None:
        said["dummies"] = _decimal(form.dummies, "--dummies")
    return said


def default_answer(question: Question, text: str) -> int:
    """The encoded answer that a person means: a category or bucket by its label, yes or no, or a number. Raises
    ``UsageError``."""
    encoder = encoder_of(question)
    if isinstance(question.encoder, Categories | Buckets):
        if text in encoder.labels:
            return encoder.labels.index(text)
        raise UsageError(f"--importance-default: {text!r} is no answer; one of {', '.join(encoder.labels)} is")
    if isinstance(question.encoder, Vector):
        raise UsageError("--importance-default: a vector has no default answer")
    answer = encoder.encode(text)
    if not isinstance(answer, int):
        raise UsageError(f"--importance-default: {text!r} is no answer to a {question.statistic}")
    return answer


def _question(form: Form) -> Question:
    body: dict[str, Any] = {
        "text": form.text or f"What is {form.metric}?",
        "metric": form.metric,
        "encoder": _encoder(form),
        "statistic": form.statistic if form.numeric else "count" if form.boolean else "histogram",
    }
    return validated(Question, body, "question")


def _encoder(form: Form) -> dict[str, Any]:
    if form.numeric:
        kind = "vector" if form.statistic == "vector-sum" else "number"
        given = {name: getattr(form, name) for name in NUMBER_FLAGS}
        said = {name: value for name, value in given.items() if value is not None}
        return {"kind": kind, **{name: _length_or_quantity(name, value) for name, value in said.items()}}
    if form.boolean:
        return {"kind": "boolean"}
    labels = {"other": form.other_label, "missing": form.missing_label}
    stated = {name: label for name, label in labels.items() if label is not None}
    if form.attributes:
        return {"kind": "attributes", "attributes": _asked_attributes(form.attributes), **stated}
    if form.buckets is not None:
        return {"kind": "buckets", "edges": edges_of(form.buckets), **stated}
    categories = [part.strip() for part in (form.categories or "").split(",")]
    return {"kind": "categories", "categories": categories, **stated}


def _criteria(target: Sequence[str]) -> dict[str, str]:
    """The criteria that ``--target`` names. Raises ``BadParameter``."""
    found: dict[str, str] = {}
    for text in target:
        name, equals, value = text.partition("=")
        if not equals or name in found:
            raise typer.BadParameter("--target is NAME=VALUE, such as locale=de, each name once")
        found[name] = value
    try:
        validated(Audience, {"population": "all", **({"criteria": found} if found else {})}, "--target")
    except DecodeError as error:
        raise typer.BadParameter(str(error)) from error
    return found


def _asked_attributes(attributes: Sequence[str]) -> dict[str, list[str]]:
    """What ``--attribute`` asks for. Raises ``BadParameter``."""
    pairs = [text.partition("=") for text in attributes]
    found = {name: [value.strip() for value in values.split(",")] for name, _, values in pairs}
    if len(found) != len(pairs) or not all(equals for _, equals, _ in pairs):
        raise typer.BadParameter("--attribute is NAME=VALUE,VALUE,..., such as locale=de,en, each name once")
    return found


def _length_or_quantity(name: str, said: int | str) -> int | str:
    return said if isinstance(said, int) else quantity_of(said, f"--{name}")


def quantity_of(text: str, flag: str) -> int | str:
    """A number that a flag takes, as a recipe writes it. Raises ``BadParameter``."""
    try:
        return spoken(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag}: {error}") from error


def edges_of(text: str) -> list[int | str]:
    """The bucket edges that ``--buckets`` takes. Raises ``BadParameter``."""
    try:
        return [spoken(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            f"--buckets takes numbers with commas between, such as 0,1,2,4 or 0,0.25,0.5: {error}"
        ) from error


def _decimal(text: str, flag: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise typer.BadParameter(f"{flag} takes a number, not {text}") from error
    if not number.is_finite() or number <= 0:
        raise typer.BadParameter(f"{flag} takes a number above 0")
    return number
