"""Records what an intruder sees of a whole device, from the first step to the answer.

That is every byte in the agent's folder (the journal's database with its write-ahead log and free pages, states, locks,
the socket and its folder), what is in memory, and which files were written or read between two looks. The agent is the
product's own, and applications report events through its socket. Devices live one after the other, or side by side
where times are judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from client_agent.agent import Agent
from client_agent.cached_store import RememberedStore
from client_agent.journal import Fact, Trouble
from client_agent.panprivate.listening import listening, tell
from client_agent.panprivate.state_files import FOLDER
from client_agent.panprivate.watches import Watches
from infra.lab.intruder.attackers import ATTACKERS, Attacker, BestFeature
from infra.lab.intruder.traces import ONCE, CountedEntropy, Moment, Moments, SeenDisk, Trace, mark_unread
from infra.lab.kit.clock import SimClock
from tacit.recipe.derive import is_watched
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Recipe


@dataclass(frozen=True)
class Home:
    """A device at the beginning of its recipe's first step: an agent that has read the log, and its folder. The agent
    draws from ``entropy`` and writes states to ``disk``."""

    agent: Agent
    store: RememberedStore
    folder: Path
    recipe: Recipe
    clock: SimClock
    entropy: CountedEntropy
    disk: SeenDisk


Leak = Callable[[Home], Awaitable[None]]
"""A planted mistake: what a device does in addition when the event happens."""


async def lived(
    homes: Sequence[tuple[Home, Sequence[int]]], leak: Leak | None = None, moments: Moments = ONCE
) -> list[Trace]:
    """Return the traces of devices that live side by side with one clock (``traces.TOGETHER`` says why): on each the
    event happens ``events[i]`` times in step i. They are followed up to the decision, and looked at once more after the
    report was sent. Raises ``ValueError`` for a recipe that watches no event."""
    async with contextlib.AsyncExitStack() as stack:
        for home, _ in homes:
            watches = cast(Watches, home.agent.watches)
            await stack.enter_async_context(listening(watches, home.folder, _no_trouble))
        lives = [_Life(home, _step_seconds(home), events, leak) for home, events in homes]
        await _live(lives, Moment.TOLD in moments, Moment.STEP in moments)
    return [life.trace for life in lives]


def _step_seconds(home: Home) -> int:
    asked = home.recipe.question.encoder
    if not is_watched(home.recipe) or not isinstance(asked, Occurrences):
        raise ValueError("the recipe does not watch an event")
    return asked.step_seconds


def _no_trouble(words: str) -> None:
    raise ValueError(words)


async def _live(lives: Sequence[_Life], told: bool, at_step: bool) -> None:
    """Devices act one after the other, and are looked at once all have: what one does to the files of another, such as
    closing its journal because too many are open, is seen."""
    for life in lives:
        await life.begin()
    for life in lives:
        life.look_first(at_step)
    for step in range(lives[0].steps):
        for life in lives:
            await life.happen(step, told)
        for life in lives:
            life.tick()
        lives[0].jump_to_end_of_step()
        for life in lives:
            life.end_step()
        for life in lives:
            await life.consider()
        for life in lives:
            life.look(at_step)
    lives[0].jump_to_end_of_interval()
    for life in lives:
        await life.send()
    for life in lives:
        life.look_last()


class _Life:
    """One device with a whole agent, its events by step, and the trace that the intruder has of it."""

    def __init__(self, home: Home, step_seconds: int, events: Sequence[int], leak: Leak | None) -> None:
        self._home, self._step_seconds, self._events, self._leak = home, step_seconds, events, leak
        self._intruder, self.trace = _Intruder(home), Trace()
        self._touched: tuple[tuple[float, int, int], ...] = ()

    @property
    def steps(self) -> int:
        return len(self._events)

    async def begin(self) -> None:
        await self._home.agent.consider()

    def look_first(self, look: bool) -> None:
        self._intruder.note()
        if look:
            self._intruder.look(self.trace)

    async def happen(self, step: int, look: bool) -> None:
        """Report the event as often as it happens in the step, as an application does."""
        self._home.disk.writes, self._home.disk.syncs = [], 0
        for _ in range(self._events[step]):
            await asyncio.to_thread(tell, self._home.folder, self._home.recipe.question.metric, 1)
            if self._leak is not None:
                await self._leak(self._home)
        self._touched = self._intruder.look(self.trace) if look else ()

    def tick(self) -> None:
        self._home.agent.tick()

    def jump_to_end_of_step(self) -> None:
        self._home.clock.jump(self._step_seconds)

    def end_step(self) -> None:
        """Let the agent's clock tick at the end of a step, and note what that costs: CPU time, random bytes, and
        writes."""
        home, trace = self._home, self.trace
        home.entropy.drawn = 0
        start = time.thread_time_ns()
        home.agent.tick()
        trace.seconds.append((time.thread_time_ns() - start) / 1e9)
        trace.drawn.append(home.entropy.drawn)
        self._touched = (*home.disk.writes, *self._touched)
        trace.syncs.append(home.disk.syncs)

    async def consider(self) -> None:
        await self._home.agent.consider()

    def look(self, look: bool) -> None:
        touched = self._intruder.look(self.trace) if look else ()
        self.trace.writes.append(self._touched + touched)

    def jump_to_end_of_interval(self) -> None:
        self._home.clock.jump(max(0.0, self._home.recipe.interval.end - 1 - self._home.clock.now()))

    async def send(self) -> None:
        await self._home.agent.send_due()

    def look_last(self) -> None:
        self.trace.writes.append(self._intruder.look(self.trace))


class _Intruder:
    """Looks at a device's folder repeatedly."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._touched: dict[Path, tuple[int, int]] = {}

    def note(self) -> None:
        """Make later reads of all files visible. The socket's access time is kept, as it may itself reveal events."""
        found = self._found()
        for path in found:
            if not path.is_socket():
                mark_unread(path)
        self._touched = {path: _times(path) for path in found}

    def _found(self) -> list[Path]:
        return [self._home.folder, *sorted(self._home.folder.rglob("*"))]

    def look(self, trace: Trace) -> tuple[tuple[float, int, int], ...]:
        """Record everything; returns the files written since the last look, as (simulated time, place in the list of
        files, size in bytes)."""
        before = self._touched
        times = {path: _times(path) for path in before if path.exists()}
        found = self._found()
        contents = [path.read_bytes() if path.is_file() else b"" for path in found]
        names = [str(path.relative_to(self._home.folder)).encode() for path in found]
        trace.files.append(b"".join(part for pair in zip(names, contents, strict=True) for part in pair))
        trace.memories.append(self._home.agent.watches.state(self._home.recipe))
        trace.sizes.append(sum(map(len, contents)))
        trace.accessed.append(sum(times[path][1] != before[path][1] for path in times))
        written = {path for path in found if path not in before or _times(path)[0] != before[path][0]}
        self.note()
        now = self._home.clock.now()
        return tuple(
            (now, place, len(content))
            for place, (path, content) in enumerate(zip(found, contents, strict=True))
            if path in written
        )


def _times(path: Path) -> tuple[int, int]:
    """Return when ``path`` was last written and last read, in nanoseconds."""
    found = path.stat()
    return found.st_mtime_ns, found.st_atime_ns


def raw_files(trace: Trace) -> list[float]:
    """Return, for every look, the total size, how often the event's name occurs, and the number of writes."""
    named = [float(files.count(b"visit")) for files in trace.files]
    return [*map(float, trace.sizes), *named, *(float(len(step)) for step in trace.writes)]


WHOLE_ATTACKERS: Sequence[Attacker] = (*ATTACKERS, BestFeature("raw files", raw_files))


async def _notes(home: Home) -> None:
    """Write a note to the owner into the journal."""
    await home.store.keep({Fact.STATE_TROUBLE: Trouble(home.clock.now(), "visit").encode()})


async def _takes_back(home: Home) -> None:
    """Write the same note and remove it at once: the journal shows nothing, but its write-ahead log does."""
    before = await home.store.fact(Fact.STATE_TROUBLE)
    await _notes(home)
    await home.store.keep({Fact.STATE_TROUBLE: before})


async def _spools(home: Home) -> None:
    """Write the event to a file and remove the file: the folder's times change."""
    spool = home.folder / "events.spool"
    spool.write_text("visit\n", encoding="utf-8")
    spool.unlink()


async def _logs(home: Home) -> None:
    """Write a line to a log file."""
    with (home.folder / "agent.log").open("a", encoding="utf-8") as log:
        log.write("visit\n")


async def _reads(home: Home) -> None:
    """Read every file in the state folder."""
    for path in (home.folder / FOLDER).iterdir():
        path.read_bytes()


WHOLE_LEAKS: Mapping[str, Leak] = {
    "note in the journal": _notes,
    "note taken back": _takes_back,
    "event spooled": _spools,
    "event logged": _logs,
    "state read": _reads,
}
