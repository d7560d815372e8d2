"""Runs a staging deployment: its stack, with each organisation in its place, and its devices; announces when they are
ready."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from infra.backing.child import Child
from infra.base.service_calls import DEVICES
from infra.stacks.deployment import Parts
from infra.stacks.layout import Layout
from infra.stacks.options import OPERATORS, ORGANISATIONS, organisation_of
from infra.stacks.processes import ServiceProcess
from infra.stacks.running_stack import run_stack, tell_prometheus, until_told
from infra.stacks.status import lives
from infra.stacks.workers import Part
from infra.tools.staging.agents import Runners, agents_at_work, count_devices, processes_of, watch_agents
from infra.tools.staging.choices import Mode
from infra.tools.staging.containers import containers_of, devices_at_work, services_at_work
from infra.tools.staging.devices import Devices
from infra.tools.staging.fleet import tell_devices
from infra.tools.staging.networks import entering, remove
from infra.tools.staging.orders import carry_out_orders
from infra.tools.staging.podman_compose import Compose
from tacit.adapters.disk.files import replace_file
from tacit.adapters.disk.folder_lock import alone_in
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.ports import Clock

RUNNING = "staging.json"
STOP_SECONDS = 120.0
LOOK_SECONDS = 0.2


async def run_staging(
    layout: Layout,
    parts: Parts,
    mode: Mode,
    namespaces: Mapping[str, str],
    notes: Console,
    tell: Callable[[dict[str, Any]], None],
) -> int:
    """Run services and devices until a signal; ``tell`` is called with the document of ``tacit staging up --json`` once
    all are ready. ``namespaces`` by organisation, empty if there are none. Returns the command's exit code, as
    ``run_stack`` does. Raises ``UsageError``."""
    devices = Devices.of(layout.state_dir)

    def within(part: Part) -> list[str]:
        name = part.name if part.name in OPERATORS else part.config.parent.name
        return entering(namespaces[organisation_of(name)]) if namespaces else []

    @contextlib.asynccontextmanager
    async def with_devices(services: list[ServiceProcess]) -> AsyncIterator[None]:
        if not namespaces:
            tell_prometheus(layout, services)  # in namespaces each organisation's metrics are its own
        notes.print(f"starting {devices.present} devices")
        place = entering(namespaces[DEVICES]) if namespaces else []
        async with agents_at_work(devices, place) as children:
            serving = [part for service in services for part in service.part.services]
            beside = (
                carry_out_orders(layout, services, SystemClock()),
                tell_devices(layout, mode.value, lambda log: log in children and children[log].runs, SystemClock()),
            )
            async with _announce_and_watch(
                layout, mode, serving, children, processes_of(devices, place), notes, tell, *beside
            ):
                yield

    restart = f"tacit staging start {{}} --state-dir {shlex.quote(str(layout.state_dir))}"
    return await run_stack(layout, parts, notes, with_devices, restart, within)


async def run_in_containers(
    layout: Layout, compose: Compose, parts: Sequence[Part], notes: Console, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Run services and devices in the containers of ``compose``, whose file has been written, until told to stop.
    Arguments and errors are those of ``run_staging``."""
    devices = Devices.of(layout.state_dir)

    async def work(stopping: asyncio.Event) -> None:
        async with services_at_work(layout, compose, parts, notes) as services:
            notes.print(f"starting {devices.present} devices")
            async with devices_at_work(layout, compose, devices) as children:
                runners, carrying = containers_of(layout, devices), carry_out_orders(layout, services, SystemClock())
                async with _announce_and_watch(
                    layout, Mode.CONTAINERS, parts, children, runners, notes, tell, carrying
                ):
                    await stopping.wait()

    await until_told(notes, work)


@contextlib.asynccontextmanager
async def _announce_and_watch(
    layout: Layout,
    mode: Mode,
    serving: Iterable[Part],
    children: dict[Path, Child],
    runners: Runners,
    notes: Console,
    tell: Callable[[dict[str, Any]], None],
    *also: Coroutine[None, None, None],
) -> AsyncIterator[None]:
    """Once all are ready: announce it and let other commands find the deployment; watch its devices and run ``also``
    while the block runs."""
    devices, marker = Devices.of(layout.state_dir), layout.state_dir / RUNNING

    def mark() -> None:
        pids = {str(log): child.group for log, child in children.items()}
        replace_file(marker, json.dumps({"mode": mode.value, "pid": os.getpid(), "agents": pids}).encode())

    mark()
    looking = asyncio.gather(watch_agents(devices, runners, children, notes.print, mark), *also)
    try:
        tell(describe(layout, mode, serving, count_devices(devices)))
        yield
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
        marker.unlink(missing_ok=True)


def describe(layout: Layout, mode: Mode, services: Iterable[Part], agents: Mapping[str, Any]) -> dict[str, Any]:
    """The document of ``tacit staging up --json``: ``mode``, the URL of each service by organisation, paths of
    credentials by name, and how many ``hosts``, ``single`` processes and ``devices`` there are."""
    urls: dict[str, dict[str, str]] = {name: {} for name in ORGANISATIONS}
    for part in services:
        urls[organisation_of(part.config.parent.name)][part.label] = part.url
    return {
        "mode": mode.value,
        "state_dir": str(layout.state_dir),
        "organisations": urls,
        "credentials": {name: str(path) for name, path in sorted(layout.credentials.items())},
        "agents": {name: agents[name] for name in ("hosts", "single", "devices")},
    }


@dataclass(frozen=True)
class Running:
    """A running deployment; ``agents``: process ids by log."""

    mode: Mode
    pid: int
    agents: Mapping[str, int]

    def runs(self, log: Path) -> bool:
        """Whether the agents that write ``log`` are still running."""
        return str(log) in self.agents and lives(self.agents[str(log)])


def require_running(state_dir: Path, lock: str) -> Running:
    """The staging deployment that runs in ``state_dir`` and holds ``lock``. Raises ``UsageError`` if none does."""
    found = _marker(state_dir)
    if found is None or not is_held(state_dir, lock):
        raise UsageError(f"{state_dir}: no staging deployment runs here; start one with: tacit staging up --agents 20")
    return found


async def stop_staging(state_dir: Path, lock: str, clock: Clock) -> None:
    """Tell the deployment in ``state_dir`` to stop, and wait until it releases ``lock``. Raises ``UsageError`` if none
    runs there (leftover networks of a killed one are removed), and if it does not stop."""
    try:
        found = require_running(state_dir, lock)
    except UsageError:
        (state_dir / RUNNING).unlink(missing_ok=True)
        with contextlib.suppress(UsageError, OSError):
            remove(state_dir)
        with contextlib.suppress(OSError):
            Compose(state_dir).down()
        raise
    os.kill(found.pid, signal.SIGTERM)
    until = clock.now() + STOP_SECONDS
    while is_held(state_dir, lock):
        if clock.now() > until:
            raise UsageError(f"{state_dir}: still stopping after {STOP_SECONDS:.0f} s (pid {found.pid})")
        await clock.sleep(LOOK_SECONDS)


def is_held(state_dir: Path, lock: str) -> bool:
    """Whether a deployment, or another stack, runs in ``state_dir``."""
    try:
        with alone_in(state_dir, lock, "runs"):
            return False
    except UsageError:
        return True


def _marker(state_dir: Path) -> Running | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        found = json.loads((state_dir / RUNNING).read_text("utf-8"))
        return Running(Mode(found["mode"]), int(found["pid"]), found["agents"])
    return None
