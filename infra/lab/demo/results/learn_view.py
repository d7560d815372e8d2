"""A training run in the terminal, with curves drawn with the dots of braille letters, and as a picture."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.lab.demo.results.learn_result import CENTRAL, HONEST, NONE, OURS, STEP_HEADINGS, LearnResult, Line
from infra.views.claim_words import epsilon_text
from infra.views.terminal import plain_table
from tacit.counting_words import plural

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


STYLES = {NONE: "dim", CENTRAL: "blue", OURS: "bold green", HONEST: "magenta"}
COLOURS = {NONE: "#868e96", CENTRAL: "#1c7ed6", OURS: "#2b8a3e", HONEST: "#9c36b5"}
TABLE_CELLS = 56
"""Of the table beside the plot, with the frames."""
LEAST_PLOT, MOST_PLOT = 36, 64
"""Cells of the plot; below the least, the table comes under it."""
LEAST_ROWS = 10


def learned(result: LearnResult, width: int) -> Panel:
    """Losses as curves beside the rounds, or above them in a narrow terminal."""
    is_wide = width >= TABLE_CELLS + LEAST_PLOT
    cells = width - TABLE_CELLS if is_wide else width - 14
    steps, rows = plain_table(), max(LEAST_ROWS, len(result.steps) - 1)
    for heading in STEP_HEADINGS:
        steps.add_column(heading, justify="right", no_wrap=True)
    for number, step in enumerate(result.steps, 1):
        steps.add_row(*step.cells(number))
    curves = [Curve(line.losses, STYLES[line.name]) for line in reversed(result.lines)]
    plot = Plot(curves, min(MOST_PLOT, cells), rows).text()
    body = Table.grid(padding=(0, 3))
    if is_wide:
        body.add_row(plot, steps)
    else:
        body.add_row(Group(plot, Text(), steps))
    caption = Text(
        f"{result.devices:,} devices asked in every round · {result.sampled:,} times drawn by their own coins · "
        f"{result.accepted:,} contributions counted · {result.rejected:,} rejected · updates of length "
        f"{result.clip:g} at most",
        style="dim",
    )
    title = Text(result.question, style="bold")
    return Panel(Group(Text("loss"), body, *map(_legend, result.lines), caption), title=title, subtitle=result.source)


def _legend(line: Line) -> Text:
    shown = Text("━ ", style=STYLES[line.name])
    return shown.append(f"{line.words}: {line.accuracy:.1%} right in the end", style=STYLES[line.name])


def draw_learned(result: LearnResult) -> bytes:
    """PNG: the losses over the rounds."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4.8), dpi=130, layout="constrained")
    axes = figure.subplots()
    for line in reversed(result.lines):
        label = f"{line.words}: {line.accuracy:.1%}"
        axes.plot(range(1, len(line.losses) + 1), line.losses, marker="o", color=COLOURS[line.name], label=label)
    axes.set_xlabel("round")
    axes.set_ylabel("loss on digits that no device has")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    epsilon = epsilon_text(result.privacy["epsilon"], 2)
    axes.set_title(
        f"{result.question}\n{result.devices:,} devices, ε = {epsilon} at δ = {float(result.privacy['delta']):g} "
        f"over {plural(len(result.steps), 'round')}",
        parse_math=False,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", title="accuracy in the end")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
