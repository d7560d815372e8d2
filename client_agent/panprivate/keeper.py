"""The process that holds watches: it drives them by the clock, and takes events from applications by a local socket.

An application says ``record EVENT TIMES`` in one line and is answered ``ok`` in one, once the event is folded in. The
answer, what is logged and what is written are the same for events that count and for those after the last step.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from client_agent.panprivate.config import WatchingConfig
from client_agent.panprivate.watch import EventWatch
from tacit.adapters.folder_lock import alone_in
from tacit.errors import Fatal, UsageError
from tacit.panprivate.single_server import MAX_OCCURRENCES
from tacit.ports import Clock, Entropy

SOCKET, LOCK = "watch.sock", "watch.lock"
MAX_LINE = 128
PATIENCE_SECONDS = 10.0
OK, UNKNOWN, MALFORMED = "ok", "unknown event", "malformed"

Report = Callable[[str], None]
"""Told in a line what the owner should know; never about events."""


class Keeper:
    """Open watches and the events that they are for; one event may be watched for several recipes."""

    def __init__(self, watches: Sequence[tuple[str, EventWatch]], report: Report) -> None:
        self._watches, self._report = watches, report
        self._failing: set[Path] = set()

    def record(self, event: str, times: int) -> bool:
        """Fold the event in; whether anything watches it."""
        watches = [watch for name, watch in self._watches if name == event]
        for watch in watches:
            for _ in range(times):
                watch.record()
        return bool(watches)

    def tick(self) -> None:
        """Replace all state in memory, and write what has come to the end of a step. A disk that does not take it is
        told of once, and asked again at the next tick."""
        for _, watch in self._watches:
            try:
                watch.advance()
            except Fatal as error:
                if watch.path not in self._failing:
                    self._report(str(error))
                self._failing.add(watch.path)
            else:
                self._failing.discard(watch.path)


@contextlib.contextmanager
def opened_keeper(config: WatchingConfig, clock: Clock, entropy: Entropy, report: Report) -> Iterator[Keeper]:
    """The watches of ``config``, held by this process alone. One that cannot be opened is told of, the others go on;
    ``UsageError`` where there is no other, and where another process holds them."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(alone_in(config.state_dir, LOCK, "another process watches here"))
        watches, refused = [], []
        for watched in config.watches:
            try:
                watch = EventWatch.open(watched.plan, config.state_dir, clock.now, entropy)
            except UsageError as error:
                refused.append(error)
                continue
            stack.callback(watch.close)
            watches.append((watched.event, watch))
        if not watches:
            raise refused[0]
        for refusal in refused:
            report(str(refusal))
        yield Keeper(watches, report)


async def keep(keeper: Keeper, config: WatchingConfig, clock: Clock, stop: asyncio.Event) -> None:
    """Tick by the clock and answer applications until ``stop`` is set. Raises ``UsageError`` for a socket that cannot
    be made."""
    path = config.state_dir / SOCKET
    path.unlink(missing_ok=True)
    try:
        server = await asyncio.start_unix_server(lambda *pair: _answer(keeper, *pair), path, limit=MAX_LINE)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    path.chmod(0o600)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            keeper.tick()
            due = (math.floor(clock.now() / config.tick_seconds) + 1) * config.tick_seconds
            pause = asyncio.ensure_future(clock.sleep(due - clock.now()))
            await asyncio.wait({pause, stopped}, return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
    finally:
        stopped.cancel()
        server.close()
        path.unlink(missing_ok=True)


async def _answer(keeper: Keeper, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await reader.readline()
            writer.write(f"{_verdict(keeper, line)}\n".encode())
            await writer.drain()
    writer.close()


def _verdict(keeper: Keeper, line: bytes) -> str:
    word, _, rest = line.decode("ascii", "replace").rstrip("\n").partition(" ")
    event, _, times = rest.partition(" ")
    if word != "record" or not times.isdecimal() or not 0 <= int(times) <= MAX_OCCURRENCES:
        return MALFORMED
    return OK if keeper.record(event, int(times)) else UNKNOWN


def tell(config: WatchingConfig, event: str, times: int) -> str:
    """What the keeping process answers to the event. ``UsageError`` where there is none."""
    path = config.state_dir / SOCKET
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(str(path))
            connection.sendall(f"record {event} {times}\n".encode())
            return connection.makefile("r", encoding="ascii").readline(MAX_LINE).rstrip("\n")
    except OSError as error:
        raise UsageError(f"{path}: nobody watches here; start it with: tacit agent watch --config FILE") from error
