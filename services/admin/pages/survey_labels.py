"""Words of the form for writing a question: labels of members and of choices, and errors in terms of these labels."""

from __future__ import annotations

import re
from typing import Any, Final

from tacit.errors import Abort
from tacit.recipe.writing.survey_table import FIELD_AT

MISSING: Final = ("is missing", "is needed")
"""How the reason begins where a member is not there."""


def label_of(path: str) -> str:
    """The label of the member at ``path``. A part with several fields has the label of its first field."""
    member = FIELD_AT.get(_first(path))
    return path if member is None else member.label


def shown_at(path: str) -> str:
    """The field that shows what is wrong with the member at ``path``: of a part, its first; of an entry, the whole."""
    while path and not _first(path):
        path = path.rpartition(".")[0]
    return _first(path)


def _first(path: str) -> str:
    """``path`` itself if it is a field, or the first field of the part at ``path``; empty for anything else."""
    if path in FIELD_AT:
        return path
    return next((one for one in FIELD_AT if path and one.startswith(f"{path}.")), "")


def of_entry(reason: str, path: str) -> str:
    """A reason that says which entry of a list is meant, where ``path`` is that of an entry."""
    entry = path.rpartition(".")[2]
    return f"entry {int(entry) + 1} {reason}" if entry.isdecimal() else reason


CHOICES: Final[dict[str, str]] = {
    "boolean": "yes or no",
    "categories": "one of several categories",
    "buckets": "number, counted in buckets",
    "strings": "frequent texts, one server",
    "prefixes": "frequent texts, in rounds",
    "number": "number, summed or averaged",
    "vector": "several numbers",
    "occurrences": "how often an event happens",
    "attributes": "attributes of the device (census)",
    "cells": "answers without names yet",
    "category": "counted separately",
    "ignore": "ignored, which biases the result",
    "interval_end": "at the end of the interval",
    "at_B": "as soon as there are B contributions",
    "gateway": "the gateway alone",
    "shuffler": "the gateway, then a shuffler",
}
"""The text of each choice in the form."""


def replace_members(reason: str, path: str = "") -> str:
    """Replace the members of a survey between backticks by their labels in the form, and choices by their text there.
    Members of the same part as that at ``path`` may be named alone."""
    part = path.rpartition(".")[0]

    def word(found: re.Match[str]) -> str:
        name = found[1]
        beside = f"{part}.{name}"
        if _first(name):
            return f"“{label_of(name)}”"
        return f"“{label_of(beside)}”" if beside in FIELD_AT else f"“{chosen(name)}”"

    return re.sub(r"`([A-Za-z0-9_.-]+)`", word, reason)


def chosen(word: str) -> str:
    """A choice in the form, in words for readers."""
    return CHOICES.get(word, plain(word))


def plain(text: str) -> str:
    """A word of the protocol for readers, with spaces instead of hyphens and underscores."""
    return text.replace("-", " ").replace("_", " ")


def told_members(problem: Abort | None) -> list[dict[str, Any]]:
    """The wrong members that a refusal names: each with its path, the reason, and whether it is only missing."""
    members = None if problem is None else problem.extensions.get("fields")
    return (
        [{**one, "missing": one["reason"].startswith(MISSING)} for one in members] if isinstance(members, list) else []
    )


def told_fields(problem: Abort | None) -> list[dict[str, Any]]:
    """The same by the fields of the form that show them, in the form's words. Of one field, the first."""
    told: dict[str, dict[str, Any]] = {}
    for one in told_members(problem):
        path = one["field"]
        field = shown_at(path)
        told.setdefault(field, {**one, "field": field, "reason": replace_members(of_entry(one["reason"], path), path)})
    return list(told.values())
