"""Readiness: 503 with what is wrong while the last durable step failed, 200 again without anybody asking for anything,
and no writing on behalf of whoever asks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client_agent.journal import State
from infra.backing.postgres import PostgresServer
from infra.base.service_names import SERVICES
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.stacks.deployables import deployable
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.readiness_watch import LOOKS, START_SECONDS, Changes
from infra.stacks.status import stack_status
from services.gateway.ports import SeenRequest
from services.gateway.service import REPLAYED, TARGET_UNREACHABLE, WINDOW_AWAY, WINDOW_RESTORED
from services.gateway.targets import TARGET_REFUSED
from services.leader import schema
from tacit import bhttp
from tacit.adapters.databases.durability import Durability
from tacit.adapters.databases.sql import open_database
from tacit.adapters.system import SystemClock
from tacit.errors import NoRoom, Refusal, RolledBack, Unavailable
from tacit.operations.status import ProcessStatus
from tacit.ports import TransportError
from tacit.problem import OF_GATEWAY, party_of
from tacit.service.app import UNAVAILABLE, ServiceEnv, add_driver, make_app
from tacit.service.readiness import FAILURES
from tacit.service.stores import PATIENCE_SECONDS, PROBE_SECONDS, PROBES, add_store
from tests.http.gateway_stage import Start, problem
from tests.http.test_agent_upload import World, scheduled, world  # noqa: F401 - a fixture
from tests.http.test_full_disk import Disk, make_disk  # noqa: F401 - a fixture
from tests.http.test_gateway import start  # noqa: F401 - a fixture

LATEST = 1.5
"""By which a pause is at most longer than its middle."""
ENTROPY = SeededEntropy(b"readiness")
BASE = "http://127.0.0.1:8123"


class Store:
    """A store that meets with ``error`` in every write, where there is one; ``hang`` keeps it from answering."""

    def __init__(self) -> None:
        self.durability = Durability()
        self.error: Exception | None = None
        self.hang: float = 0.0
        self.clock = SimClock()
        self.writes = 0

    @property
    def trouble(self) -> str:
        return self.durability.trouble

    async def probe(self) -> None:
        self.writes += 1
        if self.hang:
            await self.clock.sleep(self.hang)
        with self.durability.noting():
            if self.error is not None:
                raise self.error


class Work:
    """A driver whose steps fail with ``error``, where there is one."""

    error: Exception | None = None

    async def step(self) -> int:
        if self.error is not None:
            raise self.error
        return 0


class Service:
    """A running service with ``store`` and ``work`` in the background."""

    def __init__(self) -> None:
        self.store, self.work = Store(), Work()
        self.clock = self.store.clock
        self.network = InProcessTransport()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        app = make_app("service", ServiceEnv(self.clock, ENTROPY, self.network))
        add_store(app, lambda: self.store)
        add_driver(app, self.work, 1.0, "following the log")
        await self.network.mount(BASE, app)
        async with self.network:
            await self.clock.advance(0)
            yield self

    async def page(self, path: str = "/readyz") -> tuple[int, dict[str, Any]]:
        answer = await self.network.request("GET", BASE + path)
        return answer.status, json.loads(answer.body)

    async def trouble(self) -> str:
        status, page = await self.page()
        assert (status, page["status"]) == ((503, "not ready") if "trouble" in page else (200, "ok"))
        assert (await self.page("/healthz"))[0] == 200, "the process lives"
        return str(page.get("trouble", ""))


async def test_a_store_that_fails_makes_the_service_not_ready_and_ready_again_though_nobody_uses_it() -> None:
    async with Service().running() as service:
        assert await service.trouble() == ""
        service.store.error = Unavailable("the database cannot be reached")
        await service.clock.advance(PROBE_SECONDS)
        assert await service.trouble() == "the database cannot be reached"
        service.store.error = None
        await service.clock.advance(PROBE_SECONDS)
        assert await service.trouble() == ""


async def test_whoever_asks_whether_a_service_is_ready_makes_it_write_nothing() -> None:
    async with Service().running() as service:
        service.store.error = Unavailable("the database cannot be reached")
        await service.clock.advance(PROBE_SECONDS)
        before = service.store.writes
        for _ in range(20):
            await service.trouble()
        assert service.store.writes == before


async def test_a_store_that_does_not_come_back_is_a_trouble_while_it_is_waited_for() -> None:
    async with Service().running() as service:
        service.store.hang = 3 * PATIENCE_SECONDS
        await service.clock.advance(PROBE_SECONDS + PATIENCE_SECONDS + 1)
        assert await service.trouble() == f"the store has not answered for {PATIENCE_SECONDS + 1:.0f} s"
        service.store.hang = 0
        await service.clock.advance(3 * PATIENCE_SECONDS)
        assert await service.trouble() == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TransportError("the log answered with status 500"), "the log answered with status 500"),
        (Refusal("log-split-view", "two roots for 3 entries"), "refused by rule log-split-view"),
        (KeyError("https://192.0.2.7/secret"), "KeyError"),
    ],
)
async def test_work_that_fails_again_and_again_is_named_until_it_succeeds(error: Exception, words: str) -> None:
    async with Service().running() as service:
        service.work.error = error
        await service.clock.advance(1.0)
        assert await service.trouble() == "", "once is no trouble"
        for failures in range(1, FAILURES):
            await service.clock.advance(LATEST * 2.0**failures)
        assert await service.trouble() == f"following the log fails: {words}"
        service.work.error = None
        await service.clock.advance(LATEST * 2.0**FAILURES)
        assert await service.trouble() == ""


def test_a_store_without_room_is_not_well_before_something_larger_was_written() -> None:
    durability = Durability()
    with pytest.raises(NoRoom), durability.noting():
        raise NoRoom("there is no room for the database")
    with durability.noting():
        pass
    assert (durability.lacks_room, durability.trouble) == (True, "there is no room for the database")
    durability.has_room()
    assert durability.trouble == ""
    with pytest.raises(RolledBack), durability.noting():
        raise RolledBack("the database is older")
    with durability.noting():
        pass
    assert durability.trouble == "the database is older", "until it is restarted"


async def test_a_database_on_a_full_disk_has_room_again_only_where_there_is_room(
    make_disk: Callable[[int], Disk],  # noqa: F811
) -> None:
    disk = make_disk(3)
    url = f"sqlite+aiosqlite:///{disk.folder / 'leader.sqlite3'}"
    database = await open_database(url, schema.METADATA, schema.MIGRATIONS)
    disk.fill()
    for _ in range(1000):
        with suppress(NoRoom):
            await database.probe()
        if database.trouble:
            break
    with pytest.raises(NoRoom):
        await database.probe()
    disk.empty()
    assert database.trouble == "there is no room for the database"
    await database.probe()
    assert database.trouble == ""
    await database.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_a_database_server_that_is_away_and_comes_back_is_noticed(
    postgres: PostgresServer, make_postgres_url: Callable[[], str], shared: bool
) -> None:
    database = await open_database(make_postgres_url(), schema.METADATA, schema.MIGRATIONS, shared=shared)
    await database.probe()
    assert database.trouble == ""
    postgres.stop()
    try:
        with pytest.raises(Unavailable):
            await database.probe()
        assert "the database" in database.trouble
    finally:
        postgres.start()
    await database.probe()
    assert database.trouble == ""
    await database.close()


async def test_a_device_names_the_gateway_and_not_the_leader_where_the_gateway_keeps_a_report_back(
    world: World,  # noqa: F811
) -> None:
    async def full(_requests: Sequence[SeenRequest]) -> list[bool]:
        raise NoRoom("there is no room for the database")

    world.gateway._window._flush = full
    entry = await world.uploader.send(await scheduled(world))
    assert (entry.state, entry.detail) == (State.SCHEDULED, "the gateway answered 503")
    assert party_of(json.dumps({"type": TARGET_REFUSED}).encode(), "the leader") == "the gateway"
    assert party_of(json.dumps({"type": UNAVAILABLE}).encode(), "the leader") == "the leader"
    assert {REPLAYED, TARGET_UNREACHABLE, WINDOW_AWAY, WINDOW_RESTORED, TARGET_REFUSED} == set(OF_GATEWAY)


async def test_a_gateway_on_a_full_disk_says_503_and_that_it_is_itself(
    start: Start,  # noqa: F811
    make_disk: Callable[[int], Disk],  # noqa: F811
) -> None:
    disk = make_disk(3)
    gateway = await start(state_dir=str(disk.folder / "state"))
    assert (await gateway.ask()).status == 201
    disk.fill()
    for _ in range(2000):
        answer = await gateway.ask()
        if answer.status != 201:
            break
    assert problem(answer) == (503, WINDOW_AWAY)
    assert bhttp.field_value(answer.fields, "retry-after") is not None
    assert json.loads(answer.content)["title"] == "The gateway's replay window is not available."
    (probing,) = gateway.app[PROBES]
    assert probing.trouble() == "there is no room for the database"
    disk.empty()
    assert (await gateway.ask()).status == 201
    await probing.step()
    assert probing.trouble() == ""


def test_every_service_that_keeps_something_is_probed(tmp_path: Path) -> None:
    layout = create_layout(tmp_path, StackOptions(witnesses=1), ENTROPY, SystemClock().now())
    probed = set()
    for name in layout.services:
        service = deployable(name)
        deps = ServiceEnv(SimClock(), ENTROPY, InProcessTransport(), background=False)
        app: web.Application = service.create_app(service.load(layout.configs[name]), deps)
        probed |= {name} if app.get(PROBES) else set()
    assert probed == {*SERVICES, "witness_1"} - {"relay"}


async def test_status_says_who_is_not_ready_and_that_tasks_are_not_known_without_the_leader(tmp_path: Path) -> None:
    layout = create_layout(tmp_path, StackOptions(), ENTROPY, SystemClock().now())
    network = InProcessTransport()
    store = Store()
    store.durability.ended("the database is older than the last state of this service")
    for name in layout.services:
        app = make_app(name, ServiceEnv(SimClock(), ENTROPY, network, background=False))
        if name == "gateway":
            add_store(app, lambda: store)
        if name != "leader":
            await network.mount(layout.urls[name], app)
    async with network:
        found = await stack_status(layout, network)
    by_name = {one.name: one for one in found.processes}
    assert (by_name["gateway"].up, by_name["gateway"].ready) == (True, False)
    assert (by_name["helper"].up, by_name["helper"].ready) == (True, True)
    assert (by_name["leader"].up, found.tasks_known) == (False, False)
    assert f"gateway is not ready: {store.trouble}" in found.problems


def test_a_change_is_announced_once_and_not_while_the_stack_starts() -> None:
    def at(ready: bool, up: bool = True, detail: str = "") -> ProcessStatus:
        return ProcessStatus("leader", "http://127.0.0.1:1", up=up, detail=detail, ready=ready)

    full = at(False, detail="there is no room for the database")
    changes = Changes(0.0)
    assert [changes.news(full, now) for now in range(LOOKS + 2)] == [""] * (LOOKS + 2), "it may wait for others"
    assert changes.news(full, START_SECONDS) == "leader is not ready: there is no room for the database"
    assert changes.news(full, START_SECONDS) == ""
    assert changes.news(at(True), START_SECONDS) == "leader is ready again"
    assert changes.news(at(True), START_SECONDS) == ""
    lines = [changes.news(at(False, up=False, detail="no answer"), 99.0) for _ in range(LOOKS + 1)]
    assert lines == [""] * (LOOKS - 1) + ["leader does not answer: no answer", ""]
    assert changes.news(at(True), 99.0) == "leader is ready again"
    gone = [changes.news(at(False, up=False, detail="no answer"), 99.0, ended=True) for _ in range(LOOKS + 1)]
    assert gone == [""] * (LOOKS + 1), "that it ended is said already"
    assert changes.news(at(True), 99.0) == "leader is ready again"
