"""Whatever is wrong with one collection, at the Leader or at the collector, the others go on and it says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, AggregatorPair, party_of, serve
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.collector.config import PublishConfig
from services.collector.drivers import PublishDriver
from services.collector.records import Result
from services.collector.store import CollectorStore
from services.leader.app import STORE
from services.leader.records import CollectionRow, CollectionState
from tacit import media_types
from tacit.messages import AggregateShare, CollectionJobReq, HpkeCiphertext, HpkeConfig, Role
from tacit.ports import HttpResponse, TransportError
from tacit.roles.collector import collection_request
from tacit.service.app import ServiceEnv
from tacit.service.http.live_tokens import NO_TOKEN
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators
from tests.http.collector_stage import KIT, Stage, publish_recipe

LOW_ORDER = bytes([1]) + bytes(31)
DEEP = b"[" * 100_000


def _with_weak_collector(kit: TaskKit) -> TaskKit:
    """The kit with a collector's key that no rule lets pass today; an older version may have taken it up."""
    config: HpkeConfig = replace(kit.task.hpke_config(Role.COLLECTOR), public_key=LOW_ORDER)
    return replace(kit, task=replace(kit.task, collector_hpke_config=config))


def _pair(tmp_path: Path, kit: TaskKit) -> AggregatorPair:
    return both_aggregators(kit, tmp_path)


async def _ask_for(pair: AggregatorPair, kit: TaskKit) -> str:
    """A collection job of ``kit``'s task at the Leader; returns where it is."""
    request: CollectionJobReq = collection_request(kit.task)
    url = f"{kit.task.configuration.leader_aggregator_endpoint}/tasks/{kit.task.task_id_text}/collection_jobs"
    headers = {"Authorization": f"Bearer {COLLECTOR_TOKEN}", "Content-Type": media_types.dap("collection-job-req")}
    answer = await pair.inner.request("POST", url, headers=headers, body=request.encode())
    assert answer.status == 201
    return f"{url}/{answer.headers['location'].rpartition('/')[2]}"


async def _problem(pair: AggregatorPair, url: str) -> tuple[int, str]:
    """Status and problem type of a collection job."""
    answer = await pair.inner.request("GET", url, headers={"Authorization": f"Bearer {COLLECTOR_TOKEN}"})
    return answer.status, str(json.loads(answer.body).get("type", "")) if answer.body else ""


def _hostile_helper(status: int, body: bytes) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    app = web.Application()
    app.router.add_post("/tasks/{task}/aggregate_shares", answer)
    return app


SHARE = AggregateShare(HpkeCiphertext(1, bytes(32), bytes(40))).encode()


@pytest.mark.parametrize(
    ("status", "body", "ends"),
    [(400, DEEP, False), (400, b"\xff\xfe", False), (200, b"garbage", False), (200, SHARE, True), (None, b"", True)],
    ids=["deep problem", "no text", "no share", "weak key of the collector", "weak key and an honest helper"],
)
async def test_a_collection_that_breaks_at_the_leader_holds_up_no_other(
    tmp_path: Path, status: int | None, body: bytes, ends: bool
) -> None:
    bad = _with_weak_collector(make_task_kit(min_batch_size=2))
    good = make_task_kit(min_batch_size=2, seed=9)
    reports = bad.reports(1)
    async with _pair(tmp_path, bad) as pair:
        leader = pair.apps[Role.LEADER]
        await serve(leader, party_of(good, Role.LEADER))
        assert await pair.upload(reports.valid(value) for value in (0, 1, 2)) is None
        await pair.work()
        broken, other = await _ask_for(pair, bad), await _ask_for(pair, good)
        await pair.end_interval()
        if status is not None:
            helper_url = bad.task.configuration.helper_aggregator_endpoint
            await pair.inner.unmount(helper_url)
            await pair.inner.mount(helper_url, _hostile_helper(status, body))
        await pair.work()
        assert (await _problem(pair, other))[1].endswith("invalidBatchSize")
        if ends:
            assert (await _problem(pair, broken))[1] == "urn:tacit:refusal:hpke-key-invalid"
        else:
            assert await _problem(pair, broken) == (200, "")


async def test_a_collection_whose_stored_request_is_damaged_holds_up_no_other(tmp_path: Path) -> None:
    good = make_task_kit(min_batch_size=2, batch_close=BatchClose.AT_B)
    other = make_task_kit(min_batch_size=2, seed=9)
    bad = replace(other, task=replace(other.task, batch_close=BatchClose.ON_QUERY))
    reports = good.reports(1)
    async with _pair(tmp_path, good) as pair:
        leader = pair.apps[Role.LEADER]
        await serve(leader, party_of(bad, Role.LEADER))
        row = CollectionRow(bytes(16), bad.task.task_id, CollectionState.WAITING, b"damaged")
        async with leader[STORE].transaction() as tx:
            await tx.add_collection(row)
        assert await pair.upload(reports.valid(value) for value in (1, 2)) is None
        assert pair.opened(await pair.collect()).values == (0, 1, 1, 0)
        async with leader[STORE].read() as tx:
            found = await tx.collection(row.job_id)
        assert found is not None
        assert (found.state, found.attempts > 0) == (CollectionState.WAITING, True)


async def _two_collections(stage: Stage) -> tuple[dict[str, Any], dict[str, Any]]:
    other = KIT.recipe(name="other-question", slot=1)
    publish_recipe(stage, other)
    await stage.driver("Recipes").step()
    return await stage.ask(), await stage.ask(other)


async def test_a_collection_that_breaks_at_the_collector_holds_up_no_other_and_is_tried_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await _two_collections(stage)

    def broken(*_arguments: object) -> dict[str, object]:
        raise OverflowError("cannot convert float infinity to integer")

    await stage.step()
    stage.leader.ready = True
    with monkeypatch.context() as patch:
        patch.setattr("tacit.models.interfaces.collector.release_document", broken)
        stage.clock.jump(7)
        await stage.step()
    shown = await stage.show(first["id"])
    assert (shown["state"], shown["rule"]) == ("collecting", "collection-broken")
    assert "OverflowError" in shown["detail"]
    assert (await stage.show(second["id"]))["rule"] == "about:blank"
    stage.clock.jump(7)
    await stage.step()
    assert (await stage.show(first["id"]))["state"] == "released"


async def test_a_leaders_answer_that_is_deeply_nested_holds_up_no_other_collection(stage: Stage) -> None:
    first, second = await _two_collections(stage)

    async def deep(request: web.Request) -> web.Response:
        return web.Response(status=400, body=DEEP)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", deep)
    await stage.inner.unmount("http://127.0.0.1:8081")
    await stage.inner.mount("http://127.0.0.1:8081", app)
    await stage.step()
    for asked in (first, second):
        assert (await stage.show(asked["id"]))["rule"] == "leader-answer"


class Server:
    """A recipe server that refuses some results."""

    def __init__(self) -> None:
        self.strict, self.taken = True, list[int]()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        document = json.loads(body)
        if self.strict and document["bad"]:
            return HttpResponse(422, {}, b"")
        self.taken.append(document["number"])
        return HttpResponse(201, {}, b"")


async def test_a_result_that_the_recipe_server_never_takes_keeps_no_other_back() -> None:
    store, server = CollectorStore("sqlite+aiosqlite:///:memory:"), Server()
    await store.open()
    async with store.transaction() as tx:
        for number in range(40):
            document = json.dumps({"number": number, "bad": number < 30})
            await tx.add_result(Result(f"collection {number:02}", bytes(32), number, document))
    deps = ServiceEnv(SimClock(0.0), SeededEntropy(1), server, background=False)
    driver = PublishDriver(store, PublishConfig(url="http://127.0.0.1:1", token=Path("token")), NO_TOKEN, deps)
    for _ in range(3):
        with pytest.raises(TransportError, match="422"):
            await driver.step()
    assert server.taken == list(range(30, 40))
    server.strict = False
    for _ in range(5):
        with suppress(TransportError):
            await driver.step()
    assert sorted(server.taken) == list(range(40))
    assert await driver.step() == 0
    await store.close()
