"""What a survey's members are called in the form, and a line on each."""

from __future__ import annotations

from typing import Final

LABELS: Final[dict[str, tuple[str, str]]] = {
    "name": ("Short name", "a-z, 0-9 and -, such as doctor-visits"),
    "text": ("Question", "As a person reads it"),
    "metric": ("Metric", "Field of the device's data; of a watched event, its name"),
    "encoder.kind": ("Kind of answer", ""),
    "encoder.categories": ("Categories", "One to a line"),
    "encoder.edges": ("Lower edges", "Increasing, such as 0, 1, 3, 10; the last bucket is open"),
    "encoder.low": ("Lowest value", "Lower values are clipped to it"),
    "encoder.high": ("Highest value", "Higher values are clipped to it"),
    "encoder.unit": ("Unit", "Values are rounded to multiples of it; left out: 1"),
    "encoder.length": ("Length", "Numbers in the vector"),
    "encoder.norm": ("Norm", "Longer vectors are shrunk to it"),
    "encoder.start": ("Watched from", "YYYY-MM-DD HH:MM in UTC, or POSIX seconds; left out: the next step"),
    "encoder.step_seconds": ("Step", "Seconds of one step"),
    "encoder.steps": ("Steps", "How many are watched"),
    "encoder.most": ("At most", "How often it is counted in one device; a count needs none"),
    "encoder.attributes": ("Attributes", "One to a line, values with bars: locale=de|fr"),
    "encoder.cells": ("Answers", "How many, without names: enough to compare, not to publish"),
    "encoder.other": ("Name for other values", "Left out: they are not told apart"),
    "encoder.missing": ("Name for no value", "Left out: not told apart"),
    "statistic": ("Statistic", "Left out: what is usual for the kind of answer"),
    "population": ("Devices asked", ""),
    "rate": ("Sampling rate q", "Probability with which a device takes part"),
    "min_batch_size": ("Least batch B", "Left out: 0.8 × q × devices"),
    "criteria": ("Only devices with", "Attributes such as locale=de, os=linux"),
    "epsilon": ("Epsilon", "Most against an aggregator with the relay; with one server against the analyzer"),
    "delta": ("Delta", ""),
    "accuracy": ("Wanted standard error", "As a share of the population or the range, such as 0.01"),
    "account": ("Account", "Which the recipe is charged to"),
    "model": ("Model", "Whom devices have to trust"),
    "mechanism": ("Noise", "local: each device hides itself; flips: only the sum hides a device"),
    "randomizer": ("Randomizer", "Left out: the first that fits the question"),
    "max_epsilon0": ("Most in one report", "Epsilon that one report may tell; left out: the policy's"),
    "aggregator_flips": ("Aggregator's flips", "Coin flips that each aggregator adds"),
    "start": ("Begins", "YYYY-MM-DD HH:MM in UTC, or POSIX seconds; left out: the next epoch"),
    "duration": ("Lasts", "Seconds; left out: to the end of the epoch"),
    "close": ("Closes", "At the end of the interval, or as soon as B are there"),
    "time_precision": ("Time precision", "Seconds to which report times are cut"),
    "epoch": ("Token epoch", "Left out: the next one"),
    "slot": ("Token slot", "Left out: the first free one"),
    "importance.default": ("Usual answer", "Its devices are asked less often"),
    "importance.default_rate": ("Rate of the usual answer", "Probability with which they take part"),
    "importance.non_default_share": ("Share of other answers", "As expected"),
    "importance.devices": ("Least devices counted", "By a census"),
    "dummies": ("Dummies", "Expected reports that say nothing, or auto"),
    "dummy_epsilon": ("Epsilon of sending", "With auto: what may be told of whether a device sent"),
}


def label_of(path: str) -> str:
    """What the member is called in the form; a part of several fields by its first one."""
    return LABELS.get(path, LABELS.get(f"{path}.kind", (path, "")))[0]
