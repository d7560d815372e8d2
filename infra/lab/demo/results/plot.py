"""Lines in a terminal: curves over 1, 2, 3, ..., drawn with the dots of braille letters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

ACROSS, DOWN = 2, 4
"""Dots of one Braille character: columns, rows."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
LEAST_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Curve:
    """One line: its values at 1, 2, 3, ..., one at least and all finite, and the style in which it is drawn."""

    values: Sequence[float]
    style: str


class Plot:
    """A plot of ``curves`` of the same length, ``width`` cells wide and ``height`` high without its axes. Of curves
    that meet in a cell the later one gives its colour."""

    def __init__(self, curves: Sequence[Curve], width: int, height: int) -> None:
        self._width, self._height = max(LEAST_WIDTH, width), max(2, height)
        values = [value for curve in curves for value in curve.values]
        self._low, self._high = min(values), max(values)
        self._dots = [[0] * self._width for _ in range(self._height)]
        self._styles = [[""] * self._width for _ in range(self._height)]
        self._steps = max(len(curve.values) for curve in curves)
        for curve in curves:
            self._draw(curve)

    def text(self) -> Text:
        """The plot with the largest and smallest value at its left, and the first and last step below."""
        labels = {0: f"{self._high:.2f}", self._height - 1: f"{self._low:.2f}"}
        margin = max(map(len, labels.values()))
        shown = Text(no_wrap=True)
        for row, (dots, styles) in enumerate(zip(self._dots, self._styles, strict=True)):
            shown.append(f"{labels.get(row, ''):>{margin}} ┤", style="dim")
            for dot, style in zip(dots, styles, strict=True):
                shown.append(chr(_BLANK + dot) if dot else " ", style=style)
            shown.append("\n")
        last = str(self._steps)
        shown.append(" " * (margin + 1) + "└" + "─" * self._width + "\n", style="dim")
        shown.append(" " * (margin + 2) + "1" + f"{last:>{self._width - 1}}", style="dim")
        return shown

    def _draw(self, curve: Curve) -> None:
        rows = [self._row(value) for value in _between(curve.values, self._width * ACROSS)]
        for column, (before, row) in enumerate(zip([rows[0], *rows], rows, strict=False)):
            low, high = (row, max(row, before - 1)) if before > row else (min(row, before + 1), row)
            for at in range(low, high + 1):
                self._set(column, at, curve.style)

    def _row(self, value: float) -> int:
        span = self._high - self._low
        share = 0.5 if span <= 0 else (self._high - value) / span
        return math.floor(share * (self._height * DOWN - 1) + 0.5)

    def _set(self, column: int, row: int, style: str) -> None:
        x, y = column // ACROSS, row // DOWN
        self._dots[y][x] |= _BITS[row % DOWN][column % ACROSS]
        self._styles[y][x] = style


def _between(values: Sequence[float], number: int) -> list[float]:
    """``number`` values (2 at least) on the lines from each value to the next, from the first to the last."""
    last, found = len(values) - 1, list[float]()
    for at in range(number):
        place = at / (number - 1) * last
        left = min(int(place), max(0, last - 1))
        found.append(values[left] + (place - left) * (values[min(left + 1, last)] - values[left]))
    return found
