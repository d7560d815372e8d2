"""The services of a demo are a process of their own, which ends with it and not before."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from client_agent.deciding import AgentEnv
from infra.lab.demo.attacks.split_view import refused_split_view
from infra.lab.demo.services import Services
from infra.lab.demo.shared_clock import SharedClock
from infra.lab.kit.patience import Patience
from infra.stacks.layout import load_layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy
from tacit.errors import Fatal
from tacit.recipe.policy import parse_policy

NOW = 1_800_003_600.0


def services(folder: Path, witnesses: int = 0) -> Services:
    options = StackOptions(epoch_seconds=86_400, slots_per_epoch=1, witnesses=witnesses)
    layout = create_layout(folder / "stack", options, OsEntropy(), NOW)
    SharedClock.begin(folder / "clock", NOW)
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


async def test_a_second_history_of_the_log_is_refused_at_the_first_try(tmp_path: Path) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    stack = services(tmp_path, witnesses=2)
    layout = load_layout(tmp_path / "stack")
    policy = parse_policy(layout.policy_path.read_bytes(), layout.policy_path.name)
    async with stack.running() as running, HttpTransport() as direct:
        await running.settle("issuer", "gateway", "recipe_server", "attester", "relay")
        world = AgentEnv(SharedClock(tmp_path / "clock"), OsEntropy(), direct)
        refusal = await refused_split_view(layout, policy, world, Patience(OsEntropy(), sleep))
    assert refusal.reason.startswith("log-checkpoint")
    assert len(slept) < 3, "a checkpoint that no witness will ever cosign was awaited"
