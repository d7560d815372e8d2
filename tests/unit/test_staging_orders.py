"""Orders to a staging deployment: whom names mean, and that each is carried out once, answered, and leaves nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from infra.base.service_names import SERVICES
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.processes import ServiceProcess, read_pids
from infra.stacks.workers import service_part
from infra.tools.staging.orders import FOLDER, Act, Order, carry_out_orders, chosen, give_order
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError

NOW = 1_790_000_000.0


class FakeProcess:
    """A process that runs until it is told to stop."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None


class Service(ServiceProcess):
    """A service that starts and stops at once, or cannot start."""

    starts = able = True
    told: list[tuple[str, ...]]

    async def stop(self) -> None:
        cast("FakeProcess", self.process).returncode = 0

    async def start(self, layout: Layout, also: Sequence[str] = ()) -> None:
        del layout
        if not self.starts:
            raise UsageError(f"{self.title} did not start: the database is older")
        self.told.append(tuple(also))
        self.process = cast("Any", FakeProcess(self.pid + 1000))


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    options = StackOptions(epoch_seconds=600, batch_floor=20, tls=True, witnesses=2)
    return create_layout(tmp_path_factory.mktemp("staging") / "stack", options, SeededEntropy(1), NOW)


@pytest.fixture
def services(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> list[Service]:
    async def at_once(*_rest: object) -> None:
        await asyncio.sleep(0)

    async def is_able(_layout: Layout, service: Service) -> bool:
        return service.able

    monkeypatch.setattr("infra.tools.staging.orders._until_able", at_once)
    monkeypatch.setattr("infra.tools.staging.orders._is_able", is_able)
    found = []
    for number, name in enumerate(layout.services):
        service = Service(service_part(layout, name), cast("Any", FakeProcess(100 + number)))
        service.told = []
        found.append(service)
    return found


async def ordered(layout: Layout, services: Sequence[Service], order: Order) -> dict[str, Any]:
    clock = SystemClock()
    folder = layout.state_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "1-1.order").write_text(json.dumps({"act": "stop", "services": [], "also": []}))
    carrying = asyncio.ensure_future(carry_out_orders(layout, services, clock))
    try:
        await asyncio.sleep(0)
        return await give_order(layout.state_dir, order, lambda: not carrying.done(), clock)
    finally:
        carrying.cancel()
        assert not list(folder.iterdir())


def test_names_are_those_of_services_and_of_organisations(services: list[Service]) -> None:
    def titles(*names: str) -> list[str]:
        return [one.title for one in chosen(services, names)]

    assert titles() == [one.title for one in services]
    assert titles("analyst") == ["recipe_server", "gateway", "collector", "admin"]
    assert titles("relay", "witness_2") == ["relay", "witness_2"]
    assert titles("witnesses") == titles("witness") == ["witness_1", "witness_2"]
    with pytest.raises(UsageError, match="no service or organisation is called sorter; there are recipe_server"):
        titles("sorter")


def test_services_start_again_one_after_another_and_only_those_that_are_meant(
    layout: Layout, services: list[Service]
) -> None:
    before = [one.pid for one in services]
    answer = asyncio.run(ordered(layout, services, Order(Act.RESTART, ("leader", "helper"))))
    assert answer["done"] == ["leader", "helper"]
    assert [one.title for one, pid in zip(services, before, strict=True) if one.pid != pid] == ["leader", "helper"]
    assert read_pids(layout.state_dir) == answer["services"]
    asyncio.run(ordered(layout, services, Order(Act.STOP, ("helper",))))
    assert set(read_pids(layout.state_dir)) == {*SERVICES, "witness_1", "witness_2"} - {"helper"}
    answer = asyncio.run(ordered(layout, services, Order(Act.START, (), ("--accept-rollback",))))
    assert [one.told for one in services if one.title == "helper"] == [[(), ("--accept-rollback",)]]
    assert answer["done"] == [one.title for one in services]


def test_a_service_between_two_failures_is_started_with_what_a_person_adds(
    layout: Layout, services: list[Service]
) -> None:
    """It is started again and again by itself: its newest process runs, and will end as the last one did."""
    leader = next(one for one in services if one.title == "leader")
    leader.able = False
    asyncio.run(ordered(layout, services, Order(Act.START, ("leader",), ("--accept-rollback",))))
    assert leader.told == [("--accept-rollback",)]


def test_a_service_that_does_not_start_ends_the_order_and_says_why(layout: Layout, services: list[Service]) -> None:
    services[1].starts = False
    pids = [one.pid for one in services]
    with pytest.raises(UsageError, match=r"issuer did not start: the database is older; done before it: recipe_server"):
        asyncio.run(ordered(layout, services, Order(Act.RESTART)))
    assert [one.pid for one in services[2:]] == pids[2:], "the rest goes on as it was"
    with pytest.raises(UsageError, match="no service or organisation is called nobody"):
        asyncio.run(ordered(layout, services, Order(Act.STOP, ("nobody",))))


def test_an_order_to_a_deployment_that_ended_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    with pytest.raises(UsageError, match="the deployment has ended"):
        asyncio.run(give_order(tmp_path, Order(Act.STOP, ("leader",)), bool, SystemClock()))
    assert not list((tmp_path / FOLDER).iterdir())
