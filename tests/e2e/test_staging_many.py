"""``tacit staging`` with five hundred real devices: every one answers a recipe of the admin API within its interval,
and what they journalled is what was released."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.staged import Staging, all_at_work, has_namespaces, published, row_of, staging

pytestmark = pytest.mark.slow
MANY, LEAST, EPOCH, INTERVAL = 500, 400, 600, 240
GIB = 1 << 30
READY_SECONDS = 900.0
"""A busy machine starts so many devices in minutes."""


class Large(Staging):
    """A deployment in which a command waits for an epoch to begin and its recipe's interval to end."""

    patience = 2.0 * EPOCH


def test_five_hundred_devices_answer_within_the_interval_and_every_answer_is_counted_once(tmp_path: Path) -> None:
    mode = "namespaces" if has_namespaces() else "processes"
    given = ["--epoch-seconds", str(EPOCH), "--single", "2"]
    with staging(tmp_path / "stack", mode, *given, devices=MANY, ready_seconds=READY_SECONDS) as (
        some,
        document,
        process,
    ):
        site = Large(some.folder)
        assert document["agents"]["devices"] == MANY
        site.until("every device at work", lambda: all_at_work(site, MANY))
        recipe = published(site, "visits", MANY, LEAST, INTERVAL)
        site.json("collect", "visits", "--wait", str(EPOCH + INTERVAL + 120))
        assert 0 < memory_of_agents(site.folder) < 2 * GIB
        row = row_of(site.json("staging", "report"), recipe)
        assert sum(row["journalled"].values()) == MANY
        assert row["released"] >= LEAST
        assert not set(row["journalled"]) - {"sent", "late"}
        assert site.run("staging", "down").returncode == 0
        assert process.wait() == 0


def memory_of_agents(folder: Path) -> int:
    """Bytes of the processes that hold the deployment's devices; what several of them share is divided among them."""
    return sum(proportional(process) for process, words in processes() if holds_devices(words, folder))


def holds_devices(words: list[str], folder: Path) -> bool:
    """Whether a command is a host of the deployment's devices, or one device with a process of its own."""
    return "agent" in words and any(word.startswith(str(folder)) for word in words)


def proportional(process: Path) -> int:
    """Bytes of one process as the kernel counts them."""
    try:
        rows = (process / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(row.split()[1]) for row in rows if row.startswith("Pss:")) << 10


def processes() -> Iterator[tuple[Path, list[str]]]:
    """Every process with the words of its command."""
    for found in Path("/proc").iterdir():
        if found.name.isdecimal():
            try:
                yield found, (found / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
            except OSError:  # it has ended
                continue
