"""Runs a stack in containers: databases first, then services, then devices; at the end all of it is removed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path

from rich.console import Console

from infra.backing.child import Child
from infra.stacks.layout import Layout
from infra.stacks.processes import PIDS, write_pids
from infra.stacks.readiness_watch import ANSWER_SECONDS, until_recipes, watch_readiness
from infra.stacks.workers import Part
from infra.tools.images.building import podman, podman_environment
from infra.tools.staging.agents import Runners, device_logs, until_at_work
from infra.tools.staging.compose import container_of, device_titles, title
from infra.tools.staging.container_places import PORT, database_address, every_subnet, with_database
from infra.tools.staging.devices import Devices
from infra.tools.staging.networks import network_of
from infra.tools.staging.podman_compose import Compose
from infra.tools.staging.service_containers import ServiceContainer, service_containers
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.operations.status import process_status

READY_SECONDS = 300.0
LOOK_SECONDS = 0.5
NETWORKS = 256


def free_network(state_dir: Path) -> str:
    """The first three numbers of the addresses for a new stack in ``state_dir``: those derived from its folder, or the
    next ones that overlap with no network of Podman. Raises ``UsageError`` if there are none."""
    listed = json.loads(podman("network", "ls", "--format", "json"))
    taken = [ip_network(one["subnet"]) for network in listed for one in network.get("subnets") or ()]
    block, _, first = network_of(state_dir).rpartition(".")
    for step in range(NETWORKS):
        found = f"{block}.{(int(first) + step) % NETWORKS}"
        wanted = [ip_network(subnet) for subnet in every_subnet(found)]
        if not any(one.version == 4 and one.overlaps(subnet) for one in taken for subnet in wanted):
            return found
    raise UsageError("Podman has networks with all addresses that a deployment could have; see: podman network ls")


@contextlib.contextmanager
def alone(state_dir: Path) -> Iterator[Compose]:
    """The containers of a stack, none of which exists yet; whatever the block leaves is removed."""
    compose = Compose(state_dir)
    compose.down()
    try:
        yield compose
    finally:
        compose.down()


@contextlib.asynccontextmanager
async def services_at_work(
    layout: Layout, compose: Compose, parts: Sequence[Part], notes: Console
) -> AsyncIterator[list[ServiceContainer]]:
    """Run databases and services while the block runs; yields the services once all are ready, and watches them. Raises
    ``UsageError`` if one is not ready after ``READY_SECONDS``."""
    notes.print(f"starting {len(with_database(layout))} databases and {len(parts)} services in {layout.state_dir}")
    await compose.up([f"{name}-database" for name in with_database(layout)])
    await _until_databases(layout)
    await compose.up([title(name) for name in layout.services])
    await _until_ready(layout, parts)
    if not await until_recipes(layout, SystemClock()):
        notes.print("the log shows no token keys of the next epoch yet; until it does, no recipe can be made")
    services = service_containers(layout, compose, parts)
    await asyncio.gather(*(service.look() for service in services.values()))
    write_pids(layout.state_dir, list(services.values()))
    watching = watch_readiness(layout, parts, SystemClock(), notes.print, lambda part: services[part].held)
    looking = asyncio.ensure_future(watching)
    try:
        yield list(services.values())
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        (layout.state_dir / PIDS).unlink(missing_ok=True)


async def _until_databases(layout: Layout) -> None:
    """Wait until each database accepts connections, which it does once its files are made."""
    clock = SystemClock()
    until = clock.now() + READY_SECONDS
    for organisation in with_database(layout):
        while not await _takes_connections(database_address(layout, organisation)):
            if clock.now() > until:
                name = container_of(layout, f"{organisation}-database")
                raise UsageError(f"the database of {organisation} does not answer; see: podman logs {name}")
            await clock.sleep(LOOK_SECONDS)


async def _takes_connections(address: str) -> bool:
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(address, PORT)
        writer.close()
        return True
    return False


async def _until_ready(layout: Layout, parts: Iterable[Part]) -> None:
    clock = SystemClock()
    until = clock.now() + READY_SECONDS
    async with layout.transport(timeout=ANSWER_SECONDS) as transport:
        for part in parts:
            while not (found := await process_status(transport, part.label, part.url)).ready:
                if clock.now() > until:
                    name = container_of(layout, title(part.label))
                    raise UsageError(f"{part.label} is not ready: {found.detail}; see: podman logs {name}")
                await clock.sleep(LOOK_SECONDS)


@contextlib.asynccontextmanager
async def devices_at_work(layout: Layout, compose: Compose, devices: Devices) -> AsyncIterator[dict[Path, Child]]:
    """Run the containers of all devices while the block runs; yields, by log, the process that follows that log, once
    every device is at work. Raises ``UsageError``."""
    titles, followers = device_titles(devices), dict[Path, Child]()
    try:
        if titles:
            await compose.up(titles)
        for log, name in zip(device_logs(devices), titles, strict=True):
            followers[log] = _follower(container_of(layout, name), log)
        await until_at_work(devices, followers)
        yield followers
    finally:
        await asyncio.gather(*(asyncio.to_thread(child.stop) for child in followers.values()))


def containers_of(layout: Layout, devices: Devices) -> Runners:
    """Runners for the containers of devices, so that a person can make them leave or restart."""
    names = dict(zip(device_logs(devices), (container_of(layout, one) for one in device_titles(devices)), strict=True))

    def start(log: Path) -> Child:
        podman("start", names[log])
        return _follower(names[log], log)

    def stop(log: Path, child: Child) -> None:
        podman("stop", names[log])
        child.stop()

    return Runners(start, stop)


def _follower(container: str, log: Path) -> Child:
    """The process that copies a container's output to ``log``, from its beginning."""
    log.unlink(missing_ok=True)
    return Child(["podman", "logs", "--follow", container], log, env=podman_environment())
