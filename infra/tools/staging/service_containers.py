"""The services of a stack as containers that an order stops and starts, one by one."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.stacks.layout import Layout
from infra.stacks.processes import DRAINED_SECONDS, READY_SECONDS, Served
from infra.stacks.readiness_watch import ANSWER_SECONDS
from infra.stacks.workers import Part
from infra.tools.images.building import podman, podman_environment
from infra.tools.staging.compose import container_of, service_arguments, title
from infra.tools.staging.container_files import hand_over_service
from infra.tools.staging.podman_compose import Compose
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.lines import lines_of
from tacit.operations.status import process_status

LOOK_SECONDS = 0.5
STEADY_SECONDS = 30.0
"""Seconds that a container which Podman restarted has to run before it counts as running: one that cannot start is
restarted again and again."""
ONCE = "{}-once"
"""The name of the container that runs a service with additional flags, once, from the name of the service's own
container."""
STATE = "{{.State.Pid}} {{.State.Running}} {{.RestartCount}} {{.State.StartedAt.Unix}}"
WORDS = "tacit: "
LAST_LINES = 20


@dataclass(frozen=True)
class State:
    """What Podman says about a container: its process id, how often Podman restarted it, and since when it runs."""

    pid: int = 0
    running: bool = False
    restarts: int = 0
    since: float = 0.0

    @classmethod
    def read(cls, line: str) -> State:
        """Parse what ``podman inspect`` prints for the format ``STATE``. Raises ``ValueError`` for anything else."""
        pid, running, restarts, since = line.split()
        return cls(int(pid), running == "true", int(restarts), float(since))

    def runs(self, now: float) -> bool:
        """Whether it is running, and has not only just been restarted."""
        return self.running and (self.restarts == 0 or now - self.since > STEADY_SECONDS)


@dataclass
class ServiceContainer(Served):
    """One service of ``compose``; ``held``: it was told to stop, and not yet to start again."""

    container: str
    compose: Compose
    held: bool = False
    _state: State = State()
    _runs: bool = True

    @property
    def runs(self) -> bool:
        """Whether it ran at the last look."""
        return self._runs

    @property
    def pid(self) -> int:
        """Its process id at the last look, in the numbering of this machine."""
        return self._state.pid

    async def look(self) -> None:
        """Ask Podman for the state; a container that does not exist does not run."""
        self._state = await _state_of(self.container)
        self._runs = self._state.runs(time.time())

    async def stop(self) -> None:
        """Tell it to stop, and wait; it is killed after ``DRAINED_SECONDS``. Raises ``UsageError``."""
        self.held = True
        await asyncio.to_thread(_stop, self.container)
        await self.look()

    async def start(self, layout: Layout, also: Sequence[str] = ()) -> None:
        """Start it, and return once it answers. With ``also``, first run a separate container whose command alone has
        these flags; the service's own command stays as it was, however often it starts. Raises ``UsageError`` with its
        last line; then it is stopped, and Podman does not retry."""
        await asyncio.to_thread(hand_over_service, layout, self.title)  # restored files belong to root
        self.held = True
        if also:
            container = ONCE.format(self.container)
            try:
                await self.compose.run_once(
                    title(self.title), container, [*service_arguments(layout, self.title), *also]
                )
                await self._until_answers(layout, container)
            finally:
                with contextlib.suppress(UsageError):
                    await asyncio.to_thread(_stop, container)
                await asyncio.to_thread(podman, "rm", "--force", "--ignore", container)
        await asyncio.to_thread(_stop, self.container)  # Podman may be about to restart it
        await asyncio.to_thread(podman, "start", self.container)
        try:
            await self._until_answers(layout, self.container)
        except UsageError:
            await self.stop()
            raise
        await self.look()
        self.held = False

    def last_words(self) -> str:
        """The last line of its log that is meant for a person, or else the last line."""
        return _last_words(self.container)

    async def _until_answers(self, layout: Layout, container: str) -> None:
        clock = SystemClock()
        until = clock.now() + READY_SECONDS
        async with layout.transport(timeout=ANSWER_SECONDS) as transport:
            while not (await process_status(transport, self.title, self.part.url)).up:
                if not (await _state_of(container)).runs(clock.now()):
                    raise UsageError(f"{self.title} did not start: {_last_words(container).removeprefix(WORDS)}")
                if clock.now() > until:
                    raise UsageError(
                        f"{self.title} does not answer after {READY_SECONDS:.0f} s; see: podman logs {container}"
                    )
                await clock.sleep(LOOK_SECONDS)


def service_containers(layout: Layout, compose: Compose, parts: Sequence[Part]) -> Mapping[Part, ServiceContainer]:
    """The container that runs each of ``parts``, whether or not it exists yet."""
    return {part: ServiceContainer(part, container_of(layout, title(part.label)), compose) for part in parts}


async def _state_of(container: str) -> State:
    with contextlib.suppress(UsageError, ValueError):
        return State.read(await asyncio.to_thread(podman, "inspect", "--format", STATE, container))
    return State()


def _stop(container: str) -> None:
    podman("stop", "--time", f"{DRAINED_SECONDS:.0f}", container)


def _last_words(container: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own arguments
        ["podman", "logs", "--tail", str(LAST_LINES), container],  # noqa: S607 - wherever the system has it
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
        check=False, env=podman_environment(), cwd="/",
    )  # fmt: skip
    lines = [line for line in lines_of(done.stdout) if line.strip()]
    spoken = [line for line in lines if line.startswith(WORDS)]
    return (spoken or lines or [f"see: podman logs {container}"])[-1]
