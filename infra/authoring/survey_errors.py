"""Builds a survey from the flags of a command line, and reports its errors in terms of these flags."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import typer

from tacit.errors import FieldError
from tacit.methods.statistics import STATISTICS

if TYPE_CHECKING:
    from tacit.recipe.survey import Survey


KINDS: Final = {
    "buckets": "buckets",
    "categories": "categories",
    "strings": "strings",
    "prefixes": "prefixes",
    "boolean": "boolean",
    "attribute": "attributes",
    "cells": "cells",
    "steps": "occurrences",
}
"""Flags that define the answers, with the kind of encoder that each implies."""
WATCHING: Final = frozenset({"steps", "step_seconds", "most", "watch_start"})
"""Flags of a watched event; "steps" stands for all of them in ``KINDS``."""
LABELS: Final = frozenset({"other_label", "missing_label"})
ENCODER: Final = "encoder"
_ANSWERS: Final = "--buckets, --categories, --strings or --boolean"
_SEVERAL: Final = f"give only one of {_ANSWERS.replace(' or', ',')}, and a sum, mean or vector-sum"
_GROUPS: Final = {ENCODER: "the question", "importance": "importance sampling"}


@dataclass(frozen=True, slots=True)
class Said:
    """``flags``: the given parameters, with their values in the document; ``fields``: the member that each fills;
    ``known``: the parameters that the command takes; ``file``: the survey that they amend, read from ``name``."""

    flags: Mapping[str, Any]
    fields: Mapping[str, str]
    known: tuple[str, ...]
    file: Survey | None = None
    name: str = ""

    def survey(self) -> Survey:
        """Return the survey. Raises ``FieldError``, and ``BadParameter`` for two flags that fill one member."""
        from tacit.recipe.survey import Survey

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
        kinds = [kind for flag, kind in KINDS.items() if flag in self.flags and flag not in WATCHING]
        if self.flags.keys() & WATCHING:
            kinds.append("occurrences")
        elif self._is_numeric:
            kinds += STATISTICS[self.flags["statistic"]].encoders
        if len(kinds) > 1:
            raise typer.BadParameter(_SEVERAL)
        filed = body.get(ENCODER) or {}
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

    def words(self, error: FieldError) -> str:
        """Return the error in terms of the flags that were given, or of the file."""
        flag = self._flag_of(error.field)
        if self.file is not None and (flag is None or flag not in self.flags):
            return f"{self.name}: {error}"
        where = _spelled(flag) if flag else self._group(error.field)
        reason = re.sub(r"`([a-z0-9_.]+)`", lambda found: self._translated(found[1]), error.reason)
        return f"{where}: {reason}"

    def _flag_of(self, field: str) -> str | None:
        """The flag that fills a member or an object around it; of several, preferably one that was given."""
        known = sorted(self.known, key=lambda name: name not in self.flags)
        paths = ((name, self.fields[name]) for name in known)
        return next((name for name, path in paths if field == path or field.startswith(f"{path}.")), None)

    def _group(self, field: str) -> str:
        if field == ENCODER:
            flag = next((name for name in (*KINDS, *sorted(WATCHING)) if name in self.flags), None)
            return _spelled(flag) if flag else f"a {self.flags['statistic']}" if self._is_numeric else _ANSWERS
        return _GROUPS.get(field, field)

    def _translated(self, member: str) -> str:
        kinds = {kind: name for name, kind in KINDS.items() if name in self.known}
        flag = kinds.get(member) or self._flag_of(member)
        return member if flag is None else _spelled(flag)

    def lacking(self, survey: Survey) -> list[str]:
        """Return the flags for members that a recipe needs and ``survey`` lacks."""
        if survey.form.watched:
            event = {"metric": "--event", ENCODER: "--steps, --step-seconds"}
            return [event.get(name, _spelled(name)) for name in survey.lacking]
        return [self._group(name) if name == ENCODER else _spelled(name) for name in survey.lacking]


def completed(said: Said) -> Survey:
    """Return the survey, after prompting a person at a terminal for what a recipe still lacks. Raises ``BadParameter``
    for a wrong flag, before any prompt, and for a missing one without a terminal."""
    try:
        survey = said.survey()
        if not survey.lacking:
            return survey
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"missing {', '.join(said.lacking(survey))}")
        return replace(said, flags={**said.flags, **_asked(survey)}).survey()
    except FieldError as error:
        raise typer.BadParameter(said.words(error)) from error


def _asked(survey: Survey) -> dict[str, Any]:
    """Prompt for the missing members, and return the answers by flag."""
    lacking, found = survey.lacking, {}
    if "metric" in lacking and survey.form.watched:
        found["event"] = _ask("Which event do the devices watch (for example visit)?")
    elif "metric" in lacking:
        found["metric"] = _ask("Which metric of the device's data is asked for (for example mdvis)?")
    if survey.text is None:
        found["text"] = _ask("The question, as a person reads it?")
    if "name" in lacking:
        found["name"] = _ask("A short name for the recipe (a-z, 0-9 and -)?")
    if ENCODER in lacking and survey.form.watched:
        found |= _period(survey)
    elif ENCODER in lacking:
        found |= _answers()
    if "population" in lacking:
        found["population"] = typer.prompt("How many devices will be asked?", type=int, err=True, prompt_suffix=" ")
    return found


def _period(survey: Survey) -> dict[str, Any]:
    """Prompt for how long an event is watched, and return the answers by flag."""
    asked = {"steps": "For how many steps is it watched?", "step_seconds": "How many seconds does a step last?"}
    if survey.kind is not STATISTICS["count"]:
        asked["most"] = "Up to how many occurrences are counted?"
    return {name: typer.prompt(words, type=int, err=True, prompt_suffix=" ") for name, words in asked.items()}


def _answers() -> dict[str, Any]:
    from tacit.recipe.quantity import spoken

    said = _ask("Possible answers: bucket edges (0,1,2,4), categories (red,green,blue) or yes/no?")
    if said.lower() in {"yes/no", "yes,no", "boolean"}:
        return {"boolean": True}
    parts = [part.strip() for part in said.split(",")]
    try:
        return {"buckets": [spoken(part) for part in parts]}
    except ValueError:
        return {"categories": parts}


def _ask(question: str) -> str:
    return str(typer.prompt(question, err=True, prompt_suffix=" ")).strip()


def _spelled(flag: str) -> str:
    return f"--{flag.replace('_', '-')}"
