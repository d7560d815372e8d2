"""Prints a report on a log for a person, and progress bars while the log is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from infra.base.log_watch import LogReport
from infra.views.plain import visible
from infra.views.terminal import plain_table
from tacit.codec import b64url
from tacit.counting_words import plural
from tacit.logview.whole import Tick
from tacit.monitor.findings import Finding
from tacit.time_format import format_utc

FEW = 2000
"""Number of pieces below which a bar would only flicker."""


class Bars:
    """Progress bars, one for each long piece of work, that disappear when it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Tick]:
        """Show a bar that grows with each tick, unless there are fewer than ``FEW`` pieces or no terminal."""
        if total < FEW or not self._console.is_terminal:
            yield lambda _pieces: None
            return
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        ) as progress:
            task = progress.add_task(name, total=total)
            yield lambda pieces: progress.advance(task, pieces)


def show_report(report: LogReport, console: Console) -> None:
    """Print the log's head, the checks that passed, and every finding."""
    facts = plain_table("", "")
    for name, value in (
        ("log", report.origin),
        ("entries", f"{report.size:,}"),
        ("root", b64url(report.root)),
        ("read", format_utc(report.at)),
    ):
        facts.add_row(Text(name, style="dim"), value)
    for one in report.witnesses:
        said = "no cosignature" if one.age is None else f"cosigned {max(one.age, 0)} s ago"
        facts.add_row(Text("witness", style="dim"), f"{one.witness}: {said}")
    console.print(facts)
    console.print()
    for line in report.passed:
        console.print(Text.assemble(("✓ ", "green"), line))
    if report.findings:
        console.print()
        console.print(_findings(report.findings))
    console.print()
    count = len(report.findings)
    words = Text("nothing found", style="green") if not count else Text(plural(count, "finding"), style="bold red")
    console.print(words)


def _findings(findings: list[Finding]) -> Table:
    table = plain_table()
    table.add_column("finding", style="red", no_wrap=True)
    table.add_column("leaf", justify="right", no_wrap=True)
    table.add_column("what", overflow="fold")
    for one in findings:
        table.add_row(one.kind, "" if one.index is None else str(one.index), Text(visible(one.what)))
    return table
