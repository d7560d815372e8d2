"""``tacit agent host``: runs many devices in one process, and reports only their numbers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.adapters.system import SystemClock
from tacit.ports import Clock
from tacit.time_format import format_utc

if TYPE_CHECKING:
    from client_agent.host import AgentHost, Counts


def host(
    folder: Annotated[
        Path, typer.Argument(help="A folder with one folder for each device, which holds its agent.json.")
    ],
    every: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often to look for changes to report.")
    ] = 5.0,
    until: Annotated[
        float | None, typer.Option("--until", min=0.1, metavar="SECONDS", help="End after this many seconds.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines even in a terminal.")] = False,
) -> None:
    """Run the agent of every folder in FOLDER, hundreds in one process, until Ctrl-C; folders may come and go.

    Stderr shows how many devices are at work, failed or in trouble, and the entries of their journals by state,
    whenever that changes; and why an agent failed, before it is retried. Each device takes three file descriptors.
    Example: tacit agent host .tacit/agents
    """
    raise_limit()
    asyncio.run(_run(folder, every, until, as_json=as_json or not sys.stderr.isatty()))


async def _run(folder: Path, every: float, until: float | None, *, as_json: bool) -> None:
    from client_agent.host import AgentHost

    stop, clock, loop = asyncio.Event(), SystemClock(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until is not None:
        loop.call_later(until, stop.set)
    voice = _JsonVoice() if as_json else _WordVoice(clock)
    hosting = AgentHost(folder, clock, voice.failed)
    voice.started()
    telling = asyncio.ensure_future(_tell(hosting, voice, every))
    try:
        await hosting.run(stop)
    finally:
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling
    voice.stopped()


async def _tell(hosting: AgentHost, voice: _JsonVoice | _WordVoice, every: float) -> None:
    printed: Counts | None = None
    while True:
        counts = await hosting.counts()
        if counts != printed:
            voice.counts(counts)
            printed = counts
        await asyncio.sleep(every)


class _JsonVoice:
    """Reports every change as one JSON line."""

    def __init__(self) -> None:
        from tacit.service.base.log import get_logger

        self._log = get_logger("agent")

    def started(self) -> None:
        self._log.info("started")

    def failed(self, name: str, why: str) -> None:
        self._log.warning("failed", folder=name, detail=why)

    def counts(self, counts: Counts) -> None:
        self._log.info("counts", **dataclasses.asdict(counts))

    def stopped(self) -> None:
        self._log.info("stopped")


class _WordVoice:
    """Reports every change as a line of text."""

    def __init__(self, clock: Clock) -> None:
        from infra.views.terminal import notes

        self._clock, self._console = clock, notes()

    def started(self) -> None:
        self._write("starting the devices; Ctrl-C stops them all")

    def failed(self, name: str, why: str) -> None:
        self._write(f"{name}: {why}", "yellow")

    def counts(self, counts: Counts) -> None:
        self._write(words_of(counts))

    def stopped(self) -> None:
        self._write("stopped")

    def _write(self, line: str, style: str = "") -> None:
        from rich.text import Text

        printable = "".join(char if char.isprintable() else " " for char in line)
        with contextlib.suppress(OSError):  # a closed terminal must not stop an agent
            self._console.print(
                Text.assemble((f"{format_utc(self._clock.now()).split()[1]} ", "dim"), (printable, style))
            )


def words_of(counts: Counts) -> str:
    """Return the counts as one line of text."""
    parts = [f"{counts.working} of {counts.devices} devices at work"]
    for number, word in ((counts.changing, "starting or stopping"), (counts.failed, "failed")):
        if number:
            parts.append(f"{number} {word}")
    parts += [f"{number} with {name}" for name, number in sorted(counts.troubles.items())]
    parts.append(f"tokens held for {counts.slots_held} of {counts.slots_known} slots")
    parts += [f"{number} {state}" for state, number in sorted(counts.entries.items())]
    return " · ".join(parts)


def raise_limit() -> int:
    """Raise this process's soft limit on open files to the hard limit, for processes with many sockets and files;
    return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft
