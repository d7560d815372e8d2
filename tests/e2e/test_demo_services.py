"""The services of a demo are a process of their own, which ends with it and not before."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from infra.lab.demo.services import Services
from infra.lab.demo.shared_clock import SharedClock
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy
from tacit.errors import Fatal


def services(folder: Path) -> Services:
    now = 1_800_003_600.0
    layout = create_layout(folder / "stack", StackOptions(epoch_seconds=86_400, slots_per_epoch=1), OsEntropy(), now)
    SharedClock.begin(folder / "clock", now)
    return Services(layout.state_dir, folder / "clock", "error")


def children() -> set[int]:
    """Processes of services that this one started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words, status = (path / "cmdline").read_bytes(), (path / "stat").read_text()
        except OSError:
            continue
        if b"infra.lab.demo.services" in words and int(status.rpartition(")")[2].split()[1]) == os.getpid():
            found.add(int(path.name))
    return found


async def test_services_do_as_they_are_told_and_end_with_the_run(tmp_path: Path) -> None:
    async with services(tmp_path).running() as running:
        assert len(children()) == 1
        await running.settle("issuer", "gateway", "recipe_server")
        async with running.following(3):
            pass
        assert await running.sightings(3, 0) == ()
        with pytest.raises(Fatal, match="KeyError"):
            await running.step("nobody")
    assert children() == set()


async def test_services_that_die_are_one_error(tmp_path: Path) -> None:
    async with services(tmp_path).running() as running:
        (process,) = children()
        os.kill(process, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(Fatal, match="ended by itself"):
                await running.settle("issuer")
