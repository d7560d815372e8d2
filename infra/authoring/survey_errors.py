"""Builds a survey from the flags of a command line, and reports its errors in terms of these flags."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import typer

from tacit.errors import FieldError
from tacit.methods.base.statistics import STATISTICS
from tacit.recipe.writing.survey_table import OCCURRENCES, SURVEY_FIELDS, Value

if TYPE_CHECKING:
    from tacit.recipe.writing.survey import Survey


_OPTIONS: Final = {option.name: (row, option) for row in SURVEY_FIELDS for option in row.options}
KINDS: Final = {name: option.encoder for name, (_, option) in _OPTIONS.items() if option.encoder}
"""Flags that define the answers, with the kind of encoder that each implies."""
WATCHING: Final = frozenset(name for name, (row, _) in _OPTIONS.items() if row.kinds == OCCURRENCES)
"""Flags of a watched event; "steps" stands for all of them in ``KINDS``."""
LABELS: Final = frozenset({"other_label", "outside_label", "missing_label"})
ENCODER: Final = "encoder"
_ANSWERS: Final = "--buckets, --categories, --strings or --boolean"
_SEVERAL: Final = f"give only one of {_ANSWERS.replace(' or', ',')}, and a sum, mean or vector-sum"
_GROUPS: Final = {ENCODER: "the question", "importance": "importance sampling"}


@dataclass(frozen=True, slots=True)
class ParsedFlags:
    """``flags``: the given parameters, with their values in the document; ``fields``: the member that each fills;
    ``known``: the parameters that the command takes; ``file``: the survey that they amend, read from ``name``."""

    flags: Mapping[str, Any]
    fields: Mapping[str, str]
    known: tuple[str, ...]
    file: Survey | None = None
    name: str = ""

    def survey(self) -> Survey:
        """Return the survey. Raises ``FieldError``, and ``BadParameter`` for two flags that fill one member."""
        from tacit.recipe.writing.survey import Survey

        if {"metric", "event"} <= self.flags.keys():
            raise typer.BadParameter("give either --metric or --event")
        body: dict[str, Any] = {} if self.file is None else self.file.model_dump(mode="json", exclude_unset=True)
        encoder: dict[str, Any] = {}
        for flag, value in self.flags.items():
            part, _, member = self.fields[flag].rpartition(".")
            if part == ENCODER:
                encoder[member] = value
            elif part:
                body[part] = {**(body.get(part) or {}), member: value}
            else:
                body[member] = value
        if encoder or (self._is_numeric and not self._files_an_event(body)):
            self._fill_encoder(body, encoder)
        return Survey.from_body(body)

    def _fill_encoder(self, body: dict[str, Any], parts: dict[str, Any]) -> None:
        filed = body.get(ENCODER) or {}
        kinds = [kind for flag, kind in KINDS.items() if flag in self.flags and flag not in WATCHING]
        if self.flags.keys() & WATCHING:
            kinds.append("occurrences")
        elif self._is_numeric:
            fitting = STATISTICS[self.flags["statistic"]].encoders
            kinds.append(filed["kind"] if filed.get("kind") in fitting else fitting[0])
        elif self._counts_numbers and not kinds:
            kinds.append("number")
        if len(kinds) > 1:
            raise typer.BadParameter(_SEVERAL)
        if kinds and filed.get("kind") != kinds[0]:
            body[ENCODER] = {**parts, "kind": kinds[0]}
        elif filed:
            body[ENCODER] = {**filed, **parts, "kind": filed["kind"]}
        elif not set(self.flags) & LABELS:
            raise FieldError(f"{ENCODER}.{next(iter(parts))}", "not for a histogram or count")

    def _files_an_event(self, body: Mapping[str, Any]) -> bool:
        """Whether the survey's file watches an event, for which numeric statistics exist too."""
        return (body.get(ENCODER) or {}).get("kind") == "occurrences"

    @property
    def _is_numeric(self) -> bool:
        stated = STATISTICS.get(self.flags.get("statistic", "histogram"))
        return stated is not None and not stated.counts_devices

    @property
    def _counts_numbers(self) -> bool:
        """Whether whole numbers of a range are counted, each as an answer of its own."""
        return self.flags.get("statistic") == "histogram" and bool({"low", "high"} & self.flags.keys())

    def words(self, error: FieldError) -> str:
        """Return the error in terms of the flags that were given, or of the file."""
        flag = self._flag_of(error.field)
        if self.file is not None and (flag is None or flag not in self.flags):
            return f"{self.name}: {error}"
        where = _spell(flag) if flag else self._group(error.field)
        part = error.field.rpartition(".")[0]
        reason = re.sub(r"`([A-Za-z0-9_.-]+)`", lambda found: self._translated(found[1], part), error.reason)
        return f"{where}: {reason}"

    def _flag_of(self, field: str) -> str | None:
        """The flag that fills a member or an object around it; of several, preferably one that was given."""
        known = sorted(self.known, key=lambda name: name not in self.flags)
        paths = ((name, self.fields[name]) for name in known)
        return next((name for name, path in paths if field == path or field.startswith(f"{path}.")), None)

    def _group(self, field: str) -> str:
        if field == ENCODER:
            flag = next((name for name in (*KINDS, *sorted(WATCHING)) if name in self.flags), None)
            if flag is None and self._counts_numbers:
                return "--low and --high"
            return _spell(flag) if flag else f"a {self.flags['statistic']}" if self._is_numeric else _ANSWERS
        return _GROUPS.get(field, field)

    def _translated(self, member: str, part: str) -> str:
        """The flag of a member, or of one beside it in the same ``part`` of the survey; a choice as it is."""
        kinds = {kind: name for name, kind in KINDS.items() if name in self.known}
        flag = kinds.get(member) or self._flag_of(member) or self._flag_of(f"{part}.{member}")
        return member if flag is None else _spell(flag)

    def lacking(self, survey: Survey) -> list[str]:
        """Return the flags for members that a recipe needs and ``survey`` lacks."""
        if survey.form.watched:
            event = {"metric": "--event", ENCODER: "--steps, --step-seconds"}
            return [event.get(name, _spell(name)) for name in survey.lacking]
        return [self._group(name) if name == ENCODER else _spell(name) for name in survey.lacking]


def complete_survey(said: ParsedFlags) -> Survey:
    """Return the survey, after prompting a person at a terminal for what a recipe still lacks. Raises ``BadParameter``
    for a wrong flag, before any prompt, and for a missing one without a terminal."""
    try:
        survey = said.survey()
        if not survey.lacking:
            return survey
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"missing {', '.join(said.lacking(survey))}")
        return replace(said, flags={**said.flags, **_ask_missing(survey)}).survey()
    except FieldError as error:
        raise typer.BadParameter(said.words(error)) from error


def _ask_missing(survey: Survey) -> dict[str, Any]:
    """Prompt for the missing members, and return the answers by flag."""
    lacking, found = survey.lacking, dict[str, Any]()
    if "metric" in lacking:
        found |= _prompt("event" if survey.form.watched else "metric")
    if survey.text is None:
        found |= _prompt("text")
    if "name" in lacking:
        found |= _prompt("name")
    if ENCODER in lacking:
        found |= _period(survey) if survey.form.watched else _answers()
    if "population" in lacking:
        found |= _prompt("population")
    return found


def _prompt(*flags: str) -> dict[str, Any]:
    """Prompt for the members of these flags in the words of the table, and return the answers by flag."""
    found: dict[str, Any] = {}
    for name in flags:
        row, option = _OPTIONS[name]
        found[name] = _ask(option.prompt, int if row.value is Value.WHOLE else str)
    return found


def _period(survey: Survey) -> dict[str, Any]:
    """Prompt for how long an event is watched, and return the answers by flag."""
    most = () if survey.kind is STATISTICS["count"] else ("most",)
    return _prompt("steps", "step_seconds", *most)


def _answers() -> dict[str, Any]:
    from tacit.recipe.quantity import parse_spoken

    said = _ask("Possible answers: bucket edges (0,1,2,4), categories (red,green,blue) or yes/no?")
    if said.lower() in {"yes/no", "yes,no", "boolean"}:
        return {"boolean": True}
    parts = [part.strip() for part in said.split(",")]
    try:
        return {"buckets": [parse_spoken(part) for part in parts]}
    except ValueError:
        return {"categories": parts}


def _ask(question: str, kind: type[int | str] = str) -> Any:
    """Prompt for a number or a text, which is returned without the space around it."""
    found = typer.prompt(question, type=kind, err=True, prompt_suffix=" ")
    return found.strip() if isinstance(found, str) else found


def _spell(flag: str) -> str:
    return f"--{flag.replace('_', '-')}"
