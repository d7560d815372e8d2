"""The live view of a fleet on the terminal: stage, sent, acknowledged, rate, latency, problems by cause. Where there is
no terminal, a line for each stage."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from infra.lab.devices.metrics import Snapshot, merged

WINDOW_SECONDS = 3.0
CAUSES_SHOWN = 6
COLUMNS = 4
STAGES = {
    "": "starting the workers",
    "decide": "coins, randomised answers, journal",
    "tokens": "tokens of the sampled devices",
    "build": "shares, proofs, seals",
    "wait": "waiting for the recipe's interval",
    "send": "contributions through the relay",
}


class FleetView:
    """Draws snapshots; ``look`` is called with the latest snapshot of every worker. ``live`` is None where there is no
    terminal: then ``console`` gets a line for each stage."""

    def __init__(self, live: Live | None, console: Console | None = None) -> None:
        self._live = live
        self._console = console
        self._seen: list[tuple[float, int]] = []
        self._stage = ""

    def look(self, snapshots: Sequence[Snapshot]) -> None:
        """Show the workers' snapshots together; without a terminal, only each new stage."""
        now_at = merged(snapshots)
        if self._live is not None:
            self._live.update(self.render(now_at, time.monotonic()))
        elif now_at.stage != self._stage:
            self._stage = now_at.stage
            self.say(STAGES.get(now_at.stage, now_at.stage))

    def say(self, text: str) -> None:
        """Show what is being done or waited for, outside the workers."""
        if self._live is not None:
            self._live.update(Text(text, style="bold"))
        elif self._console is not None:
            self._console.print(text)

    def render(self, now_at: Snapshot, moment: float) -> RenderableType:
        """The live view as of ``moment`` (seconds of a monotonic clock)."""
        self._seen = [seen for seen in self._seen if moment - seen[0] <= WINDOW_SECONDS]
        self._seen.append((moment, now_at.acknowledged))
        since, before = self._seen[0]
        rate = (now_at.acknowledged - before) / (moment - since) if moment > since else 0.0
        table = Table.grid(padding=(0, 4))
        figures = [_figure(name, value) for name, value in _figures(now_at, rate)]
        for at in range(0, len(figures), COLUMNS):
            table.add_row(*figures[at : at + COLUMNS])
        parts: list[RenderableType] = [Text(STAGES.get(now_at.stage, now_at.stage), style="bold")]
        if now_at.due:
            parts.append(ProgressBar(total=now_at.due, completed=now_at.acknowledged, width=72))
        parts.append(table)
        for cause, count in now_at.causes.most_common(CAUSES_SHOWN):
            parts.append(Text(f"  {count:>8,}  {cause}", style="yellow"))
        return Group(*parts)


def _figures(at: Snapshot, rate: float) -> list[tuple[str, str]]:
    return [
        ("due", f"{at.due:,}"),
        ("tokens", f"{at.tokens:,}"),
        ("started", f"{at.started:,}"),
        ("acknowledged", f"{at.acknowledged:,}"),
        ("per second", f"{rate:,.0f}"),
        ("p50", f"{1000 * at.percentile(0.5):,.1f} ms"),
        ("p99", f"{1000 * at.percentile(0.99):,.1f} ms"),
        ("in flight", f"{at.in_flight:,}"),
    ]


def _figure(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold"), no_wrap=True)


@contextlib.contextmanager
def showing(console: Console) -> Iterator[FleetView]:
    """A view on ``console`` while the block runs: live if it is a terminal, otherwise in lines."""
    if not console.is_terminal:
        yield FleetView(None, console)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield FleetView(live)
