"""Two analyzer processes on one PostgreSQL database: a report, a token and a release count once, whichever process was
asked, and whichever dies.

The applications here have nothing in common but the database and the log; requests reach them at the same time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import ANALYZER_URL, Reporter
from services.analyzer.app import STORE, create_app
from services.analyzer.store import AnalyzerStore
from tacit import media_types
from tacit.aggregator.log_follower import FOLLOWER
from tacit.ports import TransportError
from tests.http.analyzer_stage import COLLECTOR_TOKEN, GATEWAY_TOKEN, KIT, B, Stage, analyzer_stage
from tests.http.power_cut import PowerCut, PowerCutError
from tests.kit.postgres import MakeDatabase

SECOND = "http://127.0.0.1:8096"
BATCH: dict[str, Any] = {"min_batch_size": B, "expected_contributions": 8 * B}
REPORTS = 24
BASES = (ANALYZER_URL, SECOND)


class Analyzers:
    """The stage's analyzer, and a second one on its database."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.devices = Reporter(KIT.single_recipe("histogram", **BATCH), SeededEntropy(b"processes"), KIT)
        self.second: web.Application = web.Application()

    async def start_second(self) -> None:
        """Start the second process, or end it and start it again."""
        stage = self.stage
        await stage.inner.unmount(SECOND)
        self.second = create_app(stage.settings(), stage.deps("second"))
        await stage.inner.mount(SECOND, self.second)
        await self.second[FOLLOWER].step()

    async def upload(self, second: bool, report: bytes) -> int:
        """The status of an answer, 0 where there was none."""
        url = self.devices.channel.url.replace(ANALYZER_URL, BASES[second])
        headers = {"Content-Type": media_types.ONE_SERVER_REPORT, "Authorization": f"Bearer {GATEWAY_TOKEN}"}
        with suppress(TransportError, PowerCutError):
            return (await self.stage.inner.request("POST", url, headers=headers, body=report)).status
        return 0

    async def at_once(self, reports: Sequence[tuple[bool, bytes]]) -> list[int]:
        """Every report to its process, all at the same time."""
        return list(await asyncio.gather(*(self.upload(second, report) for second, report in reports)))

    async def released(self, second: bool) -> tuple[int, list[int]]:
        """What one of them gives to the collector, and releases where nobody has yet: reports, and their sums."""
        url = f"{BASES[second]}/recipes/{self.devices.recipe.hash_text}/aggregate"
        headers = {"Authorization": f"Bearer {COLLECTOR_TOKEN}"}
        answer = await self.stage.inner.request("GET", url, headers=headers)
        assert answer.status == 200, answer.body
        page = json.loads(answer.body)
        return page["report_count"], page["values"]

    async def released_by_both(self) -> list[tuple[int, list[int]]]:
        """What both say that are asked at the same time."""
        return list(await asyncio.gather(self.released(False), self.released(True)))

    def report(self, answer: int) -> bytes:
        """A report whose randomised answer is this bucket, in a ladder of four."""
        return self.devices.report(self.devices.exact(*(int(cell == answer) for cell in range(4))))


@pytest.fixture
async def both(tmp_path: Path, make_postgres_url: MakeDatabase) -> AsyncIterator[Analyzers]:
    async with analyzer_stage(tmp_path, database=make_postgres_url(AnalyzerStore)) as stage:
        found = Analyzers(stage)
        await stage.publish(found.devices.recipe)
        await found.start_second()
        yield found


def sums(answers: Sequence[int]) -> list[int]:
    return [answers.count(cell) for cell in range(4)]


async def test_reports_that_reach_both_at_once_count_once_and_the_sum_is_released_once(both: Analyzers) -> None:
    answers = [number % 3 for number in range(REPORTS)]
    reports = [both.report(answer) for answer in answers]
    twice = [(second, report) for report in reports[: REPORTS // 2] for second in (False, True)]
    once = [(bool(number % 2), report) for number, report in enumerate(reports[REPORTS // 2 :])]
    assert set(await both.at_once(twice + once)) == {201}
    token = both.devices.token()
    rivals = [both.devices.report(both.devices.exact(0, 0, 0, 1), token) for _ in range(2)]
    assert sorted(await both.at_once([(False, rivals[0]), (True, rivals[1])])) == [201, 422]
    both.stage.end_interval(both.devices.recipe)
    expected = REPORTS + 1, sums([*answers, 3])
    assert await both.released_by_both() == [expected, expected]
    page = await both.stage.status(both.devices.recipe)
    assert (page["distinct_nullifiers"], page["released"], page["rejected"]) == (REPORTS + 1, 1, 1)
    assert await both.at_once([(True, both.report(0)), (False, reports[0])]) == [422, 201]
    assert len(both.stage.log.posted) == 1


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", [0, 2])
async def test_one_that_dies_while_both_count_loses_and_doubles_nothing(
    both: Analyzers, number: int, committed: bool
) -> None:
    answers = [number % 4 for number in range(REPORTS)]
    reports = [both.report(answer) for answer in answers]
    cut = PowerCut(both.second[STORE], number, committed=committed)
    statuses: list[int] = []
    for at in range(0, REPORTS, 6):  # so that there are several transactions of each
        part = [(bool(place % 2), report) for place, report in enumerate(reports[at : at + 6])]
        statuses += await both.at_once(part)
    assert cut.happened
    assert {status for status in statuses if status != 201} <= {0, 500, 503}
    failed = [report for report, status in zip(reports, statuses, strict=True) if status != 201]
    assert failed
    assert set(await both.at_once([(False, report) for report in failed])) == {201}  # the other one takes them
    await both.start_second()
    assert set(await both.at_once([(True, report) for report in reports])) == {201}
    both.stage.end_interval(both.devices.recipe)
    assert await both.released_by_both() == [(REPORTS, sums(answers))] * 2


@pytest.mark.parametrize("begun", [False, True])
async def test_a_report_that_one_counts_while_the_other_releases_is_in_the_sum_or_refused(
    both: Analyzers, begun: bool
) -> None:
    """``begun``: the upload's transaction was under way when the release was asked for; else it comes after it."""
    assert set(await both.at_once([(False, both.report(1)) for _ in range(B)])) == {201}
    reached, go = asyncio.Event(), asyncio.Event()
    store: Any = both.second[STORE]
    real = store.transaction

    @asynccontextmanager
    async def held(**options: Any) -> AsyncIterator[Any]:
        if not begun:
            reached.set()
            await go.wait()
        async with real(**options) as tx:
            yield tx
            if begun:
                reached.set()
                await go.wait()

    store.transaction = held
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        late = tasks.create_task(both.upload(True, both.report(2)))
        await reached.wait()
        both.stage.end_interval(both.devices.recipe)
        release = tasks.create_task(both.released(False))
        if begun:
            await asyncio.sleep(0.05)
            assert not release.done()  # it waits for whoever counts
            go.set()
        count, numbers = await release
        go.set()
    assert (late.result(), numbers) == ((201, [0, B, 1, 0]) if begun else (422, [0, B, 0, 0]))
    assert (await both.stage.status(both.devices.recipe))["distinct_nullifiers"] == count
