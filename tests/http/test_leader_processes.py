"""Several Leader processes on one PostgreSQL database: uploads and jobs are shared, and each report counts once
whichever process dies at whatever point.

The Leaders here are applications that have nothing in common but the database; uploads reach them at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from infra.backing.postgres import PostgresServer
from infra.lab.kit.aggregators import GATEWAY_TOKEN, AggregatorPair, mount_serving, party_of
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.leader import work
from services.leader.app import STORE, create_app
from services.leader.config import LeaderConfig
from services.leader.store import LeaderStore
from tacit import media_types
from tacit.adapters.databases.dialect import SLICE
from tacit.adapters.databases.postgres_slices import AHEAD
from tacit.errors import Fatal
from tacit.messages import Report, Role, UploadRequest
from tacit.ports import HttpResponse
from tacit.roles.jobs import prepare_leader
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators
from tests.kit.postgres import MakeDatabase

KIT = make_task_kit(min_batch_size=7)
AT_B = make_task_kit(min_batch_size=7, batch_close=BatchClose.AT_B)
SECOND = "http://127.0.0.1:8091"
LIMITS = {"job_size": 5, "lease_seconds": 60.0, "scrub_seconds": 600.0}
EXPECTED = (3, 2, 1, 1)


class Leaders:
    """Two Leader processes, the first one within ``pair``."""

    def __init__(self, pair: AggregatorPair) -> None:
        self.pair = pair
        self._starts = 0

    @property
    def apps(self) -> list[Any]:
        """The applications of both leader processes."""
        return [self.pair.apps[Role.LEADER], self.second]

    async def start_second(self) -> None:
        """Start the second process, or end it and start it again."""
        self._starts += 1
        entropy = SeededEntropy(b"second %d" % self._starts)
        deps = ServiceEnv(self.pair.clock, entropy, self.pair.network, background=False)
        self.second = create_app(LeaderConfig.model_validate(self.pair.settings[Role.LEADER]), deps)
        await mount_serving(self.pair.inner, SECOND, self.second, party_of(self.pair.kit, Role.LEADER))

    async def upload(self, second: bool, reports: Sequence[Report]) -> HttpResponse:
        """Upload reports to one of the two processes."""
        base = SECOND if second else self.pair.task.configuration.leader_aggregator_endpoint
        return await self.pair.inner.request(
            "POST",
            f"{base}/tasks/{self.pair.task.task_id_text}/reports",
            headers={"Content-Type": media_types.dap("upload-req"), "Authorization": f"Bearer {GATEWAY_TOKEN}"},
            body=UploadRequest(tuple(reports)).encode(),
        )

    async def step(self, app: Any) -> int:
        """All drivers of one process, but for the follower."""
        return sum([await driver.step() for driver in app[DRIVERS][1:]])

    async def work(self) -> None:
        """Both processes, at the same time, until nothing moves."""
        while sum(await asyncio.gather(*(self.step(app) for app in self.apps))):
            pass

    async def collect(self) -> tuple[int, ...]:
        """The sum that comes out at the end."""
        await self.pair.end_interval()
        created = await self.pair.create_collection()
        for _ in range(10):
            await self.work()
            await self.pair.clock.advance(61)
            answer = await self.pair.poll(created)
            assert answer.status == 200, answer.body
            if answer.body:
                return self.pair.opened(answer).values
        raise AssertionError("it never ended")


@asynccontextmanager
async def leaders_of(folder: Path, make_url: MakeDatabase, kit: TaskKit = KIT, **limits: Any) -> AsyncIterator[Leaders]:
    pair = both_aggregators(kit, folder, limits={**LIMITS, **limits}, databases={Role.LEADER: make_url(LeaderStore)})
    async with pair:
        leaders = Leaders(pair)
        await leaders.start_second()
        yield leaders


def reports_of(kit: TaskKit) -> list[Report]:
    """Seven good reports (3, 2, 1, 1), one with a bad proof, and one with another's token."""
    factory = kit.reports(1)
    token = factory.token()
    good = [factory.valid(value) for value in (0, 0, 1, 1, 2, 3)]
    return [factory.bad_proof(2), *good, factory.valid(0, token=token), factory.valid(0, token=token)]


@pytest.mark.parametrize("kit", [KIT, AT_B], ids=["interval-end", "at-b"])
async def test_reports_that_reach_both_processes_at_once_count_once(
    tmp_path: Path, make_postgres_url: MakeDatabase, kit: TaskKit
) -> None:
    async with leaders_of(tmp_path, make_postgres_url, kit) as leaders:
        for report in reports_of(kit):
            answers = await asyncio.gather(*(leaders.upload(second, [report]) for second in (False, True)))
            assert [(answer.status, answer.body) for answer in answers] == [(200, b"")] * 2
        await leaders.work()
        await leaders.pair.clock.advance(61)
        assert await leaders.collect() == EXPECTED
        counts = await leaders.pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["pending"], counts["distinct_nullifiers"]) == (7, 0, 7)
        again = await leaders.upload(True, reports_of(kit)[1:2])
        assert (again.status, again.body) == (200, b"")


async def test_one_process_coordinates_and_the_other_takes_over(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    async with leaders_of(tmp_path, make_postgres_url) as leaders:
        first, second = leaders.apps
        assert [await app[STORE].leads() for app in (first, second)] == [True, False]
        await leaders.upload(True, reports_of(KIT))
        assert await second[DRIVERS][1].step() == 0
        assert (await leaders.pair.status(Role.LEADER))["coordinator"]
        await leaders.pair.start(Role.LEADER)
        for _ in range(100):  # the server frees the lock when it notices
            if await second[DRIVERS][1].step():
                break
            await asyncio.sleep(0.02)
        assert (await leaders.pair.status(Role.LEADER))["jobs"]
        assert await leaders.collect() == EXPECTED


class DeathError(Exception):
    """Stands for the end of the process."""


def die_at(app: Any, number: int, *, committed: bool) -> None:
    """Every write of the process from its ``number``-th on ends it."""
    store: Any = app[STORE]
    real = store.transaction
    left = [number]

    @asynccontextmanager
    async def transaction(**options: Any) -> AsyncIterator[Any]:
        left[0] -= 1
        if left[0] < -1 or (left[0] < 0 and not committed):
            raise DeathError
        async with real(**options) as tx:
            yield tx
        if left[0] < 0:
            raise DeathError

    store.transaction = transaction


@pytest.mark.parametrize("committed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(4), ids=["claim", "read", "record", "commit"])
async def test_jobs_of_a_worker_that_dies_are_finished_by_another_with_the_same_bytes(
    tmp_path: Path, make_postgres_url: MakeDatabase, number: int, *, committed: bool
) -> None:
    async with leaders_of(tmp_path, make_postgres_url, job_size=20) as leaders:
        first, second = leaders.apps
        await leaders.upload(False, reports_of(KIT))
        assert await first[DRIVERS][1].step() == 1
        die_at(second, number, committed=committed)
        with pytest.raises(DeathError):
            await second[DRIVERS][2].step()
        await leaders.start_second()
        if number or committed:
            assert await leaders.step(first) == 0, "the dead worker's lease still runs"
        await leaders.pair.clock.advance(61)
        assert await leaders.collect() == EXPECTED
        jobs = [one for one in leaders.pair.network.exchanges if "aggregation_jobs" in one.url]
        sent = {one.body for one in jobs if one.method == "POST"}
        assert len(sent) == 1


async def test_report_that_kills_its_worker_is_found_and_the_others_count(
    tmp_path: Path, make_postgres_url: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = reports_of(KIT)
    poison = reports[3].report_metadata.report_id

    real = work.JobWork._bodies

    async def deadly(self: Any, seqs: Sequence[int]) -> list[bytes]:
        bodies = await real(self, seqs)
        if any(body.startswith(poison) for body in bodies):
            raise DeathError
        return bodies

    monkeypatch.setattr(work.JobWork, "_bodies", deadly)
    async with leaders_of(tmp_path, make_postgres_url, job_size=20) as leaders:
        await leaders.upload(False, reports)
        for _ in range(16):
            for app in leaders.apps:
                try:
                    await leaders.step(app)
                except DeathError:
                    continue
            await leaders.pair.clock.advance(61)
        counts = await leaders.pair.status(Role.LEADER)
        assert counts["rejected_by_cause"]["internal"] == 1
        assert (counts["aggregated"], counts["pending"]) == (6, 0)


async def test_reports_that_cannot_be_prepared_are_split_off(
    tmp_path: Path, make_postgres_url: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = reports_of(KIT)
    poison = reports[1].report_metadata.report_id

    def failing(party: Any, some: Sequence[bytes], *rest: Any, again: bool) -> Any:
        if any(body.startswith(poison) for body in some):
            raise MemoryError
        return prepare_leader(party, some, *rest, again=again)

    monkeypatch.setattr(work, "prepare_leader", failing)
    async with leaders_of(tmp_path, make_postgres_url, job_size=20) as leaders:
        await leaders.upload(False, reports)
        await leaders.step(leaders.apps[0])
        failing_jobs = (await leaders.pair.status(Role.LEADER))["failing_jobs"]
        assert [(job["size"], job["cause"]) for job in failing_jobs] == [(9, "MemoryError")]
        await leaders.work()
        counts = await leaders.pair.status(Role.LEADER)
        assert (counts["rejected_by_cause"]["internal"], counts["aggregated"]) == (1, 6)
        assert counts["failing_jobs"] == []


def traces(server: PostgresServer, planted: bytes) -> list[str]:
    """Files of the server's tables (not of its write-ahead log) that hold ``planted``."""
    found = []
    for path in (server.folder / "data" / "base").rglob("*"):
        try:
            if path.is_file() and planted in path.read_bytes():
                found.append(path.name)
        except FileNotFoundError:
            continue
    return found


async def checkpoint(leaders: Leaders) -> None:
    """Let the server write its tables into their files."""
    async with leaders.apps[0][STORE].transaction() as tx:
        await tx.connection.execute(text("CHECKPOINT"))


@pytest.mark.slow
async def test_bytes_of_aggregated_reports_leave_the_tables_files(
    tmp_path: Path, postgres: PostgresServer, make_postgres_url: MakeDatabase
) -> None:
    factory = KIT.reports(4)
    report, *others = (factory.valid(1) for _ in range(3))
    planted = report.leader_encrypted_input_share.payload[:64]
    async with leaders_of(tmp_path, make_postgres_url) as leaders:
        await leaders.upload(False, [report])
        await checkpoint(leaders)
        assert traces(postgres, planted)
        await leaders.work()
        leaders.pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        await leaders.upload(True, others)
        await leaders.work()
        for _ in range(3):
            await leaders.pair.clock.advance(601)
            for app in leaders.apps:
                await app[DRIVERS][1].step()
        await checkpoint(leaders)
        assert not traces(postgres, planted), "rewritten, because others still wait in the same partition"
        leaders.pair.network.heal()
        await leaders.work()
        await leaders.pair.clock.advance(601)
        await leaders.work()
        async with leaders.apps[0][STORE].read() as tx:
            left = (await tx.connection.execute(text("select count(*) from pg_inherits"))).scalar_one()
        assert left <= AHEAD + 1 + 2 * (AHEAD + 1), "partitions and the two indexes of each"
        assert (await leaders.pair.status(Role.LEADER))["aggregated"] == 3


async def test_uploads_make_room_themselves_when_nobody_coordinates(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    async with leaders_of(tmp_path, make_postgres_url) as leaders:
        store = leaders.apps[1][STORE]
        async with store.transaction() as tx:
            await tx.connection.execute(text(f"select setval('report_seqs', {SLICE * AHEAD})"))
        answer = await leaders.upload(True, reports_of(KIT))
        assert (answer.status, answer.body) == (200, b"")
        assert await leaders.collect() == EXPECTED


async def test_process_without_the_worker_role_takes_uploads_and_nothing_else(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    async with leaders_of(tmp_path, make_postgres_url) as leaders:
        settings = leaders.pair.settings[Role.LEADER]
        deps = ServiceEnv(leaders.pair.clock, SeededEntropy(b"third"), leaders.pair.network, background=False)
        for role, drivers in (("upload", 2), ("worker", 6)):
            app = create_app(LeaderConfig.model_validate({**settings, "roles": [role]}), deps)
            await mount_serving(leaders.pair.inner, "http://127.0.0.1:8092", app, party_of(KIT, Role.LEADER))
            assert len(app[DRIVERS]) == drivers
            url = f"http://127.0.0.1:8092/tasks/{KIT.task.task_id_text}/reports"
            body = UploadRequest(tuple(reports_of(KIT))).encode()
            headers = {"Content-Type": media_types.dap("upload-req"), "Authorization": f"Bearer {GATEWAY_TOKEN}"}
            answer = await leaders.pair.inner.request("POST", url, headers=headers, body=body)
            assert answer.status == (200 if role == "upload" else 404)
        assert await leaders.collect() == EXPECTED


async def test_database_that_is_away_costs_nothing_but_time(
    tmp_path: Path, postgres: PostgresServer, make_postgres_url: MakeDatabase
) -> None:
    async with leaders_of(tmp_path, make_postgres_url) as leaders:
        await leaders.upload(False, reports_of(KIT))
        await asyncio.to_thread(postgres.crash)
        for app in leaders.apps:
            with pytest.raises(Fatal):
                await leaders.step(app)
        await asyncio.to_thread(postgres.start)
        leads = [await app[STORE].leads() for app in leaders.apps]
        assert sorted(leads) == [False, True]
        assert await leaders.collect() == EXPECTED
