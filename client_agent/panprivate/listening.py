"""Keeps a device's watches: drives them by the clock, and takes events from a local socket.

An application sends ``record EVENT TIMES`` in one line and gets one line in return, once the event is folded into the
state. The answer, the log lines and the writes are the same for events that count and for those after the last step.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from client_agent.panprivate.watches import Watches
from tacit.errors import UsageError
from tacit.methods.base.statistics import MAX_OCCURRENCES
from tacit.ports import Clock

SOCKET = "watch.sock"
MAX_LINE = 128
PATIENCE_SECONDS = 10.0
_LONGEST_PATH = 104
"""Bytes of the shortest ``sun_path`` among systems, including the terminating byte."""
_OPEN_FOLDERS = Path("/proc/self/fd")
_LAST_SECOND = (1 << 31) - 1
"""The latest time that every file system can store."""
OK, UNWATCHED, MALFORMED = "ok", "not watched", "malformed"

Report = Callable[[str], None]
"""Called with one line that the owner should know; never about events."""


@contextlib.asynccontextmanager
async def keep_watches(
    watches: Watches, folder: Path, clock: Clock, tick_seconds: float, report: Report
) -> AsyncIterator[None]:
    """While the block runs, tick every ``tick_seconds`` of the clock, and answer applications at the socket of
    ``folder`` (mode 0600). If no socket can be made, that is reported and the rest goes on."""
    async with listening(watches, folder, report):
        ticking = asyncio.ensure_future(_tick(watches, clock, tick_seconds))
        try:
            yield
        finally:
            ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking


@contextlib.asynccontextmanager
async def listening(watches: Watches, folder: Path, report: Report) -> AsyncIterator[None]:
    """While the block runs, answer applications at the socket; the caller does the ticks."""
    path = folder / SOCKET
    async with contextlib.AsyncExitStack() as stack:
        try:
            path.unlink(missing_ok=True)
            with _address(folder) as address:
                server = await asyncio.start_unix_server(lambda *pair: _answer(watches, *pair), address, limit=MAX_LINE)
            stack.callback(path.unlink, missing_ok=True)
            stack.callback(server.close)
            path.chmod(0o600)
            _hide_use(path)
        except OSError as error:
            report(f"{path}: {error.strerror or error}; applications cannot tell this agent of events")
        yield


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The address of the socket for the kernel, which accepts paths of only some hundred bytes (unix(7)). A longer path
    is given through the open folder, which Linux has in /proc. Raises ``OSError``."""
    path = str(folder / SOCKET)
    if len(os.fsencode(path)) < _LONGEST_PATH or not _OPEN_FOLDERS.is_dir():
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(_OPEN_FOLDERS / str(descriptor) / SOCKET)
    finally:
        os.close(descriptor)


def _hide_use(path: Path) -> None:
    """Hide from the socket's inode that somebody connected to it. Linux notes the first access after the file was made,
    and then one a day (relatime), unless the stored time lies in the future. Raises ``OSError``."""
    os.utime(path, ns=(_LAST_SECOND * 10**9, path.stat().st_mtime_ns))


async def _tick(watches: Watches, clock: Clock, seconds: float) -> None:
    while True:
        for _ in watches.ticks():
            await asyncio.sleep(0)
        if not len(watches):
            watches.begun.clear()
            await watches.begun.wait()  # there is nothing to replace; the next tick comes at the same moments as always
        due = (math.floor(clock.now() / seconds) + 1) * seconds
        await clock.sleep(due - clock.now())


async def _answer(watches: Watches, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await reader.readline()
        answer = await verdict(watches, line)
        async with asyncio.timeout(PATIENCE_SECONDS):
            writer.write(f"{answer}\n".encode())
            await writer.drain()
    writer.close()


async def verdict(watches: Watches, line: bytes) -> str:
    """The answer to a line of an application, once the event in it is folded into the state."""
    word, _, rest = line.decode("ascii", "replace").rstrip("\n").partition(" ")
    event, _, times = rest.partition(" ")
    if word != "record" or not event or not times.isdecimal() or not 0 <= int(times) <= MAX_OCCURRENCES:
        return MALFORMED
    is_watched = watches.record(event, 0)
    for _ in range(min(int(times), watches.most(event))):
        watches.record(event)
        await asyncio.sleep(0)
    return OK if is_watched else UNWATCHED


def tell(folder: Path, event: str, times: int) -> str:
    """Report the event to the agent of ``folder``, and return its answer. Raises ``UsageError`` if no agent is at work,
    and for an answer that does not come in time."""
    path = folder / SOCKET
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            with _address(folder) as address:
                connection.connect(address)
            connection.sendall(f"record {event} {times}\n".encode())
            return connection.makefile("r", encoding="ascii").readline(MAX_LINE).rstrip("\n")
    except TimeoutError as error:
        raise UsageError(
            f"{path}: no answer in {PATIENCE_SECONDS:g} seconds; the event may count all the same"
        ) from error
    except OSError as error:
        raise UsageError(f"{path}: no agent watches here; start it with: tacit agent run --config FILE") from error
