"""Reports of the local model that are kept: an analyzer that dies, or two on one database, neither lose nor double one,
and what is searched at the release are the reports that were counted."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from infra.lab.kit.network import LOSE_RESPONSE, matching
from infra.lab.kit.one_server import ANALYZER_URL
from infra.lab.kit.recipes import changed
from services.analyzer.app import STORE, create_app
from services.analyzer.schema import KEPT
from services.analyzer.store import AnalyzerStore
from tacit import media_types
from tacit.aggregator.log_follower import FOLLOWER
from tacit.methods.packing import HashPacking
from tacit.ports import TransportError
from tests.http.analyzer_stage import COLLECTOR_TOKEN, GATEWAY_TOKEN, B, Stage, analyzer_stage
from tests.http.power_cut import PowerCut, PowerCutError
from tests.http.test_analyzer_local import STRINGS, Crowd, hashing, put, recipe_of
from tests.kit.postgres import MakeDatabase

SECOND = "http://127.0.0.1:8096"
WORDS = ("be", "be", "fa", "be", "gag", "be", "", "fa")
"""One of them is too long, and one is no value."""


def crowd_of() -> Crowd:
    return Crowd(recipe_of(STRINGS, "heavy-hitters", hashing()))


async def kept_publics(stage: Stage) -> list[bytes]:
    """The public bytes of all reports that are kept."""
    assert stage.app is not None
    async with stage.app[STORE].read() as tx:
        rows = list((await tx.connection.execute(select(KEPT.c.records))).scalars())
    return [row[at : at + 16] for row in rows for at in range(0, len(row), HashPacking.size)]


async def kept_once(stage: Stage) -> int:
    """How many reports are kept, each of them once."""
    found = await kept_publics(stage)
    assert len(set(found)) == len(found)
    return len(found)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", [0, 3, len(WORDS), len(WORDS) + 1])
async def test_a_power_cut_neither_loses_nor_doubles_a_kept_report(
    tmp_path: Path, number: int, committed: bool
) -> None:
    """The process dies at one of its commits from the first report to the release."""
    async with analyzer_stage(tmp_path, "file") as stage:
        crowd = crowd_of()
        await stage.publish(crowd.recipe)
        cut, happened = PowerCut(stage.store, number, committed=committed), 0
        reports = [crowd.report(word) for word in WORDS]
        for report in reports:
            while (await put(stage, crowd, report)).status != 201:
                happened += 1
                await stage.start()
        assert await kept_once(stage) == len(reports)
        stage.end_interval(crowd.recipe)
        for _ in range(2):
            with contextlib.suppress(PowerCutError):
                await stage.releases.step()
            if cut.happened:
                await stage.start()
        code, document = await stage.aggregate(crowd.recipe)
        assert (code, document["report_count"]) == (200, len(WORDS))
        assert [level[0] for level in document["search"]["levels"]] == [len(WORDS)]
        assert await kept_once(stage) == 0
        assert happened == int(number < len(WORDS))


async def test_an_answer_that_was_lost_is_given_again_and_the_report_is_kept_once(tmp_path: Path) -> None:
    async with analyzer_stage(tmp_path) as stage:
        crowd = crowd_of()
        await stage.publish(crowd.recipe)
        report = crowd.report("be")
        stage.network.plan = matching(crowd.channel.url, LOSE_RESPONSE, times=1)
        with pytest.raises(TransportError):
            await put(stage, crowd, report)
        assert (await put(stage, crowd, report)).status == 201
        assert await kept_once(stage) == len([report])


async def test_reports_out_of_their_time_are_not_kept(tmp_path: Path) -> None:
    async with analyzer_stage(tmp_path) as stage:
        crowd = crowd_of()
        await stage.publish(crowd.recipe)
        start = crowd.recipe.interval.start
        stage.clock.set_back(stage.clock.now() - start + 1_000.0)
        await stage.follow()  # the log's clock says so too
        early = crowd.report("be")
        answer = await put(stage, crowd, early)
        assert (answer.status, b"report-too-early" in answer.body) == (422, True)
        stage.clock.jump(start + 1 - stage.clock.now())
        assert (await put(stage, crowd, early)).status == 201
        stage.end_interval(crowd.recipe, 86_400.0)
        answer = await put(stage, crowd, crowd.report("be"))
        assert (answer.status, b"recipe-over" in answer.body) == (422, True)
        assert await kept_once(stage) == 1


async def test_the_bodies_of_all_reports_have_one_size_whatever_the_value(tmp_path: Path) -> None:
    crowd = crowd_of()
    assert len({len(crowd.report(word)) for word in ("a", "gg", "", "much too long", None) for _ in range(4)}) == 1


async def test_a_report_of_one_recipe_counts_in_no_other(tmp_path: Path) -> None:
    """It is sealed for one recipe."""
    async with analyzer_stage(tmp_path) as stage:
        one = crowd_of()
        other = Crowd(changed(one.recipe, "token.slot", 1))
        await stage.publish(one.recipe, other.recipe)
        report = one.report("be")
        assert (await put(stage, other, report)).status == 422
        assert (await put(stage, one, report)).status == 201
        assert await kept_once(stage) == len([report])


class Pair:
    """The stage's analyzer, and a second one on its database."""

    def __init__(self, stage: Stage, crowd: Crowd) -> None:
        self.stage, self.crowd = stage, crowd

    async def start(self) -> None:
        second = create_app(self.stage.settings(), self.stage.deps("second"))
        await self.stage.inner.mount(SECOND, second)
        await second[FOLLOWER].step()

    async def send(self, report: bytes, base: str) -> int:
        url = self.crowd.channel.url.replace(ANALYZER_URL, base)
        headers = {"Content-Type": media_types.ONE_SERVER_REPORT, "Authorization": f"Bearer {GATEWAY_TOKEN}"}
        return (await self.stage.inner.request("POST", url, headers=headers, body=report)).status

    async def released(self, base: str) -> Any:
        url = f"{base}/recipes/{self.crowd.recipe.hash_text}/aggregate"
        headers = {"Authorization": f"Bearer {COLLECTOR_TOKEN}"}
        answer = await self.stage.inner.request("GET", url, headers=headers)
        assert answer.status == 200, answer.body
        return answer.body


async def test_two_analyzers_of_one_database_keep_and_search_each_report_once(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    async with analyzer_stage(tmp_path, database=make_postgres_url(AnalyzerStore)) as stage:
        pair = Pair(stage, crowd_of())
        await stage.publish(pair.crowd.recipe)
        await pair.start()
        reports = [pair.crowd.report("be") for _ in range(4 * B)]
        sent = [pair.send(report, base) for report in reports for base in (ANALYZER_URL, SECOND)]
        assert set(await asyncio.gather(*sent)) == {201}
        assert await kept_once(stage) == len(reports)
        stage.end_interval(pair.crowd.recipe)
        one, other = await asyncio.gather(*(pair.released(base) for base in (ANALYZER_URL, SECOND)))
        assert one == other
        assert await kept_once(stage) == 0
        assert (await stage.status(pair.crowd.recipe))["released"] == 1
