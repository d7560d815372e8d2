"""Reports of long vectors: jobs by the bytes of their reports, and no more of the bytes in memory than one chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.reports import make_task_kit
from services.leader import work
from services.leader.store import LeaderStore
from tacit.messages import Role
from tacit.roles import jobs
from tacit.roles.jobs import chunk_size, prepare_helper, prepare_leader
from tacit.roles.leader import report_bytes
from tacit.vdaf.prio3 import Prio3SumVec
from tests.http.aggregator_pair import both_aggregators
from tests.kit.postgres import MakeDatabase

KIT = make_task_kit(Prio3SumVec(2, 2048, 7, 64), min_batch_size=10)
MEGABYTE = 1 << 20
IN_A_JOB, IN_A_CHUNK = 9, 4
FACTORY = KIT.reports(1)
REPORTS = [FACTORY.valid([place % 8] * 2048) for place in range(20)]


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of reports in each chunk that either aggregator prepares, under a lower bound on their bytes."""
    seen: list[int] = []

    def counting(prepare: Callable[..., Any]) -> Callable[..., Any]:
        def counted(party: Any, reports: Sequence[Any], *rest: Any, **named: Any) -> Any:
            seen.append(len(reports))
            return prepare(party, reports, *rest, **named)

        return counted

    monkeypatch.setattr(jobs, "CHUNK_BYTES", IN_A_CHUNK * report_bytes(KIT.task))
    monkeypatch.setattr(work, "prepare_leader", counting(prepare_leader))
    monkeypatch.setattr("services.helper.service.prepare_helper", counting(prepare_helper))
    return seen


def test_chunks_of_small_reports_are_bounded_by_number_and_those_of_large_ones_by_bytes() -> None:
    assert chunk_size(make_task_kit().task) == jobs.CHUNK
    assert chunk_size(KIT.task) == jobs.CHUNK_BYTES // report_bytes(KIT.task) < jobs.CHUNK


@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
async def test_a_job_is_bounded_by_the_bytes_of_its_reports_and_prepared_in_chunks(
    tmp_path: Path, chunks: list[int], storage: str, make_postgres_url: MakeDatabase
) -> None:
    assert MEGABYTE // report_bytes(KIT.task) == IN_A_JOB
    named = {Role.LEADER: make_postgres_url(LeaderStore)} if storage == "postgres" else None
    async with both_aggregators(KIT, tmp_path, storage="file", limits={"job_bytes": MEGABYTE}, databases=named) as pair:
        assert await pair.upload(REPORTS[:9]) is None
        assert await pair.upload(REPORTS[9:18]) is None
        assert await pair.upload(REPORTS[18:]) is None
        await pair.work()
        assert (await pair.status(Role.LEADER))["jobs"] == {"done": 3}
        assert sorted(chunks) == sorted(2 * [4, 4, 1, 4, 4, 1, 2]), "jobs of 9, 9 and 2, at each aggregator"
        await pair.end_interval()
        result = pair.opened(await pair.collect())
    assert (result.report_count, result.values) == (20, (sum(place % 8 for place in range(20)),) * 2048)


async def test_states_beyond_the_bytes_that_are_kept_are_made_again_with_the_same_request(
    tmp_path: Path, chunks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "KEPT_BYTES", 1)
    async with both_aggregators(KIT, tmp_path, limits={"job_bytes": MEGABYTE}) as pair:
        pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        assert await pair.upload(REPORTS[:9]) is None
        assert await pair.upload(REPORTS[9:18]) is None
        await pair.work()
        failing = (await pair.status(Role.LEADER))["failing_jobs"]
        assert sorted(job["size"] for job in failing) == [9, 9]
        asked = {exchange.body for exchange in pair.network.exchanges}
        pair.network.heal()
        chunks.clear()
        await pair.clock.advance(600)
        await pair.work()
        assert {exchange.body for exchange in pair.network.exchanges} == asked, "no other bytes than the first time"
        assert max(chunks) <= IN_A_CHUNK
        assert (await pair.status(Role.LEADER))["aggregated"] == 18
