"""Shows where a training run is: a row for each round that is over, what is waited for, and a picture."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from infra.views.terminal import BAR_WIDTH, span
from tacit.counting_words import plural
from tacit.extras import require_extra

if TYPE_CHECKING:
    from tacit.logview.live import LiveSeries
    from tacit.operations.learning.documents import Row
    from tacit.operations.learning.run import Waiting

HEADER: Final = f"{'round':>5}  {'contributions':>13}  {'loss':>7}  {'accuracy':>8}  reports"

PICTURES: Final = ("png", "svg")
"""The forms of pictures, as files end."""


def line_of(row: Row) -> Text:
    """One line of a round: number, contributions, loss, accuracy (both "-" until they are measured), and time."""
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
    rounds = plural(own.rounds, "round")
    words = f"{own.name}: {rounds}, {span(own.interval.start, own.interval.end)}, entry {series.index}"
    console.print(Text(words, style="bold"), soft_wrap=True)
    console.print(Text(HEADER, style="bold"), soft_wrap=True)


@contextmanager
def show_waiting(console: Console, now: Callable[[], float], waiting: Waiting) -> Iterator[None]:
    """While something is waited for: what, a bar of the time that is over, and how much is left. Only on a terminal.
    ``now``: POSIX seconds."""
    if not console.is_terminal:
        yield
        return
    with Live(get_renderable=lambda: waiting_line(waiting, now()), console=console, transient=True):
        yield


def waiting_line(waiting: Waiting, now: float) -> Group:
    """The words, and below them bar and time left at ``now`` (POSIX seconds); beyond the end, how long it goes on."""
    line = Table.grid(padding=(0, 1))
    over, whole = min(max(now - waiting.start, 0.0), waiting.end - waiting.start), waiting.end - waiting.start
    left, word = (waiting.end - now, "left") if now < waiting.end else (waiting.last - now, "more at most")
    bar = ProgressBar(total=max(whole, 1.0), completed=over if whole > 0 else 1.0, width=BAR_WIDTH)
    line.add_row(bar, Text(f"{timedelta(seconds=math.ceil(max(left, 0.0)))} {word}", style="dim"))
    return Group(Text(waiting.words), line)


def draw_progress(rows: Sequence[Row], form: str) -> bytes:
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
