"""Leader and Helper die at every point where they store something, and lose every message once: each acknowledged
report is counted exactly once, whatever happens.

Measurements are one-hot and every bucket's count is known, so that a report lost or counted twice shows in the sum.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.network import DUPLICATE, LOSE_REQUEST, LOSE_RESPONSE, Fault, at
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper import app as helper_app
from services.leader import app as leader_app
from services.leader import work
from tacit.messages import Report, Role, UploadRequest
from tacit.ports import HttpResponse, TransportError
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators, reports_of
from tests.http.power_cut import PowerCut, PowerCutError

KIT = make_task_kit(min_batch_size=7)
AT_B = make_task_kit(min_batch_size=7, batch_close=BatchClose.AT_B)
STORES: dict[Role, web.AppKey[Any]] = {Role.LEADER: leader_app.STORE, Role.HELPER: helper_app.STORE}
EXPECTED = (3, 2, 1, 1)
LIMIT = 60


def pair_of(tmp_path: Path, kit: TaskKit) -> AggregatorPair:
    return both_aggregators(kit, tmp_path, storage="file", limits={"job_size": 5})


async def until(attempt: Callable[[], Any]) -> Any:
    """What a client does: the same again until it is answered."""
    for _ in range(LIMIT):
        try:
            found = await attempt()
        except (PowerCutError, TransportError):
            continue
        if found is not None:
            return found
    raise AssertionError("it never ended")


class Run:
    """One collection from upload to result, with a repair after every accident."""

    def __init__(self, pair: AggregatorPair, repair: Callable[[], Any]) -> None:
        self.pair = pair
        self.repair = repair

    async def finish(self, reports: list[Report]) -> HttpResponse:
        """Upload, aggregate, collect; returns the result's answer."""
        await until(lambda: self._upload(reports))
        await self.pair.end_interval()
        created = await until(self._create)
        result: HttpResponse = await until(lambda: self._poll(created))
        return result

    async def _upload(self, reports: list[Report]) -> bool | None:
        body = UploadRequest(tuple(reports)).encode()
        answer = await self.pair.post_reports(body)
        await self.repair()
        return True if (answer.status, answer.body) == (200, b"") else None

    async def _create(self) -> HttpResponse | None:
        answer = await self.pair.create_collection()
        await self.repair()
        return answer if answer.status == 201 else None

    async def _poll(self, created: HttpResponse) -> HttpResponse | None:
        try:
            await self.pair.work()
        except PowerCutError:
            await self.repair()
        await self.repair()
        await self.pair.clock.advance(61)
        answer = await self.pair.poll(created)
        if answer.status != 200:
            raise AssertionError(json.loads(answer.body))
        return answer if answer.body else None


async def run_with_power_cut(tmp_path: Path, kit: TaskKit, role: Role, number: int, *, committed: bool) -> bool:
    """One run in which ``role`` dies once; returns whether the cut happened at all."""
    async with pair_of(tmp_path, kit) as pair:
        cut = PowerCut(pair.apps[role][STORES[role]], number, committed=committed)

        async def repair() -> None:
            if cut.happened and not restarted:
                restarted.append(role)
                await pair.start(role)

        restarted: list[Role] = []
        answer = await Run(pair, repair).finish(reports_of(kit))
        assert pair.opened(answer).values == EXPECTED, f"{role.name} cut at {number}, committed={committed}"
    return cut.happened


@pytest.mark.parametrize(
    ("kit", "role", "committed"),
    [
        (KIT, Role.LEADER, False),
        (KIT, Role.LEADER, True),
        (KIT, Role.HELPER, False),
        (KIT, Role.HELPER, True),
        (AT_B, Role.LEADER, True),
    ],
    ids=["leader-before", "leader-after", "helper-before", "helper-after", "leader-at-b-after"],
)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["every-fifth", "every"])
async def test_power_cut_at_a_commit_loses_and_repeats_nothing(
    tmp_path: Path, kit: TaskKit, role: Role, step: int, *, committed: bool
) -> None:
    number = 0
    while await run_with_power_cut(tmp_path / str(number), kit, role, number, committed=committed):
        number += step
    assert number >= 3, "a run has fewer commits than it should"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_RESPONSE, DUPLICATE], ids=["request", "response", "twice"])
@pytest.mark.parametrize("kit", [KIT, AT_B], ids=["interval-end", "at-b"])
async def test_every_message_to_the_helper_may_be_lost_once(tmp_path: Path, kit: TaskKit, fault: Fault) -> None:
    async def nothing() -> None:
        return

    async with pair_of(tmp_path, kit) as pair:
        pair.network.plan = at(dict.fromkeys(range(0, 40, 2), fault))
        answer = await Run(pair, nothing).finish(reports_of(kit))
        assert pair.opened(answer).values == EXPECTED
        assert len(pair.network.exchanges) >= 3


async def test_spent_token_stays_spent_after_both_were_restarted(tmp_path: Path) -> None:
    reports = KIT.reports(5)
    token = reports.token()
    async with pair_of(tmp_path, KIT) as pair:
        await pair.upload([reports.valid(1, token=token)])
        await pair.work()
        for role in (Role.LEADER, Role.HELPER):
            await pair.start(role)
        await pair.upload([reports.valid(1, token=token)])
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["rejected_by_cause"]) == (1, {"token-spent": 1})


async def test_job_whose_reports_changed_at_rest_stays_and_holds_up_nothing(tmp_path: Path) -> None:
    reports = KIT.reports(6)
    async with pair_of(tmp_path, KIT) as pair:
        await pair.upload([reports.valid(1)])
        pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        await pair.work()
        async with pair.apps[Role.LEADER][leader_app.STORE].transaction() as tx:
            await tx.connection.exec_driver_sql("update reports set body = x'00'")
        await pair.start(Role.LEADER)
        pair.network.heal()
        await pair.upload([reports.valid(1)])
        await pair.clock.advance(61)
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["jobs"]) == (1, {"done": 1, "sent": 1})


async def test_a_sent_job_that_lacks_memory_is_shown_with_that_and_goes_on_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = KIT.reports(8)

    def failing(*_: Any, **__: Any) -> Any:
        raise MemoryError

    async with pair_of(tmp_path, KIT) as pair:
        await pair.upload([reports.valid(1) for _ in range(5)])
        pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        await pair.work()
        await pair.start(Role.LEADER)
        pair.network.heal()
        with monkeypatch.context() as patch:
            patch.setattr(work, "prepare_leader", failing)
            await pair.clock.advance(61)
            await pair.work()
            (job,) = (await pair.status(Role.LEADER))["failing_jobs"]
            assert (job["state"], job["cause"]) == ("sent", "MemoryError")
        await pair.clock.advance(3601)
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["jobs"], counts["failing_jobs"]) == (5, {"done": 1}, [])


@pytest.mark.parametrize(
    "accident",
    [
        "update reports set body = x'00'",
        "update reports set body = cast(body || x'00' as blob)",
        "delete from reports",
    ],
)
@pytest.mark.parametrize("shortened", [False, True], ids=["by default", "shortened by the operator"])
async def test_job_whose_bytes_cannot_be_made_again_holds_up_the_collection_until_the_grace_is_over(
    tmp_path: Path, accident: str, *, shortened: bool
) -> None:
    """The others are released then; it ends like a job that is never answered."""
    reports = KIT.reports(7)
    async with pair_of(tmp_path, KIT) as pair:
        await pair.upload([reports.valid(3) for _ in range(2)])
        pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        await pair.work()
        async with pair.apps[Role.LEADER][leader_app.STORE].transaction() as tx:
            await tx.connection.exec_driver_sql(accident)
        await pair.start(Role.LEADER)
        pair.network.heal()
        await pair.upload([reports.valid(1) for _ in range(7)])
        await pair.end_interval()
        created = await pair.create_collection()
        for _ in range(3):
            await pair.clock.advance(3601)
            await pair.work()
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["jobs"]) == (7, {"done": 2, "sent": 1})
        ((cause, attempts),) = [(one["cause"], one["attempts"]) for one in counts["failing_jobs"]]
        assert (cause, attempts >= 3) == ("broken", True)
        assert (await pair.poll(created)).body == b""
        if shortened:
            pair.settings[Role.LEADER]["limits"]["collection_grace"] = 3600.0
            await pair.start(Role.LEADER)
        await pair.clock.advance(61 if shortened else 4 * 86_400)
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["jobs"]) == (7, {"done": 2, "failed": 1})
        assert pair.opened(await pair.poll(created)).values == (0, 7, 0, 0)


async def test_job_is_sent_with_identical_bytes_until_it_is_answered(tmp_path: Path) -> None:
    async with pair_of(tmp_path, KIT) as pair:
        reports = KIT.reports(2)
        await pair.upload(reports.valid(1) for _ in range(3))
        pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        for _ in range(4):
            await pair.work()
            await pair.clock.advance(61)
        await pair.start(Role.LEADER)
        await pair.work()
        pair.network.heal()
        await pair.clock.advance(61)
        await pair.work()
        bodies = [exchange.body for exchange in pair.network.exchanges]
        assert len(bodies) >= 5
        assert len(set(bodies)) == 1
        counts = await pair.status(Role.LEADER)
        assert (counts["aggregated"], counts["jobs"]) == (3, {"done": 1})


async def test_job_that_is_never_answered_fails_after_the_grace_and_counts_nothing(tmp_path: Path) -> None:
    async with pair_of(tmp_path, KIT) as pair:
        reports = KIT.reports(3)
        await pair.upload(reports.valid(1) for _ in range(3))
        pair.network.partition(KIT.task.configuration.helper_aggregator_endpoint)
        await pair.work()
        await pair.end_interval()
        await pair.clock.advance(8 * 86_400)
        await pair.work()
        counts = await pair.status(Role.LEADER)
        assert counts["jobs"] == {"failed": 1}
        assert counts["rejected_by_cause"] == {"job-failed": 3}
        assert (counts["pending"], counts["distinct_nullifiers"]) == (0, 0)


async def test_no_share_is_left_in_the_leaders_database_after_aggregation(tmp_path: Path) -> None:
    report = KIT.reports(4).valid(1)
    planted = report.leader_encrypted_input_share.payload[:64]
    async with pair_of(tmp_path, KIT) as pair:
        await pair.upload([report])
        files = [path for path in (tmp_path / "leader").iterdir() if "sqlite" in path.name]
        assert any(planted in path.read_bytes() for path in files)
        await pair.work()
    assert not any(planted in path.read_bytes() for path in (tmp_path / "leader").iterdir())
