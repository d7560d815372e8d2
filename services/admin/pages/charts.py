"""Computes positions in drawings from numbers. The templates draw, and choose colours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.admin.pages.rendering import figure
from tacit.methods.figures import form_of, interval_of, places_to_draw, with_margin
from tacit.methods.result import answers as answers_of
from tacit.methods.result import by_label
from tacit.operations.burn_down import BurnDown
from tacit.time_format import format_utc

MULTIPLES = 12
"""The most answers that are shown over time."""
WIDTH = 640
"""Width of a drawing, in its own units."""
ROW = 26
"""Height of the row of one answer."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from the value ``low`` at position ``begin`` to ``high`` at ``end``. ``log``: a logarithmic axis, with
    both values above 0."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The position of ``value``; a value beyond an end is placed at that end."""
        low, high, found = map(math.log10, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        share = min(1.0, max(0.0, (found - low) / ((high - low) or 1.0)))
        return round(self.begin + share * (self.end - self.begin), 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """(position, label) of every tick, in rising order: at most 7 on a logarithmic axis."""
        return [(self.at(value), figure(value)) for value in (self._decades() if self.log else self._steps())]

    def _decades(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [
                step * 10.0**power
                for power in range(first, last + 1)
                for step in steps
                if self.low <= step * 10.0**power * 1.0001 and step * 10.0**power <= self.high * 1.0001
            ]
            if len(found) <= 7:
                return found
        return found[:: math.ceil(len(found) / 6)]

    def _steps(self) -> list[float]:
        span = (self.high - self.low) or 1.0
        raw = span / 4
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if raw <= power * factor * 1.0001)
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


def path(points: Iterable[tuple[float, float]]) -> str:
    """SVG path data: straight lines through ``points``."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


@dataclass(frozen=True, slots=True)
class Line:
    """A line with the label at its end. ``kind``: the style of the line."""

    label: str
    kind: str
    path: str
    end: tuple[float, float]
    dots: tuple[tuple[float, float], ...] = ()


def spread(lines: Sequence[Line], gap: float, low: float, high: float) -> list[tuple[Line, float]]:
    """Place the labels of ``lines`` between ``low`` and ``high``, at least ``gap`` apart. Returns each line with the
    position of its label, from ``low`` to ``high``."""
    placed: list[tuple[Line, float]] = []
    for line in sorted(lines, key=lambda one: one.end[1]):
        wanted = line.end[1] if not placed else max(line.end[1], placed[-1][1] + gap)
        placed.append((line, max(low, wanted)))
    beyond = placed[-1][1] - high if placed else 0.0
    if beyond > 0:
        shifted, bound = [], high
        for line, place in reversed(placed):
            bound = min(place, bound)
            shifted.append((line, bound))
            bound -= gap
        placed = shifted[::-1]
    return placed


def answers(document: Mapping[str, Any]) -> dict[str, Any]:
    """The drawing of a released result: each answer with its 95 % interval on one axis; of many the largest,
    and ``of`` says of how many."""
    found = answers_of(document)
    drawn = [found[at] for at in places_to_draw(document)]
    rows = [(bucket, *interval_of(bucket, document)) for bucket in drawn]
    low, high = min([0.0, *(row[1] for row in rows)]), max([0.0, *(row[2] for row in rows)])
    axis, form = Axis(low, high or 1.0, 170, WIDTH - 150), form_of(document)
    return {
        "axis": axis,
        "of": len(found) if len(drawn) < len(found) else None,
        "zero": axis.at(0.0),
        "height": ROW * len(rows) + 44,
        "rows": [
            {
                "y": ROW * index + 16,
                "label": bucket["label"],
                "told": with_margin(bucket["estimate"], bucket["stderr"], form),
                "x": axis.at(bucket["estimate"]),
                "x1": axis.at(begin),
                "x2": axis.at(end),
            }
            for index, (bucket, begin, end) in enumerate(rows)
        ],
    }


@dataclass(frozen=True, slots=True)
class Fill:
    """The drawing of a batch: positions from 0 to 100 of the contributions so far (``count``), of the bounds within
    which they are (``least``, ``most``), and of B (``size``)."""

    count: float
    least: float
    most: float
    size: float

    @classmethod
    def of(cls, told: Mapping[str, Any], expected: int) -> Fill:
        """The drawing of a yield document. ``expected``: the number of contributions that the recipe expects."""
        size = told["min_batch_size"]
        most = told.get("most")
        top = max(size * 1.25, expected, told["contributions"], most or 0)
        axis = Axis(0, top, 0, 100)
        least = told.get("least") or 0
        if most is None:
            most = top if told["contributions"] else 0  # nothing is known yet, so nothing is drawn
        return cls(axis.at(told["contributions"]), axis.at(least), axis.at(most), axis.at(size))


def over_time(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Small charts, one for each answer and all on the same axes, of its estimates with 95 % intervals over time."""
    times = [one["interval"]["start"] for one in documents]
    answers = [by_label(one) for one in documents]
    ends = [end for one in documents for row in answers_of(one) for end in interval_of(row, one)]
    across = Axis(min(times), max(times), 52, 250)
    upward = Axis(min([0.0, *ends]), max([0.0, *ends]) or 1.0, 96, 8)
    return [
        {
            "label": label,
            "upward": upward,
            "across": across,
            "ends": _ends(times[0], times[-1]),
            "points": [
                {
                    "x": across.at(time),
                    "y": upward.at(found[label]["estimate"]),
                    "y1": upward.at(interval_of(found[label], document)[0]),
                    "y2": upward.at(interval_of(found[label], document)[1]),
                }
                for time, found, document in zip(times, answers, documents, strict=True)
                if label in found
            ],
        }
        for label in [row["label"] for row in answers_of(documents[-1])[:MULTIPLES]]
    ]


def _ends(first: float, last: float) -> tuple[str, str]:
    """The labels at the ends of a time axis: days, and also the time of day if the axis is short."""
    digits = 10 if last - first > 3 * 86400 else 16
    return format_utc(first)[:digits], format_utc(last)[:digits]


def burning(found: BurnDown) -> dict[str, Any]:
    """The drawing of what is left of an account day by day, and of when it is used up at its present pace."""
    days, limit = found.days, float(found.account.epsilon)
    first, last = days[0].at, days[-1].at
    until = min(found.used_up_at or last, last + 3 * max(86400, last - first))
    across = Axis(first, max(until, last + 1), 52, WIDTH - 16)
    upward = Axis(0, limit, 170, 12)
    places = [(across.at(one.at), upward.at(float(one.left))) for one in days]
    steps = [places[0]]
    for (_, before), (x, y) in itertools.pairwise(places):
        steps += [(x, before), (x, y)]
    end = None
    if found.used_up_at is not None and until > last:
        share = (until - last) / max(1, found.used_up_at - last)
        end = (across.at(until), upward.at(max(0.0, float(days[-1].left) * (1 - share))))
    return {
        "across": across,
        "upward": upward,
        "line": path(steps),
        "area": path([*steps, (steps[-1][0], 170.0), (steps[0][0], 170.0)]) + "Z",
        "now": places[-1],
        "end": end,
        "ends": _ends(first, max(until, last + 1)),
    }
