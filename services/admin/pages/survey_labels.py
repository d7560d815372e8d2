"""Words of the form for writing a question: labels of members and of choices, and errors in terms of these labels."""

from __future__ import annotations

import re
from typing import Final

from tacit.recipe.writing.survey_table import FIELD_AT


def label_of(path: str) -> str:
    """The label of the member at ``path``. A part with several fields has the label of its first field."""
    found = FIELD_AT.get(path) or FIELD_AT.get(f"{path}.kind")
    return path if found is None else found.label


def shown_at(path: str) -> str:
    """The field that shows what is wrong with the member at ``path``: of a part, its kind; of an entry, the whole."""
    while path and path not in FIELD_AT and f"{path}.kind" not in FIELD_AT:
        path = path.rpartition(".")[0]
    return path if path in FIELD_AT or not path else f"{path}.kind"


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


def worded(text: str) -> str:
    """Replace the members of a survey between backticks by their labels in the form."""
    return re.sub(r"`([a-z_.]+)`", lambda found: f"“{label_of(found[1])}”", text)
