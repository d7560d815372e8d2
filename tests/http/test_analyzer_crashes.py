"""The analyzer dies at every point where it stores something, and loses answers: each acknowledged report is counted
exactly once, and a sum leaves once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import LOSE_RESPONSE, matching
from infra.lab.kit.one_server import Reporter
from tacit.errors import UsageError
from tacit.ports import TransportError
from tests.http.analyzer_stage import KIT, B, Stage, analyzer_stage
from tests.http.power_cut import PowerCut, PowerCutError

BATCH: dict[str, Any] = {"min_batch_size": B, "expected_contributions": 2 * B}
ANSWERS = (1, 0, 1, 1, 0, 1)


def devices_of(stage: Stage) -> tuple[Reporter, list[bytes]]:
    devices = Reporter(KIT.single_recipe(**BATCH), SeededEntropy(b"crashes"), KIT)
    return devices, [devices.report(devices.exact(answer)) for answer in ANSWERS]


async def run_through(stage: Stage, number: int, *, committed: bool) -> bool:
    """From the first look at the log to the release, with one power cut; whether it happened."""
    devices, reports = devices_of(stage)
    stage.log.add(KIT.directory_leaf(), KIT.recipe_leaf(devices.recipe))
    cut = PowerCut(stage.store, number, committed=committed)

    happened: list[bool] = []

    async def repaired() -> None:
        if cut.happened:
            cut.happened = False
            happened.append(True)
            await stage.start()

    for _ in range(4):
        with contextlib.suppress(PowerCutError):
            await stage.follow()
        await repaired()
    for report in reports:
        for _ in range(3):
            answer = await stage.upload(devices, report)
            await repaired()
            if answer.status == 201:
                break
    stage.end_interval(devices.recipe)
    for _ in range(3):
        with contextlib.suppress(PowerCutError):
            await stage.releases.step()
        await repaired()
        await stage.follow()
    expected = (200, {"report_count": len(ANSWERS), "values": [sum(ANSWERS)]})
    assert await stage.aggregate(devices.recipe) == expected
    page = await stage.status(devices.recipe)
    assert (page["distinct_nullifiers"], page["released"]) == (len(ANSWERS), 1)
    assert len(stage.log.posted) <= 2
    return bool(happened)


async def swept(folder: Path, numbers: Iterator[int], *, committed: bool) -> int:
    """How many power cuts there were until a run had none."""
    for number in numbers:
        place = folder / str(number)
        place.mkdir()
        async with analyzer_stage(place, "file") as stage:
            if not await run_through(stage, number, committed=committed):
                return number
    return -1


@pytest.mark.parametrize(
    ("number", "committed"), [(1, False), (2, True), (5, False), (5, True), (10, False), (10, True)]
)
async def test_a_power_cut_neither_loses_nor_doubles_a_report_or_a_release(
    tmp_path: Path, number: int, committed: bool
) -> None:
    async with analyzer_stage(tmp_path, "file") as stage:
        assert await run_through(stage, number, committed=committed)


@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True])
async def test_a_power_cut_at_any_commit_neither_loses_nor_doubles_anything(tmp_path: Path, committed: bool) -> None:
    assert await swept(tmp_path, iter(range(40)), committed=committed) >= 8


async def test_an_answer_that_is_lost_is_given_again(tmp_path: Path) -> None:
    async with analyzer_stage(tmp_path) as stage:
        devices, reports = devices_of(stage)
        await stage.publish(devices.recipe)
        stage.network.plan = matching(devices.channel.url, LOSE_RESPONSE, times=1)
        with pytest.raises(TransportError):
            await stage.upload(devices, reports[0])
        assert (await stage.upload(devices, reports[0])).status == 201
        assert (await stage.status(devices.recipe))["aggregated"] == 1


async def test_a_database_from_the_past_is_noticed_before_a_token_is_spent_again(tmp_path: Path) -> None:
    async with analyzer_stage(tmp_path, "file") as stage:
        devices, reports = devices_of(stage)
        await stage.publish(devices.recipe)
        await stage.inner.unmount("http://127.0.0.1:8086")
        folder = tmp_path / "analyzer"
        database = next(folder.glob("*.sqlite3"))
        before = database.read_bytes()
        await stage.start()
        assert (await stage.upload(devices, reports[0])).status == 201
        await stage.inner.unmount("http://127.0.0.1:8086")
        for path in folder.glob("*.sqlite3*"):
            path.unlink()
        database.write_bytes(before)
        with pytest.raises(UsageError, match=r"analyzer\.mark: the database is older .* --accept-rollback"):
            await stage.start()


async def test_a_restart_on_postgres_keeps_what_was_counted(tmp_path: Path, make_postgres_url: Any) -> None:
    url = make_postgres_url()
    async with analyzer_stage(tmp_path, database=url) as stage:
        devices, reports = devices_of(stage)
        await stage.publish(devices.recipe)
        for report in reports:
            assert (await stage.upload(devices, report)).status == 201
        await stage.start()
        assert (await stage.upload(devices, reports[0])).status == 201
        stage.end_interval(devices.recipe)
        assert (await stage.aggregate(devices.recipe))[1]["values"] == [sum(ANSWERS)]
