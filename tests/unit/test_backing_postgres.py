"""How much of a machine the stack's own PostgreSQL may take."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from infra.backing import postgres

GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "limit", "pages"),
    [
        (16 * GIB, None, "4096MB"),
        (64 * GIB, "max\n", "4096MB"),
        (8 * GIB, "max\n", "2048MB"),
        (64 * GIB, str(GIB), "256MB"),
        (GIB, str(64 * GIB), "256MB"),
        (GIB // 16, None, "64MB"),
    ],
)
def test_pages_take_a_quarter_of_the_memory_of_machine_or_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory: int, limit: str | None, pages: str
) -> None:
    sizes = {"SC_PHYS_PAGES": memory // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(postgres, "_CGROUP_LIMITS", (tmp_path / "none", tmp_path / "memory.max"))
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert postgres._sizes(tmp_path)["shared_buffers"] == pages


@pytest.mark.parametrize(("free", "log"), [(GIB, "1024MB"), (40 * GIB, "5120MB"), (1000 * GIB, "8192MB")])
def test_the_log_takes_an_eighth_of_the_free_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, log: str
) -> None:
    usage: Any = mock.Mock(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    assert postgres._sizes(tmp_path)["max_wal_size"] == log
