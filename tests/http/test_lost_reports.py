"""Jobs that were never sent and cannot be: they end, what can be counted counts, and the operator sees the rest."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.reports import make_task_kit
from services.leader import work
from services.leader.app import COORDINATOR, STORE
from services.leader.config import LeaderConfig
from services.leader.store import LeaderStore
from tacit.errors import Fatal
from tacit.messages import Role
from tacit.roles.jobs import encode_request
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators
from tests.kit.postgres import MakeDatabase

KIT = make_task_kit(min_batch_size=7)
AT_B = make_task_kit(min_batch_size=7, batch_close=BatchClose.AT_B)


def pair_of(tmp_path: Path, kit: Any = KIT, **options: Any) -> AbstractAsyncContextManager[AggregatorPair]:
    return both_aggregators(kit, tmp_path, storage="file", **options)


async def accident(pair: AggregatorPair, sql: str) -> None:
    """Form jobs, and then damage the reports that are stored."""
    await pair.apps[Role.LEADER][COORDINATOR].step()
    assert (await pair.status(Role.LEADER))["jobs"] == {"formed": 1}
    async with pair.apps[Role.LEADER][STORE].transaction() as tx:
        await tx.connection.exec_driver_sql(sql)


async def settle(pair: AggregatorPair) -> None:
    """Let the Leader work until a job is split down to single reports."""
    for _ in range(12):
        await pair.work()


@pytest.mark.parametrize("kit", [KIT, AT_B], ids=["interval-end", "at-b"])
@pytest.mark.parametrize(
    ("sql", "cause"),
    [
        ("delete from reports where seq = (select min(seq) from reports)", "internal"),
        ("update reports set body = x'00' where seq = (select min(seq) from reports)", "internal"),
    ],
    ids=["missing", "damaged"],
)
async def test_one_lost_report_is_rejected_alone_and_holds_up_no_collection(
    tmp_path: Path, sql: str, cause: str, kit: Any
) -> None:
    reports = kit.reports(7)
    async with pair_of(tmp_path, kit) as pair:
        await pair.upload([reports.valid(1) for _ in range(5)])
        await accident(pair, sql)
        await settle(pair)
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["rejected_by_cause"]) == (4, {cause: 1})
        await pair.upload([reports.valid(3) for _ in range(3)])
        await pair.work()
        if kit is KIT:
            await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 4, 0, 3)


async def test_job_whose_reports_are_all_gone_ends_at_once(tmp_path: Path) -> None:
    reports = KIT.reports(8)
    async with pair_of(tmp_path) as pair:
        await pair.upload([reports.valid(1) for _ in range(5)])
        await accident(pair, "delete from reports")
        await settle(pair)
        counts = await pair.status(Role.LEADER)
        assert (counts["jobs"], counts["rejected_by_cause"]) == ({}, {"internal": 5})
        await pair.upload([reports.valid(2) for _ in range(7)])
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 0, 7, 0)


async def test_formed_job_that_stays_broken_is_shown_and_ends_with_the_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks it, and its tokens stay unspent: nothing of it was sent."""
    reports = KIT.reports(9)
    stuck = [reports.valid(3) for _ in range(2)]

    def broken(task: Any, state: Any, batch_id: Any) -> bytes:
        if len(state.rows.report_ids) == len(stuck):
            raise Fatal("this request cannot be made")
        return encode_request(task, state, batch_id)

    monkeypatch.setattr(work, "encode_request", broken)
    async with pair_of(tmp_path) as pair:
        await pair.upload(stuck)
        await pair.work()
        await pair.upload([reports.valid(1) for _ in range(7)])
        await pair.end_interval()
        created = await pair.create_collection()
        for _ in range(3):
            await pair.work()
            await pair.clock.advance(3601)
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["jobs"]) == (7, {"done": 1, "formed": 1})
        assert [one["cause"] for one in counts["failing_jobs"]] == ["broken"]
        assert (await pair.poll(created)).body == b""
        await pair.clock.advance(LeaderConfig.model_fields["limits"].default.collection_grace)
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert (counts["jobs"], counts["rejected_by_cause"]) == ({"done": 1}, {"internal": 2})
        assert (counts["distinct_nullifiers"], counts["pending"], counts["failing_jobs"]) == (7, 0, [])
        assert pair.opened(await pair.poll(created)).values == (0, 7, 0, 0)


async def test_lost_reports_are_rejected_on_postgres_too(tmp_path: Path, make_postgres_url: MakeDatabase) -> None:
    reports = KIT.reports(10)
    async with pair_of(tmp_path, databases={Role.LEADER: make_postgres_url(LeaderStore)}) as pair:
        await pair.upload([reports.valid(1) for _ in range(8)])
        await accident(pair, "delete from reports where seq = (select max(seq) from reports)")
        await settle(pair)
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 7, 0, 0)
        assert (await pair.status(Role.LEADER))["rejected_by_cause"] == {"internal": 1}
