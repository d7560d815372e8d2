"""The demo in the terminal: progress per stage, then the answer, its price, who saw what, what was refused.

Progress goes to stderr, the answer to stdout, so that a pipe gets the answer alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from infra.answer_table import AnswerRow, answers_table
from infra.lab.demo.result import DemoResult
from infra.lab.demo.watched_result import INTRUDER_TITLE, WatchedResult
from infra.terminal import adversary_text, delta_text, epsilon_text

WIDE = 110
"""Cells of a terminal from which on more bytes of a state are shown."""


class Stages:
    """One progress bar per stage of the run: what is left of its time, then what it took."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<44}", markup=False),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            transient=False,
        )

    @contextmanager
    def running(self) -> Iterator[Stages]:
        """Show the bars while the block runs."""
        with self._progress:
            yield self

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Tick]:
        """A bar of ``total`` steps; full when the block ends without an error."""
        task = self._progress.add_task(name, total=max(total, 1))
        yield Tick(self._progress, task)
        self._progress.update(task, completed=max(total, 1))


class Tick:
    """Advances one bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def __call__(self, steps: int = 1) -> None:
        self._progress.advance(self._task, steps)


def show(result: DemoResult, console: Console, outputs: list[str]) -> None:
    """Print the whole result."""
    console.print()
    console.print(_chart(result, console.width))
    console.print(_price(result))
    console.print(_sightings(result))
    console.print(_refusals(result))
    console.print(_next_steps(outputs))


def show_watched(result: WatchedResult, console: Console, outputs: list[str]) -> None:
    """The same for devices that watch an event, and what an intruder on them learns."""
    console.print()
    console.print(_chart(result, console.width))
    console.print(_intruder(result, console.width))
    console.print(_price(result))
    console.print(_sightings(result))
    console.print(_refusals(result))
    console.print(_next_steps(outputs, f"--model {result.recipe['model']} "))


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
    guesses.add_column("advantage", justify="right")
    for one in result.intruder.attackers:
        guesses.add_row(one.name, f"{one.advantage:.2f} ± {one.stderr:.2f}")
    best = Text.assemble(
        "the best guess: ", (f"{result.verdict}: {result.best.advantage:.2f} ± {result.best.stderr:.2f}", "bold green")
    )
    body = Group(files, Text(), guesses, best, Text(result.game_words, style="dim"))
    return Panel(body, title=f"[bold]{INTRUDER_TITLE}")


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
    headings = ("estimate", "± 1.96 s.e.", "truth")
    table = answers_table(answers, "━ estimate  ╌ 95 % interval  ┃ truth", headings, width)
    caption = Text(
        f"{_period(result)}{result.devices:,} devices asked · {result.sampled:,} drawn by their own coin · "
        f"{result.accepted:,} contributions counted · {result.rejected:,} rejected",
        style="dim",
    )
    return Panel(Group(table, caption), title=Text(result.question, style="bold"), subtitle=Text(result.source))


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
        table.add_row(sighting.party, sighting.operator, sighting.text(), sighting.never)
    return Panel(table, title="[bold]What each party saw of one contribution")


def _refusals(result: DemoResult) -> Panel:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("tried", style="bold")
    table.add_column("refused by", style="red")
    table.add_column("because")
    for refusal in result.refusals:
        table.add_row(refusal.attempt, refusal.refused_by, refusal.reason)
    return Panel(table, title="[bold]What was tried and refused")


def _next_steps(outputs: list[str], flags: str = "") -> Panel:
    lines = [
        f"[bold].venv/bin/tacit demo {flags}--input FILE.csv --column NAME[/]   your own data, one row a device",
        "[bold].venv/bin/tacit up[/]   the parties as processes; then, in a second terminal, "
        "[bold].venv/bin/tacit agent run --config .tacit/agents/0/agent.json[/]",
        "[bold].venv/bin/tacit recipe new[/]   ask a question of your own",
    ]
    if outputs:
        lines.append(f"[dim]written: {escape(', '.join(outputs))}[/]")
    return Panel(Text.from_markup("\n".join(lines), emoji=False), title="[bold]Next")
