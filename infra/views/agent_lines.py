"""What ``tacit agent run`` prints in a terminal: one short line per event, shared by agents that report the same; and a
device's journal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from client_agent.journal import Entry, Fact
from client_agent.runner import OVER
from infra.views.terminal import STYLES, answers, plain_table, style_word
from tacit.counting_words import plural
from tacit.ports import Clock
from tacit.time_format import format_utc

GATHER_SECONDS = 1.0
"""For how long identical events of several agents are gathered into one line."""
NAMED = 4
"""A line names at most this many agents; above that, it gives their number."""
HEALTH_PROBLEMS = {
    Fact.LOG_TROUBLE.value: ("the log is", "not read"),
    Fact.SOURCE_TROUBLE.value: ("the data source is", "not read"),
    Fact.TOKEN_TROUBLE.value: ("fetching tokens is", "in trouble"),
    Fact.MODEL_TROUBLE.value: ("the models of rounds are", "not all here"),
    Fact.STATE_TROUBLE.value: ("keeping the state of watched events is", "in trouble"),
}

Fields = Mapping[str, str | int | float]


class AgentLines:
    """Gathers the events of ``agents`` agents and writes them to ``console``. Routine events (reading the log, fetching
    tokens) are left out, except for the first successful read of the log; ``--json`` shows them all."""

    def __init__(self, agents: int, console: Console, clock: Clock) -> None:
        self._agents, self._console, self._clock = agents, console, clock
        self._gathered: dict[tuple[str, str], set[int]] = {}
        self._read = False

    def tell(self, agent: int, event: str, fields: Fields) -> None:
        """Add one event of ``client_agent.runner.Watch``; ``agent`` is the agent's place on the command line."""
        if event == "slots":
            return
        if event == "log-read":
            if not self._read:
                self._read = True
                self._write(Text(f"the log can be read: {fields['entries']} entries"))
            return
        self._gathered.setdefault((event, _words(event, fields)), set()).add(agent)

    def started(self) -> None:
        """Print that all agents are at work, and how to stop them."""
        work = "1 agent is at work" if self._agents == 1 else f"{self._agents} agents are at work"
        self._write(Text(f"{work}; Ctrl-C stops {'it' if self._agents == 1 else 'them'}"))

    def stopped(self) -> None:
        """Write what is still gathered, and print that the run is over."""
        self.flush()
        self._write(Text("stopped"))

    def flush(self) -> None:
        """Write what was gathered, in the order in which each event first came."""
        gathered, self._gathered = self._gathered, {}
        for (event, words), agents in gathered.items():
            style = "yellow" if event in HEALTH_PROBLEMS else STYLES.get(event, "")
            self._write(Text.assemble((words, style), (self._whose(agents), "dim")))

    @contextlib.asynccontextmanager
    async def flushed(self) -> AsyncIterator[None]:
        """Write every ``GATHER_SECONDS`` while the block runs, and once when it ends."""

        async def often() -> None:
            while True:
                await self._clock.sleep(GATHER_SECONDS)
                self.flush()

        task = asyncio.ensure_future(often())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self.flush()

    def _whose(self, agents: set[int]) -> str:
        if self._agents == 1:
            return ""
        if len(agents) > NAMED:
            return f"  {len(agents)} of {self._agents} agents"
        return f"  agent{'s' if len(agents) > 1 else ''} {', '.join(map(str, sorted(agents)))}"

    def _write(self, line: Text) -> None:
        time = format_utc(self._clock.now()).split()[1]
        with contextlib.suppress(OSError):  # a closed terminal must not stop an agent
            self._console.print(Text.assemble((f"{time} ", "dim"), line))


def _words(event: str, fields: Fields) -> str:
    detail = "".join(char if char.isprintable() else " " for char in str(fields.get("detail", "")))
    if event in HEALTH_PROBLEMS:
        subject, trouble = HEALTH_PROBLEMS[event]
        return f"{subject} {'again without trouble' if detail == OVER else f'{trouble}: {detail}'}"
    tries = fields.get("attempts", 0)
    after = f" after {tries} tries" if isinstance(tries, int) and tries > 1 else ""
    words = f"{fields.get('recipe', '')}: {event.replace('-', ' ')}{after}".removeprefix(": ")
    return f"{words} ({detail})" if detail else words


def show_journal(document: dict[str, Any], entries: list[Entry]) -> None:
    """Print the journal ``entries``, and what ``document`` says of the device."""
    console = answers()
    table = plain_table("recipe", "decided", "decision", "ε charged", "tries", "detail")
    for entry in entries:
        table.add_row(
            Text(entry.name, style="bold"),
            format_utc(entry.decided_at),
            style_word(entry.state.value),
            entry.charged_epsilon or "0",
            str(entry.attempts),
            Text(_detail(entry)),
        )
    budget, slots = document["budget"], document["slots"]
    caption = Text(
        f"ε {budget['charged']} of {budget['epsilon']} (δ {budget['delta']}) charged in "
        f"{plural(budget['days'], 'day')}, "
        f"with the relay {budget['charged_with_relay']} of {budget['epsilon_with_relay']} · "
        f"tokens held for {slots['held']} of {slots['known']} slots · log of {document['log']['entries']} entries",
        style="dim",
    )
    body = table if entries else Text("nothing was decided yet")
    console.print(Panel(Group(body, caption), title="[bold]This device's journal", title_align="left"))
    if document["log"]["failure"]:
        said = f"{document['log']['failure']}\nThis device does not trust the log any more and does nothing."
        console.print(Panel(Text(said), title="[bold red]The log failed", title_align="left"))
    for name, trouble in document["troubles"].items():
        if name == Fact.LOG_TROUBLE.value and document["log"]["failure"]:
            continue
        console.print(Text(f"{name} since {format_utc(trouble['since'])}: {trouble['detail']}", style="yellow"))


def _detail(entry: Entry) -> str:
    if entry.state.value == "scheduled" and not entry.attempts:
        return f"will be sent at {format_utc(entry.send_at)}"
    return entry.detail
