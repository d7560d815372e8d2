"""Runs the services of a layout as child processes until this process ends.

A child is ``tacit serve`` on the service's own configuration. Its standard input is a pipe from this process: when this
process ends, however it ends, the pipe closes and the child stops. This process also restarts a service that dies
(``infra.stacks.reviving``), so that no supervisor outlives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from infra.base.disk_space import disk_space_problem
from infra.stacks.deployment import Parts
from infra.stacks.layout import Layout
from infra.stacks.workers import Part
from tacit.adapters.disk.files import replace_file
from tacit.errors import UsageError
from tacit.lines import lines_of
from tacit.ports import TransportError

READY_SECONDS = 120.0
STOP_SECONDS = 10.0
DRAINED_SECONDS = 60.0
"""Time for a service that is stopped alone to finish the requests that it has begun."""
HEALTH_PAUSE_SECONDS = 0.1
LOG_TAIL_BYTES = 4096
PIDS = "processes.json"


class Started(Protocol):
    """A service of the stack that runs as a process."""

    @property
    def part(self) -> Part:
        """The part of the stack that the process serves."""

    @property
    def pid(self) -> int:
        """The id of the service's process."""


@dataclass
class Served:
    """A service that runs as a process or as a container."""

    part: Part

    @property
    def name(self) -> str:
        """The service's kind; ``title`` tells services of one kind apart."""
        return self.part.name

    @property
    def title(self) -> str:
        """The service's name as shown to people."""
        return self.part.label


@dataclass
class ServiceProcess(Served):
    """One service. ``process`` is its newest process, ``within`` the command line put before its own, and ``held`` is
    true from a request to stop until the next start."""

    process: asyncio.subprocess.Process
    within: Sequence[str] = ()
    held: bool = False
    _fresh: asyncio.Event = field(default_factory=asyncio.Event)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def log(self) -> Path:
        return self.part.log

    @property
    def pid(self) -> int:
        """Id of the newest process, which may have ended."""
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended. (``Process.send_signal`` would race with the loop's wait.)"""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once with SIGKILL."""
        self.signal(signal.SIGKILL)

    @property
    def runs(self) -> bool:
        """Whether the process is still running."""
        return self.process.returncode is None

    async def look(self) -> None:
        """Do nothing: unlike a container's, the state of a child process is always known."""

    async def stop(self) -> None:
        """Tell the process to stop, and wait; kill it if it has not stopped after ``DRAINED_SECONDS``."""
        self.held = True
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), DRAINED_SECONDS)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self.process.wait()

    async def start(self, layout: Layout, also: Sequence[str] = ()) -> None:
        """Start the service again on its configuration, with the further arguments ``also`` for ``tacit serve``, and
        return once it answers. A running service is left alone. Raises ``UsageError`` as ``running`` does."""
        async with self._starting:
            if self.runs:
                return
            fresh = await _start(self.part, self.within, also)
            self.process, self.held = fresh.process, False
            self._fresh.set()
            await _until_ready(self, layout)

    async def ended(self) -> int:
        """Wait until a process ends without having been told to, and return its exit status."""
        while True:
            status = await self.process.wait()
            if not self.held:
                return status
            await self.started_again()

    async def started_again(self) -> None:
        """Wait until the service runs again; return at once if it is running."""
        self._fresh.clear()
        if not self.runs:
            await self._fresh.wait()

    def last_words(self) -> str:
        """Return the last line of the log, or an empty text; of a full file system that it is full, as the service
        could not write that."""
        if words := disk_space_problem(self.log.parent):
            return words
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            lines = lines_of(file.read().decode("utf-8", "replace").strip())
            return lines[-1] if lines else ""
        return ""


def tacit_command(*arguments: str) -> list[str]:
    """Return the command line of ``tacit`` for this interpreter; modules in the working folder cannot shadow it."""
    return [sys.executable, "-P", "-m", "infra.cli", *arguments]


def serve_command(*arguments: str) -> list[str]:
    """Return the command line of ``tacit serve`` with ``arguments``."""
    return tacit_command("serve", *arguments)


@contextlib.asynccontextmanager
async def running(
    layout: Layout, parts: Parts, within: Callable[[Part], Sequence[str]] = lambda _part: ()
) -> AsyncIterator[list[ServiceProcess]]:
    """Run the processes of ``layout``, all ready, while the block runs, and stop them afterwards. ``within`` returns
    the command line to put before a part's own, for instance to enter a namespace.

    Raises ``UsageError`` with the last line of the log if a process ends before it is ready.
    """
    services: list[ServiceProcess] = []
    try:
        for part in parts.first:
            services.append(await _start(part, within(part)))
        await asyncio.gather(*(_until_ready(service, layout) for service in services))
        fresh = [
            await _start(part, within(part)) for part in parts.further
        ]  # after the first ones, which made the tables
        services += fresh
        await asyncio.gather(*(_until_ready(service, layout) for service in fresh))
        write_pids(layout.state_dir, services)
        yield services
    finally:
        await stop_all(services)
        (layout.state_dir / PIDS).unlink(missing_ok=True)


def write_pids(state_dir: Path, services: Sequence[Started]) -> None:
    """Write the process ids to a file for ``read_pids``."""
    pids = {part.label: service.pid for service in services for part in service.part.services}
    replace_file(state_dir / PIDS, json.dumps(pids).encode())


def read_pids(state_dir: Path) -> dict[str, int]:
    """Return the process ids by title, as ``tacit up`` wrote them; empty if it is not running."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, int] = json.loads((state_dir / PIDS).read_text("utf-8"))
        return found
    return {}


async def stop_all(services: list[ServiceProcess]) -> None:
    """Ask every service to stop (SIGTERM), and kill those that have not stopped after ``STOP_SECONDS``."""
    for service in reversed(services):
        service.signal(signal.SIGTERM)
    waiting = [asyncio.ensure_future(service.process.wait()) for service in services]
    if not waiting:
        return
    _, late = await asyncio.wait(waiting, timeout=STOP_SECONDS)
    if late:
        for service in services:
            service.signal(signal.SIGKILL)
        await asyncio.wait(late)


async def _start(part: Part, within: Sequence[str], also: Sequence[str] = ()) -> ServiceProcess:
    with _open_log(part.log) as sink:
        process = await asyncio.create_subprocess_exec(
            *within,
            *serve_command(*part.arguments, *also),
            "--stop-with-stdin",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=sink,
            start_new_session=True,
        )
    return ServiceProcess(part, process, within)


def _open_log(path: Path) -> IO[bytes]:
    """Open a log for appending, readable by its owner only."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be written'}") from error


async def _until_ready(service: ServiceProcess, layout: Layout) -> None:
    try:
        async with asyncio.timeout(READY_SECONDS):
            announced = dict([await _ready_line(service) for _ in service.part.services])
            for part in service.part.services:
                if announced.get(part.name) != part.url:
                    found = announced.get(part.name, "no address")
                    raise UsageError(f"{part.label} listens on {found}, not on {part.url}; see {part.config}")
                await _healthy(part.url, layout)
    except TimeoutError as error:
        raise UsageError(f"{service.title} is not ready after {READY_SECONDS:.0f} s; see {service.log}") from error


async def _ready_line(service: ServiceProcess) -> tuple[str, str]:
    """The next service that the process announces, and its URL."""
    output = service.process.stdout
    line = b"" if output is None else await output.readline()
    try:
        ready = json.loads(line)
        return str(ready["service"]), str(ready["url"])
    except (ValueError, KeyError, TypeError) as error:
        words = service.last_words().removeprefix("tacit: ")
        raise UsageError(f"{service.title} did not start: {words or f'see {service.log}'}") from error


async def _healthy(url: str, layout: Layout) -> None:
    async with layout.transport(timeout=5.0) as transport:
        while True:
            with contextlib.suppress(TransportError):
                if (await transport.request("GET", f"{url}/healthz")).status == 200:
                    return
            await asyncio.sleep(HEALTH_PAUSE_SECONDS)
