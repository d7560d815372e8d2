"""The accountant run backwards, for every mechanism: the parameter that keeps a wanted epsilon.

One search serves all mechanisms. It evaluates the mechanism's own answers (``tacit.accounting.mechanisms``) and starts
on the side where epsilon is small, so that nothing costly is evaluated far from the answer. It never returns a value
whose epsilon was not computed and found to be within the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.accounting.device_mechanisms import Quantities
from tacit.accounting.events import Relation
from tacit.accounting.mechanisms import entry_of, explain, relation_of
from tacit.accounting.sigma import least
from tacit.dp import parameters
from tacit.errors import Refusal

TOLERANCE = 1e-6
"""Largest relative distance between the value found and the best one (whole numbers are exact)."""
ALIASES = {"B": "n", "epsilon0": "e0", "lambda": "intensity", "slots": "m"}


@dataclass(frozen=True, slots=True)
class Range:
    """The interval in which a parameter is searched, and where the search starts."""

    low: float
    high: float
    start: float


RANGES = {
    "e0": Range(parameters.MIN_EPSILON0, parameters.MAX_EPSILON0, 0.1),
    "epsilon": Range(1e-9, parameters.MAX_EPSILON0, 0.1),
    "delta": Range(parameters.MIN_DELTA, 0.999, 1e-3),
    "total_delta": Range(parameters.MIN_DELTA, 0.999, 1e-3),
    "q": Range(1e-9, 1.0, 1e-3),
    "sigma": Range(1e-3, 1e6, 256.0),
    "scale": Range(1e-3, 1e6, 256.0),
    "sensitivity": Range(1e-6, 1e6, 1e-2),
    "intensity": Range(1e-3, 1e9, 4096.0),
}
WHOLE = {
    "n": Range(1, parameters.MAX_N, 1024),
    "m": Range(1, 10_000, 16),
    "rounds": Range(1, 100_000, 1),
    "flips": Range(1, 1 << 16, 256),
    "batch_flips": Range(1, 1 << 20, 256),
    "scale": Range(1, 1 << 20, 1),
    "sensitivity": Range(1, 1 << 20, 1),
    "maximum": Range(1, 1 << 20, 1),
    "norm": Range(1, 1 << 20, 1),
    "length": Range(1, 1 << 16, 1),
    "cells": Range(1, 2, 1),
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Result of a calibration: ``solved`` was set to ``value``, and ``answer`` is what the mechanism then reports; its
    epsilon is within ``target``."""

    mechanism: str
    relation: Relation
    solved: str
    value: float
    target: float
    answer: Quantities


def calibrate(
    name: str, solve: str, target: float, given: Mapping[str, Any], relation: Relation | None = None
) -> Calibration:
    """Find the value of parameter ``solve`` of mechanism ``name`` at which epsilon is as large as possible within
    ``target``, with the other parameters as ``given``. This is the largest value where epsilon grows with the parameter
    and the smallest where it shrinks.

    Raises ``Refusal``: those of ``explain``; ``calibrate-target``; ``calibrate-parameter`` for a parameter that has no
    effect on epsilon here; ``target-unreachable`` where no value in the range keeps the target (or the mechanism's own
    refusal, where it has no answer at all).
    """
    entry, solved = entry_of(name), ALIASES.get(solve, solve)
    chosen = relation_of(entry, relation)
    if not 0 < target <= parameters.MAX_EPSILON0:
        raise Refusal("calibrate-target", f"the target must be above 0 and at most {parameters.MAX_EPSILON0:g}")
    can = (*entry.rising, *entry.falling)
    if not can:
        raise Refusal(
            "calibrate-parameter",
            f"{entry.name} cannot be solved: it computes a parameter from epsilon, not an epsilon",
        )
    if solved not in can:
        raise Refusal("calibrate-parameter", f"{entry.name} can be solved for {', '.join(can)}, not for {solved}")
    if solved in given:
        raise Refusal("calibrate-parameter", f"{solved} is the parameter to find; leave it out")
    whole = entry.integral(solved)
    bounds = (WHOLE if whole else RANGES)[solved]

    def answer(value: float) -> Quantities:
        return explain(name, {**given, solved: round(value) if whole else value}, chosen)

    def epsilon(value: float) -> float:
        try:
            return answer(value)["epsilon"]
        except Refusal:
            return math.inf

    search = _whole if whole else _real
    value = search(epsilon, target, bounds, rising=solved in entry.rising)
    if value is None:
        answer(bounds.low if solved in entry.rising else bounds.high)
        raise Refusal(
            "target-unreachable",
            f"no {solved} from {bounds.low:g} to {bounds.high:g} keeps epsilon {target:g} with the other parameters",
        )
    return Calibration(name, chosen, solved, value, target, answer(value))


def _bracket(
    epsilon: Callable[[float], float], target: float, bounds: Range, *, rising: bool
) -> tuple[float, float] | None:
    """Return (a value that keeps the target, a value within a factor 2 of it that does not), or the same value twice at
    the end of the range. None where no value was found that keeps the target."""
    up = rising
    good = bounds.start
    while epsilon(good) > target:
        if good in (bounds.low, bounds.high) and good == (bounds.low if up else bounds.high):
            return None
        good = max(bounds.low, good / 2) if up else min(bounds.high, good * 2)
    while True:
        further = min(bounds.high, good * 2) if up else max(bounds.low, good / 2)
        if further == good:
            return good, good
        if epsilon(further) > target:
            return good, further
        good = further


def _real(epsilon: Callable[[float], float], target: float, bounds: Range, *, rising: bool) -> float | None:
    ends = _bracket(epsilon, target, bounds, rising=rising)
    if ends is None or ends[0] == ends[1]:
        return None if ends is None else ends[0]
    sign = -1 if rising else 1

    def excess(log_value: float) -> float:
        found = epsilon(math.exp(sign * log_value))
        return math.log(max(found, target * 1e-9) / target)

    found = math.exp(sign * least(excess, sign * math.log(ends[1]), sign * math.log(ends[0]), TOLERANCE))
    return found if epsilon(found) <= target else ends[0]


def _whole(epsilon: Callable[[float], float], target: float, bounds: Range, *, rising: bool) -> float | None:
    def whole(value: float) -> float:
        return epsilon(math.floor(value) if rising else math.ceil(value))

    ends = _bracket(whole, target, bounds, rising=rising)
    if ends is None:
        return None
    good, bad = ((math.floor(end) if rising else math.ceil(end)) for end in ends)
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if epsilon(middle) <= target else (good, middle)
    return good
