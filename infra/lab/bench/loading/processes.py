"""Processor time and memory of other processes, found by their ids alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator

import psutil

DATABASES = {"postgres": "database", "redis-server": "redis", "mosquitto": "mosquitto"}
"""Process names of servers that are not Tacit's services -> the names of their rows."""


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds of a process with all its threads, and of the children that it has waited for."""
    with contextlib.suppress(psutil.Error, OSError):
        times = process.cpu_times()
        reaped = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        return float(_own_cpu(process.pid, times.user + times.system) + reaped)
    return 0.0


def cpu_of_tree(pid: int) -> float:
    """Return the CPU seconds of a process and all its descendants."""
    return sum(cpu_of(process) for process in _tree(pid))


def memory_of_tree(pid: int) -> int:
    """Return the bytes that only a process and its descendants use."""
    return sum(map(memory_of, _tree(pid)))


def memory_of(process: psutil.Process) -> int:
    """Return the bytes that only a process uses, 0 if it has ended."""
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().uss)
    return 0


def memory_of_pool() -> int:
    """Return the bytes that only this process or one of its pools' workers uses; workers are known by their command
    lines."""
    return sum(map(memory_of, [psutil.Process(), *_pool()]))


def cpu_by_party(services: Iterable[tuple[str, int]]) -> dict[str, float]:
    """Return CPU seconds by name: of every service, given as (name, process id) of each of its processes, and of the
    database and the brokers, if any, among this process's descendants."""
    return _by_party(services, cpu_of)


def memory_by_party(services: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return by name, as ``cpu_by_party`` does CPU seconds, the bytes that only one of the processes uses: what a
    database's processes share is not in it."""
    return {party: int(size) for party, size in _by_party(services, memory_of).items()}


def _by_party(services: Iterable[tuple[str, int]], measure: Callable[[psutil.Process], float]) -> dict[str, float]:
    found: dict[str, float] = {}
    ours: set[int] = set()
    for name, pid in services:
        tree = list(_tree(pid))
        found[name] = found.get(name, 0.0) + sum(map(measure, tree))
        ours.update(process.pid for process in tree)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            party = DATABASES.get(process.name())
            if party is not None and process.pid not in ours:
                found[party] = found.get(party, 0.0) + measure(process)
    return found


def _pool() -> Iterator[psutil.Process]:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("multiprocessing" in argument for argument in process.cmdline()):
                yield process


def _own_cpu(pid: int, otherwise: float) -> float:
    """Read the process's own clock, which counts nanoseconds where ``/proc`` counts ticks of 10 ms (Linux)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return otherwise


def _tree(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        yield root
        yield from root.children(recursive=True)
