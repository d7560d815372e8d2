"""The processes of a staging deployment's devices: hosts that run hundreds, and single agents."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.backing.child import Child, last_words
from infra.stacks.agents import CONFIG_NAME
from infra.stacks.processes import tacit_command
from infra.tools.staging.devices import Devices
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.lines import lines_of

START_SECONDS = 300.0
LOOK_SECONDS = 0.25
WATCH_SECONDS = 3.0
TELL_SECONDS = "1"
"""Seconds after which a host checks again whether its counts have changed."""
LOG_SUFFIX = ".log"
SINGLE_LOG = "agent.log"
LOG_TAIL_BYTES = 65_536


@contextlib.asynccontextmanager
async def agents_at_work(devices: Devices, within: Sequence[str]) -> AsyncIterator[dict[Path, Child]]:
    """Run the processes of all ``devices`` while the block runs; yields them by log once every device is at work.
    ``within`` is put before their commands. Raises ``UsageError`` if one ends, or if no further device is at work for
    ``START_SECONDS``."""
    children: dict[Path, Child] = {}
    try:
        for log, command in _commands(devices).items():
            log.unlink(missing_ok=True)
            children[log] = Child([*within, *command], log)
        await until_at_work(devices, children)
        yield children
    finally:
        await asyncio.gather(*(asyncio.to_thread(child.stop) for child in children.values()))


def device_logs(devices: Devices) -> list[Path]:
    """The log of each host, and of each device with a process of its own."""
    return [
        *(host.with_suffix(LOG_SUFFIX) for host in devices.hosts),
        *(folder / SINGLE_LOG for folder in devices.single),
    ]


def host_arguments(folder: str) -> list[str]:
    """The arguments of ``tacit`` to run the devices in ``folder``."""
    return ["agent", "host", folder, "--every", TELL_SECONDS, "--json"]


def single_arguments(folder: str) -> list[str]:
    """The arguments of ``tacit`` to run the one device in ``folder``."""
    return ["agent", "run", "--config", f"{folder}/{CONFIG_NAME}", "--json"]


def _commands(devices: Devices) -> dict[Path, list[str]]:
    """The command of each host and of each single device, by the log that it writes."""
    hosts = [host_arguments(str(host)) for host in devices.hosts]
    alone = [single_arguments(str(folder)) for folder in devices.single]
    return {log: tacit_command(*one) for log, one in zip(device_logs(devices), [*hosts, *alone], strict=True)}


@dataclass(frozen=True)
class Runners:
    """How the writer of a log is started, and stopped for good."""

    start: Callable[[Path], Child]
    stop: Callable[[Path, Child], None]


def processes_of(devices: Devices, within: Sequence[str]) -> Runners:
    """``Runners`` that start the writer of a log as a process of this machine; ``within`` as for ``agents_at_work``."""
    return Runners(lambda log: Child([*within, *_commands(devices)[log]], log), lambda _log, child: child.stop())


async def watch_agents(
    devices: Devices,
    runners: Runners,
    children: dict[Path, Child],
    say: Callable[[str], None],
    changed: Callable[[], None],
) -> None:
    """Until cancelled: report each process that ends, and let single devices leave and restart as their files say.
    ``children`` are those of ``agents_at_work`` and are kept up to date; ``changed`` is called after a change."""
    clock, said, began = SystemClock(), set[Child](), _stamps(devices)
    while True:
        for log, child in children.items():
            if not child.runs and child not in said:
                said.add(child)
                say(f"agents ended: {last_words(log).removeprefix('tacit: ')}; see {log}")
        now = _stamps(devices)
        for log in [log for log, stamp in began.items() if now.get(log) != stamp and log in children]:
            await asyncio.to_thread(runners.stop, log, children.pop(log))
            if log in now:
                children[log] = await asyncio.to_thread(runners.start, log)
            changed()
        began = now
        await clock.sleep(WATCH_SECONDS)


def _stamps(devices: Devices) -> dict[Path, int]:
    """When the configuration of each single device was last touched (nanoseconds), by its log."""
    found = {}
    for folder in devices.single:
        with contextlib.suppress(FileNotFoundError):
            found[folder / SINGLE_LOG] = (folder / CONFIG_NAME).stat().st_mtime_ns
    return found


async def until_at_work(devices: Devices, children: Mapping[Path, Child]) -> None:
    """Wait until all ``devices`` are at work, according to their logs; ``children`` by log. Raises ``UsageError`` as
    ``agents_at_work``."""
    clock, wanted, most = SystemClock(), devices.present, -1
    until = 0.0
    while (working := (await asyncio.to_thread(count_devices, devices))["working"]) < wanted:
        if working > most:
            most, until = working, clock.now() + START_SECONDS
        for log, child in children.items():
            if not child.runs:
                raise UsageError(f"agents did not start: {last_words(log).removeprefix('tacit: ')}; see {log}")
        if clock.now() > until:
            raise UsageError(
                f"{working} of {wanted} devices are at work, no others within {START_SECONDS:.0f} s; "
                f"see {devices.folder}"
            )
        await clock.sleep(LOOK_SECONDS)


def count_devices(devices: Devices, runs: Callable[[Path], bool] = lambda _log: True) -> dict[str, Any]:
    """Counts of the devices and their states, as ``tacit agent host`` logs them; for devices with a process of their
    own only whether they started. ``runs``: whether the process that writes a log has not ended."""
    logs = [log for host in devices.hosts if runs(log := host.with_suffix(LOG_SUFFIX))]
    counts = [found for log in logs if (found := _last_counts(log))]
    alone = sum(runs(log) and _has_started(log) for log in (folder / SINGLE_LOG for folder in devices.single))

    def total(name: str) -> int:
        return sum(int(one[name]) for one in counts)

    def by_name(name: str) -> dict[str, int]:
        found = Counter[str]()
        for one in counts:
            found.update(one[name])
        return dict(sorted(found.items()))

    return {
        "hosts": len(logs),
        "single": len(devices.single),
        "devices": devices.present,
        "working": total("working") + alone,
        "changing": total("changing"),
        "failed": total("failed"),
        "troubles": by_name("troubles"),
        "slots_held": total("slots_held"),
        "slots_known": total("slots_known"),
        "entries": by_name("entries"),
    }


def _last_counts(log: Path) -> dict[str, Any]:
    """The last counts that a host logged, or an empty mapping."""
    for line in reversed(_tail(log)):
        with contextlib.suppress(ValueError):
            found: dict[str, Any] = json.loads(line)
            if found.get("event") == "counts":
                return found
    return {}


def _has_started(log: Path) -> bool:
    with contextlib.suppress(OSError), log.open("rb") as file:
        return b'"started"' in file.read(LOG_TAIL_BYTES)
    return False


def _tail(log: Path) -> list[str]:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
        return lines_of(file.read().decode("utf-8", "replace"))
    return []
