"""The Leader lets the Helper delete the answers of jobs that are done: later, in the background, and never one that it
may need again."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.network import LOSE_RESPONSE, matching, no_faults
from infra.lab.kit.reports import make_task_kit
from services.leader.app import STORE
from services.leader.helper_job_cleanup import AGAIN_SECONDS, FORGET_SECONDS, REFUSED_SECONDS
from tacit.messages import Role
from tacit.ports import HttpResponse
from tests.http.aggregator_pair import both_aggregators
from tests.http.test_leader_and_other_helpers import OddHelper, problem_answer
from tests.http.test_leader_processes import leaders_of, reports_of
from tests.kit.postgres import MakeDatabase

KIT = make_task_kit(min_batch_size=3)
FACTORY = KIT.reports(41)


def pair_of(tmp_path: Path, **options: Any) -> AbstractAsyncContextManager[AggregatorPair]:
    return both_aggregators(KIT, tmp_path, storage="file", **options)


def methods(pair: AggregatorPair) -> list[str]:
    return [one.method for one in pair.network.exchanges if "aggregation_jobs" in one.url]


async def kept(pair: AggregatorPair) -> int:
    return int((await pair.status(Role.HELPER))["answers_kept"])


async def aggregate(pair: AggregatorPair, count: int = 3) -> None:
    await pair.upload(FACTORY.valid(1) for _ in range(count))
    await pair.work()


async def test_answer_is_deleted_once_after_the_job_is_done_and_the_batch_is_released_as_before(
    tmp_path: Path,
) -> None:
    async with pair_of(tmp_path) as pair:
        await aggregate(pair)
        await pair.clock.advance(FORGET_SECONDS - 1)
        await pair.work()
        assert (methods(pair), await kept(pair)) == (["POST"], 1), "the job itself costs no further exchange"
        await pair.clock.advance(FORGET_SECONDS + 1)
        await pair.work()
        assert (methods(pair), await kept(pair)) == (["POST", "DELETE"], 0)
        await pair.clock.advance(AGAIN_SECONDS)
        await pair.work()
        assert methods(pair) == ["POST", "DELETE"]
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 3, 0, 0)


async def test_jobs_of_one_minute_are_deleted_together(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        for _ in range(3):
            await aggregate(pair, 1)
            await pair.clock.advance(5)
        assert (methods(pair), await kept(pair)) == (["POST"] * 3, 3)
        await pair.clock.advance(2 * FORGET_SECONDS)
        await pair.work()
        assert (methods(pair), await kept(pair)) == (["POST"] * 3 + ["DELETE"] * 3, 0)


async def test_job_that_may_be_sent_again_is_never_deleted(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        pair.network.plan = matching("aggregation_jobs", LOSE_RESPONSE, method="POST")
        await aggregate(pair)
        for _ in range(4):
            await pair.clock.advance(AGAIN_SECONDS)
            await pair.start(Role.LEADER)
            await pair.work()
        assert set(methods(pair)) == {"POST"}
        assert (await kept(pair), (await pair.status(Role.LEADER))["jobs"]) == (1, {"sent": 1})
        pair.network.plan = no_faults
        await pair.clock.advance(AGAIN_SECONDS)
        await pair.work()
        assert len({one.body for one in pair.network.exchanges if one.method == "POST"}) == 1
        await pair.clock.advance(2 * FORGET_SECONDS)
        await pair.work()
        assert (methods(pair)[-1], await kept(pair)) == ("DELETE", 0)
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 3, 0, 0)


async def test_crash_between_commit_and_deletion_only_delays_it(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        await aggregate(pair)
        await pair.start(Role.LEADER)
        await pair.clock.advance(2 * FORGET_SECONDS)
        pair.network.plan = matching("aggregation_jobs", LOSE_RESPONSE, method="DELETE", times=1)
        await pair.work()
        assert (methods(pair), await kept(pair)) == (["POST", "DELETE"], 0)
        await pair.clock.advance(AGAIN_SECONDS)
        await pair.work()
        assert methods(pair) == ["POST", "DELETE", "DELETE"], "the Helper knows the job no more, and that is the end"
        await pair.clock.advance(AGAIN_SECONDS)
        await pair.work()
        assert methods(pair) == ["POST", "DELETE", "DELETE"]


async def test_helper_that_cannot_be_reached_is_asked_once_a_while_whatever_the_number_of_jobs(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        for _ in range(3):
            await aggregate(pair, 1)
        pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        await pair.clock.advance(2 * FORGET_SECONDS)
        await pair.work()
        assert methods(pair) == ["POST"] * 3 + ["DELETE"]
        pair.network.heal()
        await pair.work()
        assert await kept(pair) == 3
        await pair.clock.advance(AGAIN_SECONDS)
        await pair.work()
        assert await kept(pair) == 0


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_helper_without_deletion_is_not_asked_again_for_a_day(tmp_path: Path, status: int) -> None:
    async with pair_of(tmp_path) as pair:
        odd = OddHelper(pair)
        pair.network = odd
        await pair.start(Role.LEADER)
        odd.jobs = lambda answer: answer if answer.status == 201 else HttpResponse(status, {}, b"")
        for _ in range(3):
            await aggregate(pair, 1)
        await pair.clock.advance(2 * FORGET_SECONDS)
        await pair.work()
        assert methods(pair) == ["POST"] * 3 + ["DELETE"]
        await pair.clock.advance(REFUSED_SECONDS + 1)
        await pair.work()
        assert methods(pair) == ["POST"] * 3 + ["DELETE"]
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 3, 0, 0)


async def test_helper_that_is_busy_or_names_no_place_costs_no_job(tmp_path: Path) -> None:
    async with pair_of(tmp_path) as pair:
        odd = OddHelper(pair)
        pair.network = odd
        await pair.start(Role.LEADER)
        odd.jobs = lambda answer: HttpResponse(answer.status, {}, answer.body)
        await aggregate(pair, 2)
        odd.jobs = lambda answer: answer if answer.status == 201 else problem_answer("about:blank", 503)
        await aggregate(pair, 1)
        await pair.clock.advance(2 * FORGET_SECONDS)
        await pair.work()
        assert methods(pair) == ["POST", "POST", "DELETE"]
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 3, 0, 0)


async def test_of_several_processes_only_the_one_that_leads_deletes(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    async with leaders_of(tmp_path, make_postgres_url) as leaders:
        assert [await app[STORE].leads() for app in leaders.apps] == [True, False]
        await leaders.upload(True, reports_of(leaders.pair.kit))
        await leaders.work()
        jobs = len(methods(leaders.pair))
        await leaders.pair.clock.advance(2 * FORGET_SECONDS)
        await leaders.step(leaders.second)
        assert methods(leaders.pair) == ["POST"] * jobs
        await asyncio.gather(*(leaders.step(app) for app in leaders.apps))
        assert methods(leaders.pair) == ["POST"] * jobs + ["DELETE"] * jobs
        assert await leaders.collect() == (3, 2, 1, 1)
