"""The demo in the terminal: progress per stage, then the answer, its price, who saw what, what was refused.

Progress goes to stderr, the answer to stdout, so that a pipe gets the answer alone.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from infra.lab.demo.results.learn_result import LearnResult
from infra.lab.demo.results.learn_view import learned
from infra.lab.demo.results.result import DemoResult
from infra.lab.demo.results.search_result import ROUND_HEADINGS, ROUNDS_TITLE, SearchResult
from infra.lab.demo.results.watched_result import INTRUDER_TITLE, WatchedResult
from infra.views.answer_table import AnswerRow, answers_table
from infra.views.claim_words import adversary_text, delta_text, epsilon_text
from tacit.methods.figures import MARGIN

EVERY_SECONDS = 5.0
LEAST_SHARE = 0.02
"""Share of a stage that must be done before its remaining time is shown."""
Now = Callable[[], float]
Write = Callable[[str], object]


def to_stderr(line: str) -> None:
    """Write a line where remarks go, at once."""
    print(line, file=sys.stderr, flush=True)


@dataclass
class _Line:
    """One stage: how much of it is done, and since when it runs."""

    name: str
    total: int
    began: float
    done: int = 0


class Lines:
    """Tells of the newest stage that is not over, every ``EVERY_SECONDS`` and when it is."""

    def __init__(self, write: Write = to_stderr, now: Now = time.monotonic) -> None:
        self._write = write
        self._now = now
        self._open: list[_Line] = []
        self._told = now()

    def begin(self, name: str, total: int) -> _Line:
        line = _Line(name, total, self._now())
        self._open.append(line)
        return line

    def advance(self, line: _Line, parts: int) -> None:
        """Count that many more parts as done."""
        line.done = min(line.total, line.done + parts)

    def end(self, line: _Line) -> None:
        """The stage is over; it is told of in any case."""
        self._open.remove(line)
        self._told = self._now()
        self._write(f"{line.name}: done in {self._told - line.began:.0f} s")

    def tell(self) -> None:
        """Write how far the newest stage is, at most every ``EVERY_SECONDS``."""
        now = self._now()
        if self._open and now - self._told >= EVERY_SECONDS:
            self._told = now
            self._write(_words(self._open[-1], now))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Tell of what is open while the block runs, also where it lets nothing else run."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(EVERY_SECONDS / 5):
                self.tell()

        teller = threading.Thread(target=run, name="progress", daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()


def _words(line: _Line, now: float) -> str:
    share, spent = line.done / line.total, now - line.began
    said = f"{line.name}: {100 * share:.0f} % of {line.total:,}, {spent:.0f} s"
    if share < LEAST_SHARE:
        return said
    return f"{said}, about {spent * (1 - share) / share:.0f} s left"


REFRESHES = 4
"""Of the bars, in a second: each costs a slow machine some milliseconds."""
WIDE = 110
"""Cells of a terminal from which on more bytes of a state are shown."""


class Stages:
    """The stages of a run. In a terminal a bar for each, with what is left of its time and then what it took; into a
    file or pipe a plain line every few seconds."""

    def __init__(self, console: Console, lines: Lines | None = None) -> None:
        """``lines``: where plain lines go (default: stderr, unless ``console`` is quiet)."""
        self._shown = console.is_terminal or console.quiet
        self._lines = lines or Lines()
        self._names: list[str] = []
        self._passing = False
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<44}", markup=False),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            refresh_per_second=REFRESHES,
            transient=False,
        )

    @property
    def current(self) -> str:
        """The newest stage that is not over, or the one in which the run ended; empty before the first."""
        return self._names[-1] if self._names else ""

    @contextmanager
    def running(self) -> Iterator[Stages]:
        """Show the stages while the block runs."""
        with self._progress if self._shown else self._lines.telling():
            yield self

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Tick]:
        """A stage of ``total`` steps; full when the block ends without an error."""
        total = max(total, 1)
        self._names.append(name)
        if not self._shown:
            line = self._lines.begin(name, total)
            yield lambda steps=1: self._lines.advance(line, steps)
            self._lines.end(line)
        else:
            task = self._progress.add_task(name, total=total)
            yield lambda steps=1: self._progress.advance(task, steps)
            self._progress.update(task, completed=total, visible=not self._passing)
        self._names.remove(name)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Stages that begin and end inside the block are not shown any more when they are over."""
        self._passing = True
        yield
        self._passing = False


class Tick(Protocol):
    """Callback that advances the progress of a stage."""

    def __call__(self, steps: int = 1, /) -> None:
        """Count ``steps`` more steps as done."""
        ...


def show(result: DemoResult, console: Console, outputs: list[str]) -> None:
    console.print()
    console.print(learned(result, console.width) if isinstance(result, LearnResult) else _chart(result, console.width))
    if isinstance(result, WatchedResult):
        console.print(_intruder(result, console.width))
    if isinstance(result, SearchResult):
        console.print(_rounds(result))
    if result.found_words:
        console.print(Text(result.found_words))
    console.print(_price(result))
    console.print(_sightings(result))
    console.print(_refusals(result))
    console.print(_next_steps(outputs, result.flags))


def _intruder(result: WatchedResult, width: int) -> Panel:
    shown = 16 if width >= WIDE else 8
    files = Table(box=None, pad_edge=False, padding=(0, 1))
    files.add_column("the state file", style="bold", no_wrap=True)
    files.add_column("bytes", justify="right")
    files.add_column("state before", style="cyan", no_wrap=True)
    files.add_column("state after", style="cyan", no_wrap=True)
    for look in result.looks:
        before, after = (f"{state[:shown].hex()}…" for state in (look.before, look.after))
        files.add_row(look.words, " → ".join(f"{size:,}" for size in look.sizes), before, after)
    guesses = Table(box=None, pad_edge=False, padding=(0, 1))
    guesses.add_column("attacker", style="bold")
    guesses.add_column("right guesses", justify="right")
    guesses.add_column("advantage", justify="right")
    for one in result.intruder.attackers:
        guesses.add_row(one.name, f"{one.right:,} of {one.guesses:,}", f"{one.advantage:.2f}")
    verdict = result.verdict
    said = Text(verdict.words, style="bold red" if verdict.found else "bold green")
    body = Group(files, Text(), guesses, said, Text(verdict.bound_words), Text(result.game_words, style="dim"))
    return Panel(body, title=f"[bold]{INTRUDER_TITLE}")


def _rounds(result: SearchResult) -> Panel:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    *numbers, best = ROUND_HEADINGS
    for heading in numbers:
        table.add_column(heading, justify="right")
    table.add_column(best, style="bold")
    for one in result.rounds:
        table.add_row(*map(Text, one.cells))
    return Panel(table, title=f"[bold]{ROUNDS_TITLE}")


def _chart(result: DemoResult, width: int) -> Panel:
    answers = [
        AnswerRow(
            one.label,
            one.estimate,
            one.stderr,
            one.numbers,
            one.truth,
        )
        for one in result.buckets
    ]
    headings = ("estimate", MARGIN, "truth")
    table = answers_table(answers, "━ estimate  ╌ 95 % interval  ┃ truth", headings, width)
    caption = Text(
        f"{_period(result)}{result.devices:,} devices asked · {result.sampled:,} drawn by their own coin · "
        f"{result.accepted:,} contributions counted · {result.rejected:,} rejected"
        + (f" · {result.staged} devices beside them, for the attacks" if result.staged else ""),
        style="dim",
    )
    warned = [Text(f"warning: {words}", style="bold yellow") for words in result.warnings]
    return Panel(
        Group(table, *warned, caption), title=Text(result.question, style="bold"), subtitle=Text(result.source)
    )


def _period(result: DemoResult) -> str:
    if not isinstance(result, WatchedResult):
        return ""
    return f"{result.events:,} events in {result.steps:,} step{'s' if result.steps > 1 else ''} · "


def _price(result: DemoResult) -> Panel:
    privacy = result.privacy
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("who might look at your contribution", style="bold")
    table.add_column("ε", justify="right")
    table.add_column("δ", justify="right", style="dim")
    for key, value in privacy["by_adversary"].items():
        table.add_row(adversary_text(key, privacy["n"]), epsilon_text(value), delta_text(key, value, privacy["delta"]))
    caption = Text(
        f"{privacy['mechanism']}, {privacy['relation']} neighbours, at n = {privacy['n']:,} contributions; "
        f"each device adds ε₀ = {epsilon_text(privacy['epsilon0'], 3)} itself",
        style="dim",
    )
    return Panel(Group(table, caption), title="[bold]What it costs in privacy")


def _sightings(result: DemoResult) -> Panel:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("party", style="bold")
    table.add_column("operator", style="dim")
    table.add_column("could read")
    table.add_column("never", style="dim")
    for sighting in result.sightings:
        table.add_row(*map(Text, (sighting.party, sighting.operator, sighting.text(), sighting.never)))
    return Panel(table, title="[bold]What each party saw of one contribution")


def _refusals(result: DemoResult) -> Panel:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("tried", style="bold")
    table.add_column("refused by", style="red")
    table.add_column("because")
    for refusal in result.refusals:
        table.add_row(*map(Text, (refusal.attempt, refusal.refused_by, refusal.reason)))
    return Panel(table, title="[bold]What was tried and refused")


def _next_steps(outputs: list[str], flags: str) -> Panel:
    tacit = ".venv/bin/tacit" if Path(".venv/bin/tacit").exists() else "tacit"
    lines = [
        f"[bold]{tacit} demo {flags}--input FILE.csv --column NAME[/]   your own data, one row a device",
        f"[bold]{tacit} up[/]   the parties as processes; then, in a second terminal, "
        f"[bold]{tacit} agent host .tacit/agents[/]",
        f"[bold]{tacit} recipe new[/]   ask a question of your own",
    ]
    if outputs:
        lines.append(f"[dim]written: {escape(', '.join(outputs))}[/]")
    return Panel(Text.from_markup("\n".join(lines), emoji=False), title="[bold]Next")
