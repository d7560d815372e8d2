"""The Leader with its queue on Redis: jobs are delivered over it, and done just the same where it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.backing.redis import RedisServer
from infra.lab.kit.aggregators import COLLECTOR_TOKEN, AggregatorPair
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper.app import create_app as create_helper
from services.helper.config import HelperConfig
from services.leader.app import UPLOAD, create_app
from services.leader.config import LeaderConfig
from tacit import media_types
from tacit.adapters.messaging.redis_streams import GROUP, RedisJobQueue, connect
from tacit.adapters.system import SystemClock
from tacit.messages import Interval, Role, UploadRequest
from tacit.service.app import Deps
from tacit.service.secret_files import write_secret
from tacit.task import BatchClose
from tests.conftest import REDIS_USER

ENTROPY = SeededEntropy(b"leader_queue")
STREAM = "tacit:leader:jobs"
LONG = 3600.0


def kit_now() -> TaskKit:
    """A task whose interval is under way by this machine's clock."""
    interval = Interval(int(SystemClock().now()) // 60 - 10, 10_000)
    return make_task_kit(min_batch_size=4, batch_close=BatchClose.AT_B, interval=interval)


@asynccontextmanager
async def running(folder: Path, server: RedisServer, idle_seconds: float) -> AsyncIterator[AggregatorPair]:
    """A pair whose Leader works in the background and looks for due jobs every ``idle_seconds`` at the latest."""
    write_secret(folder / "redis.url", server.url_of(REDIS_USER).encode())

    def leader(settings: Mapping[str, Any], deps: Deps) -> Any:
        changes = {"queue": {"redis": folder / "redis.url"}, "log": {**settings["log"], "poll_seconds": LONG}}
        background = Deps(SystemClock(), ENTROPY, deps.transport)
        return create_app(LeaderConfig.model_validate({**settings, **changes}), background)

    def helper(settings: Mapping[str, Any], deps: Deps) -> Any:
        background = Deps(SystemClock(), ENTROPY, deps.transport, background=False)
        return create_helper(HelperConfig.model_validate(settings), background)

    limits = {"min_job_size": 1, "job_size": 2, "idle_seconds": idle_seconds}
    async with AggregatorPair(kit_now(), folder, leader, helper, storage="file", limits=limits) as pair:
        yield pair


async def collected(pair: AggregatorPair) -> tuple[int, ...]:
    """Upload a batch, and wait for what the Leader makes of it."""
    reports = pair.kit.reports(1)
    body = UploadRequest(tuple(reports.valid(1) for _ in range(4))).encode()
    created = await pair.create_collection()
    (answer,) = await pair.apps[Role.LEADER][UPLOAD]([(pair.task.task_id_text, media_types.dap("upload-req"), body)])
    assert answer.status == 200
    found = await pair.inner.request(
        "GET",
        pair.task.configuration.leader_aggregator_endpoint + created.headers["location"],
        headers={"Authorization": f"Bearer {COLLECTOR_TOKEN}", "Prefer": "wait=30"},
    )
    return tuple(pair.opened(found).values)


async def drained(server: RedisServer) -> None:
    """Until the Leader has taken everything from the stream."""
    client = connect(server.url_of(REDIS_USER))
    async with asyncio.timeout(30):
        while await client.xlen(STREAM):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
    await client.aclose()


async def test_jobs_are_delivered_over_redis_and_leave_the_stream(
    make_redis: Callable[[], RedisServer], tmp_path: Path
) -> None:
    server = make_redis()
    async with running(tmp_path, server, LONG) as pair:
        assert await collected(pair) == (0, 4, 0, 0)
        await drained(server)
    client = connect(server.url_of(REDIS_USER))
    (group,) = await client.xinfo_groups(STREAM)
    assert group["name"] == GROUP.encode()
    assert (group["entries-read"], group["pending"]) == (2, 0)
    await client.aclose()


@pytest.mark.parametrize("moment", ["before", "between"])
async def test_jobs_are_done_without_redis(make_redis: Callable[[], RedisServer], tmp_path: Path, moment: str) -> None:
    server = make_redis()
    if moment == "before":
        server.crash()
    async with running(tmp_path, server, 0.2) as pair:
        if moment == "between":
            server.crash()
        assert await collected(pair) == (0, 4, 0, 0)


async def test_ids_of_no_job_and_ids_that_come_twice_cost_nothing(redis_server: RedisServer, tmp_path: Path) -> None:
    strange = RedisJobQueue(redis_server.url_of(REDIS_USER), "leader", SystemClock(), ENTROPY)
    ids = [bytes([number]) * 16 for number in range(20)]
    await strange.put(ids + ids)
    async with running(tmp_path, redis_server, LONG) as pair:
        assert await collected(pair) == (0, 4, 0, 0)
        await drained(redis_server)
    await strange.close()
