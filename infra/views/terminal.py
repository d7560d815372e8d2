"""Output shared by the commands: consoles, JSON, tables, bars, and text for times, epsilons and deltas."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from infra.views.plain import escape, harmless
from tacit.methods.figures import interval
from tacit.time_format import format_utc

BAR_WIDTH = 34
CURVE = "▁▂▃▄▅▆▇█"
STYLES = {
    "active": "green",
    "released": "green",
    "sent": "green",
    "pass": "green",
    "scheduled": "cyan",
    "pending": "yellow",
    "refused": "red",
    "failed": "red",
    "void": "dim",
    "unrefunded": "yellow",
    "lapsed": "dim",
    "covered": "dim",
    "expired": "red",
    "over": "dim",
}


class _Terminal(Console):
    """A console that prints text as it is, without characters that control a terminal, whoever wrote them."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as the base class does, but make the text of every segment harmless."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else harmless(text), style, control)


def answers(least: int = 0) -> Console:
    """Return a console for answers, on stdout. In a file or pipe, lines are at least ``least`` cells wide, not 80. Text
    is printed without markup, as names and paths may hold brackets and colons."""
    console = _Terminal(highlight=False, markup=False, emoji=False)
    if console.is_terminal or console.width >= least:
        return console
    return _Terminal(highlight=False, markup=False, emoji=False, width=least)


def notes() -> Console:
    """Return a console for progress and remarks, on stderr. Text is printed without markup."""
    return _Terminal(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def json_text(document: Any) -> str:
    """Return a JSON document as it is written to files and printed: members on lines of their own, and a line end."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def print_json(document: Any) -> None:
    """Print one JSON document on stdout. Characters that control a terminal are escaped, and those that its encoding
    lacks."""
    text = json_text(document) if _takes_all() else json.dumps(document, indent=2) + "\n"
    sys.stdout.write(escape(text))


def _takes_all() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def print_json_line(document: Any) -> None:
    """Print one JSON document on a line of stdout, at once: for commands that print one after another."""
    print(escape(json.dumps(document)), flush=True)


def span(start: float, end: float) -> str:
    """Return an interval of POSIX times as text, without the end's date if it is the same as the start's."""
    first, last = format_utc(start), format_utc(end)
    day, time = last.split(" ", 1)
    return f"{first.removesuffix(' UTC')} to {time if first.startswith(day) else last}"


def style_word(word: str) -> Text:
    """Return the word for a state or verdict in its colour."""
    return Text(word, style=STYLES.get(word, ""))


def plain_table(*columns: str, title: str | Text | None = None) -> Table:
    """Make a table without borders; without a row of headings where all of ``columns`` are empty."""
    headed = not columns or any(columns)
    return Table(
        *columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left", show_header=headed
    )


def curve(values: Sequence[float], width: int = BAR_WIDTH) -> str:
    """Draw a series from 0 to its largest value on one line of at most ``width`` cells, each the mean of its part."""
    cells = min(width, len(values))
    parts = [values[at * len(values) // cells : (at + 1) * len(values) // cells] for at in range(cells)]
    means = [sum(part) / len(part) for part in parts]
    top = max(means, default=0.0) or 1.0
    return "".join(CURVE[max(0, min(len(CURVE) - 1, round(mean / top * (len(CURVE) - 1))))] for mean in means)


def estimate_bar(
    estimate: float, stderr: float, top: float, truth: float | None = None, width: int = BAR_WIDTH
) -> Text:
    """Draw an estimate with its 95 % interval, and the truth if it is known, on a line of ``width`` cells that ends at
    the value ``top``."""

    def cell(value: float) -> int:
        return min(width - 1, max(0, math.floor(value / top * (width - 1)))) if top > 0 else 0

    end, low, high = map(cell, (estimate, *interval(estimate, stderr)))
    mark = None if truth is None else cell(truth)
    text = Text()
    for column in range(width):
        if column == mark:
            text.append("┃", style="bold green")
        elif column <= end and estimate > 0:
            text.append("━", style="cyan")
        elif low <= column <= high:
            text.append("╌", style="yellow")
        else:
            text.append(" ")
    return text
