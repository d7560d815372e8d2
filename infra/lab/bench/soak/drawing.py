"""A soak on the terminal, a curve and a verdict a line, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from infra.lab.bench.soak.report import BYTES, Series, costs, memory, sizes
from infra.lab.bench.soak.run import Soak
from infra.lab.bench.soak.trends import Verdict
from infra.views.terminal import curve, plain_table
from tacit.adapters.disk.files import replacing

CELLS = 32
"""Width of a drawn curve in terminal cells."""


def table(found: Soak, judgements: Sequence[Verdict]) -> Table:
    """The curve of every series over the run from 0, with its first and last value, and what was judged of it."""
    by_subject = {one.subject: one for one in judgements}
    made = plain_table("over the run", "", "first", "last", "growth", "verdict")
    made.columns[1].min_width = CELLS
    for column in made.columns:
        column.no_wrap = True
    for column in made.columns[2:5]:
        column.justify = "right"
    for one in [*costs(found), *memory(found), *sizes(found)]:
        verdict = by_subject.pop(one.subject, None)
        ends = [shown(value, one.unit) for value in (one.values[0], one.values[-1])]
        made.add_row(one.subject, Text(curve(one.values, CELLS), style="cyan"), *ends, *_words(verdict))
    for verdict in by_subject.values():
        ends = [shown(value, verdict.unit) for value in (verdict.first, verdict.last)]
        made.add_row(verdict.subject, "", *ends, *_words(verdict))
    return made


def shown(value: float, unit: str) -> str:
    """``value`` with a unit for people: bytes as MiB, else microseconds."""
    return f"{value / 2**20:,.1f} MiB" if unit == BYTES else f"{value:,.0f} µs"


def _words(verdict: Verdict | None) -> tuple[str, Text]:
    if verdict is None:
        return "", Text("")
    if verdict.growth is None:
        return "", Text("too few samples", style="yellow")
    limit = f"{verdict.tolerance:.0%}" + (f" or {shown(verdict.least, verdict.unit)}" if verdict.least else "")
    words = f"{'constant' if verdict.holds else 'grows'} (at most {limit})"
    return f"{verdict.growth:+.1%}", Text(words, style="green" if verdict.holds else "red")


def write(found: Soak, path: Path) -> None:
    """Draw cost, memory and databases over the contributions sent; dotted lines are releases. Raises ``OSError``, or
    ``ValueError`` for a kind of file that is not known."""
    from matplotlib.figure import Figure as Canvas

    panels: list[tuple[str, list[Series], float]] = [
        ("CPU time, µs per contribution", costs(found), 1.0),
        ("memory of one's own, MiB", memory(found), 2.0**20),
        ("databases, MiB", sizes(found), 2.0**20),
    ]
    canvas = Canvas(figsize=(5.6 * len(panels), 5.2), layout="constrained")
    places = canvas.subplots(1, len(panels), squeeze=False)[0]
    for place, (title, series, unit) in zip(places, panels, strict=True):
        for one in series:
            place.plot(one.places, [value / unit for value in one.values], label=one.subject)
        for sample in found.samples:
            if sample.released:
                place.axvline(sample.sent, linestyle=":", linewidth=0.8, color="grey")
        place.set(title=title, xlabel="contributions", ylim=(0, None))
        place.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)
        place.legend(frameon=False, fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    with replacing(path) as draft:
        canvas.savefig(draft, dpi=130)
