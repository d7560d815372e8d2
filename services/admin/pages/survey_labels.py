"""The label of each member of a survey in the form, with a one-line hint."""

from __future__ import annotations

import re
from typing import Final

LABELS: Final[dict[str, tuple[str, str]]] = {
    "name": ("Short name", "a-z, 0-9 and -, such as doctor-visits; if empty, it is made from the metric"),
    "text": ("Question", "As people will read it"),
    "metric": ("Metric", "Name of a field in the device's data, or of an event that devices watch"),
    "encoder.kind": ("Kind of answer", ""),
    "encoder.categories": ("Categories", "One per line"),
    "encoder.edges": ("Lower edges", "Increasing, such as 0, 1, 3, 10; the last bucket is open"),
    "encoder.low": ("Lowest value", "Lower values are raised to this one"),
    "encoder.high": ("Highest value", "Higher values are lowered to this one"),
    "encoder.unit": ("Unit", "Values are rounded to multiples of the unit; if empty, 1"),
    "encoder.length": ("Length", "How many numbers the vector has, or characters a text at most"),
    "encoder.alphabet": ("Characters", "All characters of a text; if empty, any, and the length counts bytes"),
    "encoder.norm": ("Norm", "Longer vectors are scaled down to this norm"),
    "encoder.start": ("Watched from", "YYYY-MM-DD HH:MM in UTC, or POSIX seconds; if empty, the next step"),
    "encoder.step_seconds": ("Step", "Length of one step in seconds"),
    "encoder.steps": ("Steps", "How many steps are watched"),
    "encoder.most": ("At most", "The most events of one device that count; not needed for a count"),
    "encoder.attributes": ("Attributes", "One per line, with its values separated by bars: locale=de|fr"),
    "encoder.cells": ("Answers", "How many answers there are, without names; enough to compare, not to publish"),
    "encoder.other": ("Name for other values", "If empty, other values are not distinguished"),
    "missing": ("Devices without a value", "category: counted separately; ignore: spread over the answers"),
    "encoder.missing": ("Name for no value", "If empty, “no value”"),
    "statistic": ("Statistic", "If empty, the mean of a number, or the count or histogram of events"),
    "population": ("Devices", "How many devices are asked"),
    "rate": ("Sampling rate q", "Probability with which a device takes part"),
    "min_batch_size": ("Minimum batch B", "If empty, 0.8 × q × devices"),
    "criteria": ("Only devices with", "Attributes such as locale=de, os=linux"),
    "epsilon": ("Epsilon", "The most that an aggregator may learn about one device, even together with the relay"),
    "delta": ("Delta", "Probability with which epsilon may fail to hold; if empty, 0.000001"),
    "accuracy": ("Wanted standard error", "As a share of the devices or of the range; the margin ± is 1.96 times this"),
    "account": ("Account", "The account to which the recipe is charged"),
    "model": ("Model", "Decides whom devices have to trust"),
    "mechanism": ("Noise", "local: each device adds its own noise; flips: a device is hidden only in the sum"),
    "randomizer": ("Randomizer", "If empty, the most accurate one that is allowed"),
    "max_epsilon0": ("Local epsilon limit", "The most epsilon that one report may spend; if empty, the policy's"),
    "aggregator_flips": ("Aggregator's flips", "How many coin flips each aggregator adds"),
    "start": ("Begins", "YYYY-MM-DD HH:MM in UTC, or POSIX seconds; if empty, the next epoch"),
    "duration": ("Lasts", "Seconds; if empty, to the end of the epoch"),
    "close": ("Closes", "At the end of the interval, or as soon as there are B contributions"),
    "time_precision": ("Time precision", "Report times are rounded down to a multiple of this many seconds"),
    "epoch": ("Token epoch", "If empty, the next one"),
    "slot": ("Token slot", "If empty, the first free one"),
    "importance.default": ("Usual answer", "Devices with this answer are asked less often"),
    "importance.default_rate": (
        "Rate of the usual answer",
        "Probability with which devices with the usual answer take part",
    ),
    "importance.non_default_share": ("Share of other answers", "The share that is expected"),
    "importance.devices": ("Fewest devices counted", "The lowest count from a census"),
    "dummies": ("Dummies", "Expected number of empty reports, or auto"),
    "dummy_epsilon": (
        "Epsilon of sending",
        "With auto: the most that may be revealed about whether a device sent a report",
    ),
}


def label_of(path: str) -> str:
    """The label of the member at ``path``. A part with several fields has the label of its first field."""
    return LABELS.get(path, LABELS.get(f"{path}.kind", (path, "")))[0]


def shown_at(path: str) -> str:
    """The field that shows what is wrong with the member at ``path``: of a part, its kind; of an entry, the whole."""
    while path and path not in LABELS and f"{path}.kind" not in LABELS:
        path = path.rpartition(".")[0]
    return path if path in LABELS or not path else f"{path}.kind"


def of_entry(reason: str, path: str) -> str:
    """A reason that says which entry of a list is meant, where ``path`` is that of an entry."""
    entry = path.rpartition(".")[2]
    return f"entry {int(entry) + 1} {reason}" if entry.isdecimal() else reason


CHOICES: Final[dict[str, str]] = {
    "boolean": "yes or no",
    "categories": "one of several categories",
    "buckets": "number, counted in buckets",
    "strings": "text: which ones are frequent",
    "number": "number, summed or averaged",
    "vector": "several numbers",
    "occurrences": "how often an event happens",
    "attributes": "attributes of the device (census)",
    "cells": "answers without names yet",
    "category": "counted separately",
    "ignore": "ignored, which biases the result",
    "interval_end": "at the end of the interval",
    "at_B": "as soon as there are B contributions",
}
"""The text of each choice in the form."""


def worded(text: str) -> str:
    """Replace the members of a survey between backticks by their labels in the form."""
    return re.sub(r"`([a-z_.]+)`", lambda found: f"“{label_of(found[1])}”", text)
