"""How much of a machine the stack's own PostgreSQL may take."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from infra.backing import postgres
from infra.backing.child import Child

GIB = 1 << 30


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[int], None]:
    """Sets the memory of the machine; control groups are in ``tmp_path``."""

    def set_memory(memory: int) -> None:
        monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": memory // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)

    monkeypatch.setattr(postgres, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(postgres, "_CGROUP_ROOT", tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return set_memory


@pytest.mark.parametrize(
    ("memory", "pages"), [(16 * GIB, "4096MB"), (64 * GIB, "4096MB"), (8 * GIB, "2048MB"), (GIB // 16, "64MB")]
)
def test_pages_take_a_quarter_of_the_memory(
    machine: Callable[[int], None], tmp_path: Path, memory: int, pages: str
) -> None:
    machine(memory)
    assert postgres._sizes(tmp_path)["shared_buffers"] == pages


@pytest.mark.parametrize(
    ("groups", "limits", "pages"),
    [
        ("0::/\n", {"memory.max": "max\n"}, "2048MB"),
        ("0::/\n", {"memory.max": f"{GIB}\n"}, "256MB"),
        ("0::/\n", {"memory.max": f"{64 * GIB}\n"}, "2048MB"),
        ("0::/a.slice/b\n", {"a.slice/b/memory.max": "max\n", "a.slice/memory.max": f"{2 * GIB}\n"}, "512MB"),
        ("0::/a/b\n", {"a/b/memory.max": f"{GIB}\n", "a/memory.max": f"{2 * GIB}\n"}, "256MB"),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": str(GIB)}, "256MB"),
        ("4:memory:/a\n1:cpu:/b\n", {"memory/memory.limit_in_bytes": str(GIB)}, "256MB"),
        ("4:cpu,memory:/a\n", {"memory/a/memory.limit_in_bytes": str(GIB)}, "256MB"),
        ("no group\n", {"memory.max": str(GIB)}, "256MB"),
        ("0::/a\x0cb:c\n", {"a\x0cb:c/memory.max": str(GIB), "a/memory.max": "1000"}, "256MB"),
        ("4:cpu:/\n0::/a\n", {"unified/a/memory.max": str(GIB)}, "256MB"),
        ("0::/\udcff\n", {"\udcff/memory.max": str(GIB)}, "256MB"),
    ],
)
def test_limits_of_control_groups_count_as_the_memory(
    machine: Callable[[int], None], tmp_path: Path, groups: str, limits: dict[str, str], pages: str
) -> None:
    machine(8 * GIB)
    (tmp_path / "cgroup").write_text(groups, "utf-8", "surrogateescape")
    for place, limit in limits.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(limit)
    assert postgres._sizes(tmp_path)["shared_buffers"] == pages


def test_a_limit_of_addresses_counts_as_the_memory(
    machine: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(8 * GIB)
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (GIB, resource.RLIM_INFINITY))
    assert postgres._sizes(tmp_path)["shared_buffers"] == "256MB"


@pytest.mark.parametrize(
    ("free", "log"), [(0, "128MB"), (8 * GIB, "1024MB"), (40 * GIB, "5120MB"), (1000 * GIB, "8192MB")]
)
def test_the_log_takes_an_eighth_of_the_free_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, log: str
) -> None:
    usage: Any = mock.Mock(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    assert postgres._sizes(tmp_path)["max_wal_size"] == log


def test_how_far_a_long_start_is_after_a_crash_is_said_now_and_then(tmp_path: Path) -> None:
    log, said = tmp_path / "server.log", list[str]()
    log.write_text("2026-11-29 10:00:00 UTC [7] LOG:  redo done at 0/1 of an earlier start\n")
    telling = postgres.ProgressReporter(log, said.append)
    telling(9.9)
    telling(10.0)
    with log.open("a") as file:
        file.write("2026-11-29 11:00:00 UTC [9] LOG:  automatic recovery in progress\n")
        file.write(
            "2026-11-29 11:00:11 UTC [9] LOG:  redo in progress, elapsed time: 10.00 s, current LSN: 0/5000028\n"
        )
        file.write("2026-11-29 11:00:12 UTC [9] FATAL:  the database system is starting up\n")
    telling(15.0)
    telling(20.1)
    telling(30.2)
    stage = ": redo in progress, elapsed time: 10.00 s, current LSN: 0/5000028"
    starting = "PostgreSQL has been starting for"
    assert said == [f"{starting} 10 s", f"{starting} 20 s{stage}", f"{starting} 30 s{stage}"]


def test_whoever_waits_for_a_program_is_told_how_long(tmp_path: Path) -> None:
    waited: list[float] = []
    child = Child(["sleep", "60"], tmp_path / "log")
    assert child.until(lambda: len(waited) > 2, 60.0, waited.append)
    child.stop()
    assert waited == sorted(waited)
