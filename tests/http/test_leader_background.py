"""The Leader as it runs: drivers in the background, uploads from the same process, Collectors that wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, AggregatorPair, mount_serving, party_of, serve
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import FaultyTransport
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper.app import create_app as create_helper
from services.helper.config import HelperConfig
from services.leader import app as leader_app
from services.leader import arrivals
from services.leader.app import COLLECTIONS, STORE, UPLOAD, create_app
from services.leader.config import LeaderConfig
from services.leader.records import CollectionRow, CollectionState
from services.leader.store import LeaderStore
from tacit import media_types
from tacit.adapters.system import SystemClock
from tacit.errors import Fatal
from tacit.messages import Interval, Role, UploadRequest
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators
from tests.kit.postgres import MakeDatabase

ENTROPY = SeededEntropy(b"leader_background")
UPLOAD_TYPE = media_types.dap("upload-req")
LONG = 3600.0
SECOND = "http://127.0.0.1:8091"
PATIENCE = 4
"""Waits of 30 s for what takes a second on a machine that has nothing else to do."""
KIT = make_task_kit(min_batch_size=3, batch_close=BatchClose.AT_B)


def kit_now(helper_url: str = "http://127.0.0.1:8082", seed: int = 0) -> TaskKit:
    """A task whose interval is under way by this machine's clock."""
    begin = int(SystemClock().now()) // 60 - 10
    interval = Interval(begin, 10_000)
    return make_task_kit(
        min_batch_size=3, batch_close=BatchClose.AT_B, interval=interval, helper_url=helper_url, seed=seed
    )


class DeafHelper(FaultyTransport):
    """The way to the Helpers, on which requests to one of them are never answered."""

    def __init__(self, pair: AggregatorPair, deaf: str) -> None:
        super().__init__(pair.inner, clock=pair.clock)
        self.deaf = deaf
        self.heard = asyncio.Event()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        if url.startswith(self.deaf):
            self.heard.set()
            await asyncio.Event().wait()
        return await super().request(method, url, headers=headers, body=body)


@asynccontextmanager
async def running(
    folder: Path,
    kit: TaskKit,
    *others: TaskKit,
    deaf: str = "none:",
    idle_seconds: float = 0.5,
    database: str | None = None,
) -> AsyncIterator[AggregatorPair]:
    """A pair whose Leader works in the background; it also serves the tasks of ``others``."""

    def leader(settings: Mapping[str, Any], deps: ServiceEnv) -> Any:
        background = ServiceEnv(SystemClock(), ENTROPY, pair.network)
        return create_app(
            LeaderConfig.model_validate({**settings, "log": {**settings["log"], "poll_seconds": LONG}}),
            background,
        )

    def helper(settings: Mapping[str, Any], deps: ServiceEnv) -> Any:
        return create_helper(
            HelperConfig.model_validate(settings), ServiceEnv(SystemClock(), ENTROPY, deps.transport, background=False)
        )

    limits = {"min_job_size": 1, "job_size": 2, "idle_seconds": idle_seconds}
    pair = AggregatorPair(
        kit,
        folder,
        leader,
        helper,
        storage="file",
        limits=limits,
        databases={} if database is None else {Role.LEADER: database},
    )
    pair.network = DeafHelper(pair, deaf)
    async with pair:
        for other in others:
            await serve(pair.apps[Role.LEADER], party_of(other, Role.LEADER))
        yield pair


def body_of(kit: TaskKit, count: int, seed: int = 1) -> bytes:
    reports = kit.reports(seed)
    return UploadRequest(tuple(reports.valid(1) for _ in range(count))).encode()


async def poll(pair: AggregatorPair, created: HttpResponse, wait: str, *, base: str = "") -> HttpResponse:
    path = created.headers["location"]
    return await pair.inner.request(
        "GET",
        (base or pair.task.configuration.leader_aggregator_endpoint) + path,
        headers={"Authorization": f"Bearer {COLLECTOR_TOKEN}", "Prefer": wait},
    )


async def test_collector_that_waits_gets_the_batch_as_soon_as_it_is_full(tmp_path: Path) -> None:
    kit = kit_now()
    async with running(tmp_path, kit) as pair:
        created = await pair.create_collection()
        waiting = asyncio.create_task(poll(pair, created, "respond-async, wait=30"))
        await asyncio.sleep(0)
        (answer,) = await pair.apps[Role.LEADER][UPLOAD]([(kit.task.task_id_text, UPLOAD_TYPE, body_of(kit, 3))])
        assert answer.status == 200
        found = await waiting
        assert found.headers["preference-applied"] == "wait=30"
        assert pair.opened(found).values == (0, 3, 0, 0)


@pytest.mark.parametrize("wish", ["wait=0", "wait=x", "handling=lenient", "wait"])
async def test_collector_without_a_wish_is_answered_at_once(tmp_path: Path, wish: str) -> None:
    async with running(tmp_path, kit_now()) as pair:
        answer = await poll(pair, await pair.create_collection(), wish)
        assert (answer.status, answer.body) == (200, b"")
        assert "preference-applied" not in answer.headers


async def test_helper_that_never_answers_holds_up_its_own_tasks_only(tmp_path: Path) -> None:
    deaf = "http://127.0.0.1:8099"
    kit, stuck = kit_now(), kit_now(deaf, seed=5)
    async with running(tmp_path, kit, stuck, deaf=deaf) as pair:
        app = pair.apps[Role.LEADER]
        for one, count, seed in ((stuck, 12, 2), (kit, 3, 1)):  # with one seed, both would spend the same tokens
            (answer,) = await app[UPLOAD]([(one.task.task_id_text, UPLOAD_TYPE, body_of(one, count, seed))])
            assert (answer.status, answer.body) == (200, b"")
        created = await pair.create_collection()
        for _ in range(PATIENCE):
            found = await poll(pair, created, "wait=30")
            if found.body:
                break
        assert pair.opened(found).values == (0, 3, 0, 0)
        async with app[STORE].read() as tx:
            assert await tx.leased_jobs(stuck.task.task_id, SystemClock().now()) > 0


async def test_jobs_in_hand_are_given_back_at_the_end(tmp_path: Path) -> None:
    kit = kit_now("http://127.0.0.1:8099")
    async with running(tmp_path, kit, deaf="http://127.0.0.1:8099") as pair:
        app = pair.apps[Role.LEADER]
        await app[UPLOAD]([(kit.task.task_id_text, UPLOAD_TYPE, body_of(kit, 3))])
        assert isinstance(pair.network, DeafHelper)
        await pair.network.heard.wait()
        await pair.inner.unmount(kit.task.configuration.leader_aggregator_endpoint)
        store = LeaderStore(LeaderConfig.model_validate(pair.settings[Role.LEADER]).database_url("leader"))
        await store.open()
        async with store.read() as tx:
            counts = await tx.job_counts(kit.task.task_id)
            assert len(await tx.due_jobs(SystemClock().now(), 9)) == sum(counts.values())
        await store.close()


async def test_upload_from_the_same_process_is_answered_as_over_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = AggregatorPair(
        KIT,
        tmp_path,
        lambda settings, deps: create_app(LeaderConfig.model_validate({**settings, "max_in_flight": 2 << 20}), deps),
        lambda settings, deps: create_helper(HelperConfig.model_validate(settings), deps),
    )
    async with pair:
        call = pair.apps[Role.LEADER][UPLOAD]

        async def upload(task_id: str, content_type: str | None, body: bytes) -> HttpResponse:
            (answer,) = await call([(task_id, content_type, body)])
            return answer

        task_id, body = KIT.task.task_id_text, body_of(KIT, 2)
        assert (await upload(task_id, UPLOAD_TYPE, body)).status == 200
        refused = {
            415: await upload(task_id, "text/plain", body),
            413: await upload(task_id, UPLOAD_TYPE, bytes((1 << 20) + 1)),
            503: await upload(task_id, UPLOAD_TYPE, bytes((2 << 20) + 1)),
            404: await upload("unknown", UPLOAD_TYPE, body),
            400: await upload(task_id, UPLOAD_TYPE, body[:-1]),
        }
        for status, answer in refused.items():
            assert answer.status == status
            assert answer.headers["content-type"] == media_types.PROBLEM_JSON
            assert json.loads(answer.body)["status"] == status
        assert json.loads(refused[400].body)["taskid"] == task_id
        assert "taskid" not in json.loads(refused[404].body), "what is no task id is not echoed as one"
        assert (await upload(task_id, 'application/ppm-dap;version=18;message="upload-req"', body)).status == 200
        assert (await upload(task_id, None, body)).status == 415
        failing = UploadRequest((KIT.reports(9).valid(1),)).encode()

        def broken(**_options: object) -> Any:
            raise Fatal("no database")

        monkeypatch.setattr(pair.apps[Role.LEADER][STORE], "transaction", broken)
        answer = await upload(task_id, UPLOAD_TYPE, failing)
        assert (answer.status, json.loads(answer.body)["type"]) == (500, "urn:tacit:problem:internal")


async def test_batch_is_released_as_soon_as_it_is_full_without_waiting_for_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "WAKE_SECONDS", LONG)
    kit = kit_now()
    async with running(tmp_path, kit, idle_seconds=LONG) as pair:
        created = await pair.create_collection()
        for count in (1, 2):
            upload = (kit.task.task_id_text, UPLOAD_TYPE, body_of(kit, count, seed=count))
            (answer,) = await pair.apps[Role.LEADER][UPLOAD]([upload])
            assert answer.status == 200
        assert pair.opened(await poll(pair, created, "wait=30")).values == (0, 3, 0, 0)


async def test_collections_that_only_wait_cost_one_read_and_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = both_aggregators(KIT, tmp_path)
    async with pair:
        app = pair.apps[Role.LEADER]
        store = app[STORE]
        created = await pair.create_collection()
        async with store.transaction() as tx:
            for number in range(9):
                body = pair.request.encode()
                await tx.add_collection(
                    CollectionRow(bytes([number]) * 16, KIT.task.task_id, CollectionState.WAITING, body)
                )
        opened: list[str] = []

        def counted(name: str) -> Callable[..., Any]:
            real = getattr(store, name)

            def opening(**options: Any) -> Any:
                opened.append(name)
                return real(**options)

            return opening

        with monkeypatch.context() as patch:
            for name in ("read", "transaction"):
                patch.setattr(store, name, counted(name))
            assert await app[COLLECTIONS].step() == 0
            await app[COLLECTIONS].waiters.step()
            assert opened == ["read"], "nobody waits, so there is no second look"
            with app[COLLECTIONS].waiters.entered(bytes(16)) as one, app[COLLECTIONS].waiters.entered(bytes(16)):
                await app[COLLECTIONS].waiters.step()
                assert (opened, one.is_set()) == (["read"] * 2, False)
                with app[COLLECTIONS].waiters.entered(bytes([77]) * 16) as unknown:
                    await app[COLLECTIONS].waiters.step()
                    assert (unknown.is_set(), one.is_set()) == (True, False)
        async with store.transaction() as tx:
            for number in range(9):
                row = await tx.collection(bytes([number]) * 16)
                assert row is not None
                await tx.put_collection(replace(row, state=CollectionState.DELETED))
        factory = KIT.reports(1)
        await pair.upload(factory.valid(1) for _ in range(3))
        await pair.work()
        assert pair.opened(await pair.poll(created)).values == (0, 3, 0, 0)


async def test_processes_of_one_leader_hear_of_each_others_uploads_jobs_and_results_at_once(
    tmp_path: Path, make_postgres_url: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "WAKE_SECONDS", LONG)
    monkeypatch.setattr(leader_app, "LOOK_SECONDS", LONG)
    kit = kit_now()
    async with running(tmp_path, kit, idle_seconds=LONG, database=make_postgres_url(LeaderStore)) as pair:
        first = pair.apps[Role.LEADER]
        settings = pair.settings[Role.LEADER]
        settings = {**settings, "log": {**settings["log"], "poll_seconds": LONG}}
        second = create_app(LeaderConfig.model_validate(settings), ServiceEnv(SystemClock(), ENTROPY, pair.network))
        await mount_serving(pair.inner, SECOND, second, party_of(kit, Role.LEADER))
        assert await first[STORE].leads()
        assert not await second[STORE].leads()
        created = await pair.create_collection()
        waiting = asyncio.create_task(poll(pair, created, "wait=30", base=SECOND))
        (answer,) = await second[UPLOAD]([(kit.task.task_id_text, UPLOAD_TYPE, body_of(kit, 3))])
        assert answer.status == 200
        assert pair.opened(await waiting).values == (0, 3, 0, 0)
