"""The cost of running devices: agents in processes of their own, and hundreds in one host, side by side.

All agents follow the log of one running stack. Its epochs are long, so that agents read the log once a minute and have
nothing to answer. Both kinds are measured at the same time; a ratio is the cost in a process of its own over the cost
in the host. The figures of the host include its interpreter and code, which are part of what a device costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.lab.bench.loading.live import LiveStack, laid_out, run_on
from infra.lab.bench.loading.processes import cpu_of_tree, memory_of_tree
from infra.lab.bench.rows import Row, Subject, Timing
from infra.lab.bench.targets import HOST, IDLE, STARTED, WEIGHT
from infra.stacks.agents import provision_agents
from infra.stacks.deployment import Deployment
from tacit.adapters.system import OsEntropy
from tacit.errors import Fatal

HOSTED, ALONE = 200, 3
"""Number of devices in the host, and in processes of their own."""
WINDOW_SECONDS = 60.0
"""Seconds of one repetition, in which a device reads the log about once."""
START_SECONDS = 300.0
SUBJECT, ROLE, OWN = Subject(""), "device", "own process"
TINY = 1e-9
"""CPU seconds to assume where the clock shows none."""
_TACIT = (sys.executable, "-c", "from infra.cli import main; main()", "agent")
_LINE_LIMIT = 1 << 16


@dataclass(frozen=True)
class Kind:
    """The measured values of one kind: seconds from the start of a process until its devices have read the log, CPU
    seconds per second and device, and bytes per device; one value of each per process or repetition."""

    started: Sequence[float]
    cpu: Sequence[float]
    memory: Sequence[float]


def agent_rows(
    repetitions: int, hosted: int = HOSTED, alone: int = ALONE, window: float = WINDOW_SECONDS
) -> Iterator[Row]:
    """Measure start time, idle processor time and memory of a device, in a host and in a process of its own."""
    with laid_out(frozenset(), Deployment()) as site:
        folder = site.layout.state_dir / "agents"
        paths = provision_agents(site.layout, hosted + alone, OsEntropy(), time.time())
        apart = folder.with_name("alone")
        apart.mkdir()
        own = [_moved(path.parent, apart) for path in paths[hosted:]]
        found = run_on(site, lambda stack: _measure(stack, folder, own, hosted, repetitions, window))
    alone_is, host_is = found
    for stage, figures in (
        (STARTED, (alone_is.started, host_is.started)),
        (IDLE, (alone_is.cpu, host_is.cpu)),
        (WEIGHT, ([one / 1e6 for one in alone_is.memory], [one / 1e6 for one in host_is.memory])),
    ):
        before, now = map(Timing.of, figures)
        yield SUBJECT.row(stage, ROLE, OWN, before)
        yield SUBJECT.row(stage, ROLE, f"{HOST}, {hosted} devices", now, ratio=before.micro / max(now.micro, TINY))


def _moved(folder: Path, apart: Path) -> Path:
    """Move a device's folder out of the host's folder, to the same depth, so that its relative paths stay valid."""
    return folder.rename(apart / folder.name) / "agent.json"


async def _measure(
    _stack: LiveStack, folder: Path, own: Sequence[Path], hosted: int, repetitions: int, window: float
) -> tuple[Kind, Kind]:
    async with contextlib.AsyncExitStack() as stack:
        host_started, host = await stack.enter_async_context(_running(("host", str(folder)), _all_at_work(hosted)))
        alone = [await stack.enter_async_context(_running(("run", "--config", str(path)), _has_read)) for path in own]
        apart = [pid for _, pid in alone]
        cpu: list[tuple[float, float]] = []
        for _ in range(repetitions):
            begin, before = time.monotonic(), _cpu_seconds(apart, host)
            await asyncio.sleep(window)
            seconds, after = time.monotonic() - begin, _cpu_seconds(apart, host)
            cpu.append(((after[0] - before[0]) / seconds / len(own), (after[1] - before[1]) / seconds / hosted))
        memory = [float(memory_of_tree(pid)) for pid in apart]
        whole = memory_of_tree(host) / hosted
    return (
        Kind([seconds for seconds, _ in alone], [one for one, _ in cpu], [statistics.median(memory)]),
        Kind([host_started / hosted], [one for _, one in cpu], [whole]),
    )


def _cpu_seconds(apart: Sequence[int], host: int) -> tuple[float, float]:
    return sum(map(cpu_of_tree, apart)), cpu_of_tree(host)


def _all_at_work(devices: int) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["event"] == "counts" and event["working"] == devices


def _has_read(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "log-read")


@contextlib.asynccontextmanager
async def _running(
    arguments: Sequence[str], ready: Callable[[dict[str, Any]], bool]
) -> AsyncIterator[tuple[float, int]]:
    """Run a process of ``tacit agent``; yields the seconds until one of its lines is ``ready``, and its process id.
    Raises ``Fatal`` if it ends or takes too long before that."""
    more = ("--every", "0.2") if arguments[0] == "host" else ()
    begin = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *_TACIT, *arguments, "--json", *more, stderr=asyncio.subprocess.PIPE, limit=_LINE_LIMIT, env=dict(os.environ)
    )
    drained = None
    try:
        try:
            async with asyncio.timeout(START_SECONDS):
                await _until(process, ready)
        except TimeoutError as error:
            raise Fatal(f"the agents were not at work within {START_SECONDS:g} seconds") from error
        seconds, drained = time.monotonic() - begin, asyncio.ensure_future(_drain(process))
        yield seconds, process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await (drained or _drain(process))
        await process.wait()


async def _until(process: asyncio.subprocess.Process, ready: Callable[[dict[str, Any]], bool]) -> None:
    async for line in _lines(process):
        if ready(json.loads(line)):
            return
    raise Fatal("the agents ended before they were at work")


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Keep reading, so that the process does not block on the pipe."""
    async for _ in _lines(process):
        pass


def _lines(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    if process.stderr is None:
        raise Fatal("the process has no stderr")
    return process.stderr
