"""What the commands share in the terminal: times, bars, JSON, notes."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from infra.plain import escaped, harmless
from tacit.dp.claim import UNBOUNDED
from tacit.methods.figures import delta_form, interval
from tacit.models.forms.registry import adversary
from tacit.moments import when

BAR_WIDTH = 34
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
    """Prints words as they are, and never what a terminal takes for an order, whoever wrote it into them."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As the base; the text of every segment is harmless."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else harmless(text), style, control)


def answers(least: int = 0) -> Console:
    """Where answers go: stdout. Into a file or pipe lines are at least ``least`` cells wide, not cut at 80. Text is
    printed as it is: names and paths may hold brackets and colons."""
    console = _Terminal(highlight=False, markup=False, emoji=False)
    if console.is_terminal or console.width >= least:
        return console
    return _Terminal(highlight=False, markup=False, emoji=False, width=least)


def notes() -> Console:
    """Where progress and remarks go: stderr. Text is printed as it is."""
    return _Terminal(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(escaped(json.dumps(document, indent=2, ensure_ascii=False)) + "\n")


def span(start: float, end: float) -> str:
    """An interval of POSIX times; the day of its end only where it is another."""
    first, last = when(start), when(end)
    day, time = last.split(" ", 1)
    return f"{first.removesuffix(' UTC')} to {time if first.startswith(day) else last}"


def styled(word: str) -> Text:
    """A state's or verdict's word in its colour."""
    return Text(word, style=STYLES.get(word, ""))


def plain_table(*columns: str, title: str | Text | None = None) -> Table:
    """A table without borders."""
    return Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left")


def adversary_text(name: str, n: int) -> str:
    """Who an epsilon of a claim at ``n`` reports is against, and on what condition."""
    found = adversary(name)
    return name if found is None else found.words.format(n=n)


def is_conditional(name: str) -> bool:
    """Whether the claim against this adversary rests on what nobody enforces."""
    found = adversary(name)
    return found is not None and found.condition is not None


def epsilon_text(value: float | str, places: int = 4) -> str:
    """An epsilon of a document; ``unbounded`` stays that word."""
    return value if isinstance(value, str) and not value[:1].isdigit() else f"{float(value):.{places}f}"


def delta_text(name: str, epsilon: float | str, delta: float | str) -> str:
    """The delta beside an epsilon: none where nothing is guaranteed, 0 for the local guarantee."""
    if epsilon == UNBOUNDED:
        return ""
    found = adversary(name)
    return "0" if found is not None and found.pure else delta_form(delta)


def estimate_bar(
    estimate: float, stderr: float, top: float, truth: float | None = None, width: int = BAR_WIDTH
) -> Text:
    """An estimate with its 95 % interval (and the truth, where it is known) on a line of ``width`` cells; ``top`` is
    the right end."""

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
