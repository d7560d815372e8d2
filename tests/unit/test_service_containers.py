"""Services in containers under orders: what Podman is told, in which order, and what is said of one that fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.processes import read_pids
from infra.stacks.workers import service_part
from infra.tools.staging import service_containers as module
from infra.tools.staging.orders import FOLDER, Act, Order, carry_out_orders, give_order
from infra.tools.staging.podman_compose import Compose
from infra.tools.staging.service_containers import STEADY_SECONDS, ServiceContainer, State, service_containers
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.operations.status import ProcessStatus

NOW = 1_790_000_000.0
OLDER = "tacit: the database is older than what this service has done since"


class Podman:
    """Containers by name, and what was told; those in ``broken`` end at once and are started again."""

    def __init__(self) -> None:
        self.states: dict[str, State] = {}
        self.broken: set[str] = set()
        self.told: list[str] = []

    def begin(self, name: str) -> None:
        pid = 1000 + len(self.told)
        restarts, since = (3, time.time()) if name in self.broken else (0, NOW)
        self.states[name] = State(pid, running=True, restarts=restarts, since=since)

    def __call__(self, act: str, *arguments: str) -> str:
        name = arguments[-1]
        if act != "inspect":
            self.told.append(" ".join((act, name)))
        if act == "start":
            self.begin(name)
        elif act == "rm":
            self.states.pop(name, None)
            return ""
        if name not in self.states:
            raise UsageError(f"podman {act}: no such container {name}")
        if act == "stop":
            self.states[name] = replace(self.states[name], pid=0, running=False)
        one = self.states[name]
        return f"{one.pid} {str(one.running).lower()} {one.restarts} {one.since:.0f}\n"


@dataclass(frozen=True)
class OnceCompose(Compose):
    """Compose whose containers for once are Podman's at once."""

    podman: Podman
    commands: list[list[str]] = field(default_factory=list)

    async def run_once(self, name: str, container: str, command: Sequence[str]) -> None:
        self.podman.told.append(f"run {container} as {name}")
        self.commands.append(list(command))
        self.podman.begin(container)


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    options = StackOptions(epoch_seconds=600, tls=True, network="10.77.9", containers=True, witnesses=2)
    return create_layout(tmp_path_factory.mktemp("contained") / "stack", options, SeededEntropy(1), NOW)


@pytest.fixture
def podman() -> Podman:
    return Podman()


@pytest.fixture
def compose(layout: Layout, podman: Podman) -> OnceCompose:
    return OnceCompose(layout.state_dir, podman)


@pytest.fixture
def services(
    layout: Layout, podman: Podman, compose: OnceCompose, monkeypatch: pytest.MonkeyPatch
) -> list[ServiceContainer]:
    found = list(service_containers(layout, compose, [service_part(layout, name) for name in layout.services]).values())
    ours = {one.part.url: one.container for one in found}

    async def status(_transport: object, label: str, url: str) -> ProcessStatus:
        names = (ours[url], module.ONCE.format(ours[url]))
        up = any(podman.states.get(name, State()).runs(time.time()) for name in names)
        return ProcessStatus(label, url, up=up, ready=up)

    monkeypatch.setattr(module, "podman", podman)
    monkeypatch.setattr(module, "process_status", status)
    monkeypatch.setattr(Layout, "transport", lambda *_args, **_options: contextlib.nullcontext())  # asked by nobody
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_last_words", lambda _name: OLDER)
    monkeypatch.setattr("infra.tools.staging.orders.process_status", status)
    monkeypatch.setattr("infra.tools.staging.orders.LOOK_SECONDS", 0.01)
    monkeypatch.setattr(os, "chown", lambda *_args, **_options: None)
    for one in found:
        podman.begin(one.container)
    return found


def ordered(layout: Layout, services: Sequence[ServiceContainer], order: Order) -> dict[str, Any]:
    async def answered() -> dict[str, Any]:
        clock = SystemClock()
        carrying = asyncio.ensure_future(carry_out_orders(layout, services, clock))
        await asyncio.sleep(0)
        try:
            return await give_order(layout.state_dir, order, lambda: not carrying.done(), clock)
        finally:
            assert not carrying.done()
            carrying.cancel()

    (layout.state_dir / FOLDER).mkdir(parents=True, exist_ok=True)
    return asyncio.run(answered())


def of(services: Sequence[ServiceContainer], label: str) -> ServiceContainer:
    (found,) = [one for one in services if one.title == label]
    return found


def test_the_containers_of_one_organisation_start_again_one_after_another(
    layout: Layout, services: list[ServiceContainer], podman: Podman
) -> None:
    before = dict(podman.states)
    answer = ordered(layout, services, Order(Act.RESTART, ("analyst",)))
    meant = ["recipe_server", "gateway", "collector", "admin"]
    assert answer["done"] == meant
    assert [line for line in podman.told if line.startswith("start")] == [
        f"start {of(services, name).container}" for name in meant
    ]
    assert podman.told.index(f"start {of(services, 'gateway').container}") < podman.told.index(
        f"stop {of(services, 'collector').container}"
    ), "each is back before the next stops"
    changed = {one.title for one in services if podman.states[one.container] != before[one.container]}
    assert changed == set(meant)
    assert read_pids(layout.state_dir) == answer["services"]
    assert not any(one.held for one in services)


def test_a_stopped_container_stays_so_until_it_is_started(
    layout: Layout, services: list[ServiceContainer], podman: Podman
) -> None:
    helper = of(services, "helper")
    answer = ordered(layout, services, Order(Act.STOP, ("helper",)))
    assert answer["services"]["helper"] is None
    assert helper.held
    assert "helper" not in read_pids(layout.state_dir)
    answer = ordered(layout, services, Order(Act.START))
    assert answer["services"]["helper"] == podman.states[helper.container].pid
    assert not helper.held
    assert [line for line in podman.told if line.startswith("start")] == [f"start {helper.container}"], "and no other"


def test_one_that_does_not_start_is_stopped_and_says_why(
    layout: Layout, services: list[ServiceContainer], podman: Podman
) -> None:
    leader = of(services, "leader")
    podman.broken.add(leader.container)
    with pytest.raises(UsageError, match="leader did not start: the database is older"):
        ordered(layout, services, Order(Act.RESTART, ("leader", "helper")))
    assert not podman.states[leader.container].running, "Podman does not try for ever"
    assert leader.held
    assert not any(of(services, "helper").container in line for line in podman.told)


def test_a_flag_is_told_once_to_a_container_of_its_own(
    layout: Layout, services: list[ServiceContainer], podman: Podman, compose: OnceCompose
) -> None:
    leader = of(services, "leader")
    ordered(layout, services, Order(Act.STOP, ("leader",)))
    podman.told.clear()
    ordered(layout, services, Order(Act.START, ("leader",), ("--accept-rollback",)))
    once = f"{leader.container}-once"
    assert [line for line in podman.told if line != f"stop {leader.container}"] == [
        f"run {once} as leader",
        f"stop {once}",
        f"rm {once}",
        f"start {leader.container}",
    ]
    assert compose.commands == [["serve", "leader", "--config", "/etc/tacit/config.json", "--accept-rollback"]]
    assert once not in podman.states


def test_a_flag_that_does_not_help_leaves_no_container(
    layout: Layout, services: list[ServiceContainer], podman: Podman
) -> None:
    leader = of(services, "leader")
    ordered(layout, services, Order(Act.STOP, ("leader",)))
    once = f"{leader.container}-once"
    podman.broken.add(once)
    podman.told.clear()
    with pytest.raises(UsageError, match="leader did not start: the database is older"):
        ordered(layout, services, Order(Act.START, ("leader",), ("--new-mark",)))
    assert once not in podman.states
    assert f"start {leader.container}" not in podman.told


def test_a_container_that_somebody_took_away_is_an_answer_and_no_end(
    layout: Layout, services: list[ServiceContainer], podman: Podman
) -> None:
    relay = of(services, "relay")
    del podman.states[relay.container]
    with pytest.raises(UsageError, match="no such container"):
        ordered(layout, services, Order(Act.START, ("relay",)))
    assert ordered(layout, services, Order(Act.RESTART, ("helper",)))["services"]["relay"] is None


@pytest.mark.parametrize(
    ("state", "runs"),
    [
        (lambda now: State(7, running=True, restarts=0, since=now), True),
        (lambda now: State(7, running=True, restarts=2, since=now - 1), False),
        (lambda now: State(7, running=True, restarts=2, since=now - STEADY_SECONDS - 1), True),
        (lambda now: State(0, running=False, restarts=0, since=now), False),
    ],
)
def test_a_container_that_is_started_again_and_again_does_not_run(state: Callable[[float], State], runs: bool) -> None:
    assert state(NOW).runs(NOW) is runs


def test_what_podman_prints_is_read() -> None:
    assert State.read("41 true 0 1790000000\n") == State(41, running=True, restarts=0, since=NOW)
    with pytest.raises(ValueError, match="not enough values"):
        State.read("41 true")


def test_the_container_for_once_is_one_that_podman_compose_makes_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "podman_compose"
    script.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    script.chmod(0o755)
    monkeypatch.setattr(Compose, "_command", lambda _self, *arguments: [str(script), *arguments])
    with pytest.raises(UsageError, match="podman-compose run: run --detach --rm -T --no-deps --name x-once x serve"):
        asyncio.run(Compose(tmp_path).run_once("x", "x-once", ["serve"]))
