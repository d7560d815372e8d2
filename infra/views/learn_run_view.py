"""Shows where a training run is: a row for each round that is over, and a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from infra.views.terminal import span
from tacit.extras import require_extra

if TYPE_CHECKING:
    from tacit.logview.live import LiveSeries
    from tacit.operations.learning.documents import Row

HEADER: Final = f"{'round':>5}  {'contributions':>13}  {'loss':>7}  {'accuracy':>8}  reports"

PICTURES: Final = ("png", "svg")
"""The forms of pictures, as files end."""


def line_of(row: Row) -> Text:
    """A round of a run, for a person."""
    interval = row.recipe.interval
    missing = "not yet" if row.waits else "none"
    number = missing if row.contributions is None else f"{row.contributions:,}"
    loss = "-" if row.loss is None else f"{row.loss:.3f}"
    accuracy = "-" if row.accuracy is None else f"{row.accuracy:.1%}"
    words = f"{row.index:>5}  {number:>13}  {loss:>7}  {accuracy:>8}  {span(interval.start, interval.end)}"
    return Text(f"{words}  no release: {row.passed_over}" if row.passed_over else words)


def show_run(series: LiveSeries, console: Console) -> None:
    """Print which run it is, above its rows."""
    own = series.series
    words = f"{own.name}: {own.rounds} rounds, {span(own.interval.start, own.interval.end)}, entry {series.index}"
    console.print(Text(words, style="bold"), soft_wrap=True)
    console.print(Text(HEADER, style="bold"), soft_wrap=True)


def drawn(rows: Sequence[Row], form: str) -> bytes:
    """The picture of loss and accuracy by round, of the rows that have both; ``form``: one of ``PICTURES``."""
    require_extra("the picture", "figures", "matplotlib")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    tried = [(row.index + 1, row.loss, row.accuracy) for row in rows if row.loss is not None]
    canvas, written = Figure(figsize=(6.4, 4.4), layout="constrained"), io.BytesIO()
    place = canvas.subplots()
    beside = place.twinx()
    rounds = [index for index, *_ in tried]
    place.plot(rounds, [accuracy or 0.0 for *_, accuracy in tried], color="#2b8a3e", marker="o", label="accuracy")
    beside.plot(rounds, [loss for _, loss, _ in tried], color="#1c7ed6", marker="s", label="loss")
    place.xaxis.set_major_locator(MaxNLocator(integer=True))
    place.set(xlabel="rounds", ylabel="accuracy")
    beside.set(ylabel="loss (nats)")
    place.grid(visible=True, linewidth=0.4, alpha=0.5)
    canvas.legend(frameon=False, loc="outside upper center", ncols=2)
    canvas.savefig(written, dpi=130, format=form)
    return written.getvalue()
