"""Several Helper processes on one PostgreSQL database: whoever gets a request first answers it, and once.

The applications here have nothing in common but the database; requests reach them at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from infra.lab.kit.aggregators import PEER_TOKEN, RETENTION, mount_serving, party_of, settings_of
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper.app import STORE, create_app
from services.helper.config import HelperConfig
from services.helper.store import HelperStore
from tacit import media_types
from tacit.aggregator.log_follower import FOLLOWER
from tacit.dap_errors import ReportError
from tacit.messages import (
    AggregateShareReq,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchSelector,
    CollectionJobReq,
    Query,
    Report,
    Role,
    VerifyRespType,
)
from tacit.ports import HttpResponse
from tacit.roles.aggregator import Tally, checksum_of, merge
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.task import BatchClose
from tests.kit.oracles import helper as helper_role
from tests.kit.oracles import leader as leader_role
from tests.kit.oracles.aggregator import fold
from tests.kit.oracles.helper import Verified
from tests.kit.oracles.leader import Prepared
from tests.kit.postgres import MakeDatabase

KIT = make_task_kit(min_batch_size=3)
AT_B = make_task_kit(min_batch_size=3, batch_close=BatchClose.AT_B)
BATCH = bytes(range(32))
PROCESSES = 3
ROUNDS = 4


class Helpers:
    """Helper processes of ``kit``'s task on one database."""

    def __init__(self, kit: TaskKit, folder: Path, url: str, count: int = PROCESSES) -> None:
        self.kit = kit
        self.clock = SimClock(float(kit.task.end_seconds))
        self.network = InProcessTransport()
        settings = settings_of(folder, kit, Role.HELPER, "file")
        write_secret(folder / "database", url.encode())
        config = HelperConfig.model_validate({**settings, "database_file": str(folder / "database")})
        self.apps = [
            create_app(config, ServiceEnv(self.clock, SeededEntropy(number), self.network, background=False))
            for number in range(count)
        ]

    async def start(self) -> None:
        """Start one after the other, as a rolling restart does."""
        for number, app in enumerate(self.apps):
            await mount_serving(self.network, self._base(number), app, party_of(self.kit, Role.HELPER))

    def _base(self, process: int) -> str:
        return f"http://helper-{process}.example"

    async def send(self, process: int, path: str, message: str, body: bytes) -> HttpResponse:
        """One request of the Leader's to one process."""
        url = f"{self._base(process)}/tasks/{self.kit.task.task_id_text}{path}"
        headers = {"Authorization": f"Bearer {PEER_TOKEN}", "Content-Type": media_types.dap(message)}
        return await self.network.request("POST", url, headers=headers, body=body)

    async def end_task(self, process: int) -> None:
        """The retention passes on the clock of one process, which takes note, and no other does: then the clock is
        where it was."""
        now = self.clock.now()
        self.clock.jump(RETENTION + 1)
        await self.apps[process][FOLLOWER].end_tasks()
        self.clock.jump(now - self.clock.now())

    async def jobs_at_once(self, requests: Sequence[AggregationJobInitReq], first: int = 0) -> list[HttpResponse]:
        """Request n to process ``first`` + n, all at the same time."""
        sent = [
            self.send(process, "/aggregation_jobs", "aggregation-job-init-req", request.encode())
            for process, request in enumerate(requests, first)
        ]
        return await asyncio.gather(*sent)

    async def share(self, process: int, request: AggregateShareReq) -> HttpResponse:
        """Ask one process for the aggregate share."""
        return await self.send(process, "/aggregate_shares", "aggregate-share-req", request.encode())

    async def tally(self) -> Tally | None:
        """What the database holds of the whole task."""
        async with self.apps[0][STORE].read() as tx:
            return await tx.tally(self.kit.task)

    async def accepted(self) -> int:
        """Distinct tokens that count."""
        async with self.apps[0][STORE].read() as tx:
            return await tx.accepted_count(self.kit.task.task_id)


@asynccontextmanager
async def running(kit: TaskKit, folder: Path, url: str) -> AsyncIterator[Helpers]:
    helpers = Helpers(kit, folder, url)
    try:
        await helpers.start()
        yield helpers
    finally:
        await helpers.network.close()


def prepared(kit: TaskKit, reports: Sequence[Report]) -> list[Prepared]:
    party = party_of(kit, Role.LEADER)
    found = [leader_role.prepare_report(party, report, float(kit.task.end_seconds)) for report in reports]
    assert all(isinstance(one, Prepared) for one in found)
    return [one for one in found if isinstance(one, Prepared)]


def job_of(kit: TaskKit, reports: Sequence[Report], batch_id: bytes | None = None) -> AggregationJobInitReq:
    return leader_role.init_request(kit.task, prepared(kit, reports), batch_id)


def tally_of(kit: TaskKit, reports: Sequence[Report], batch_id: bytes | None = None) -> Tally | None:
    """What a Helper holds once each of ``reports`` counted once."""
    party = party_of(kit, Role.HELPER)
    found = [
        helper_role.prepare_report(party, one.verify_init, float(kit.task.end_seconds))
        for one in prepared(kit, reports)
    ]
    verified = [one.accepted for one in found if isinstance(one, Verified)]
    return merge(kit.task, fold(kit.task, verified, batch_id).values())


def verdicts(response: HttpResponse) -> dict[bytes, ReportError | None]:
    """The error of every report that was answered, None for one that counts."""
    assert response.status == 201, response.body
    resps = AggregationJobResp.decode(response.body).verify_resps
    assert all((resp.report_error is None) == (resp.verify_resp_type is VerifyRespType.CONTINUE) for resp in resps)
    return {resp.report_id: resp.report_error for resp in resps}


def ids(reports: Sequence[Report]) -> list[bytes]:
    return [report.report_metadata.report_id for report in reports]


async def test_one_job_sent_to_every_process_at_once_has_one_answer_and_counts_once(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    make = KIT.reports(1)
    sent: list[Report] = []
    async with running(KIT, tmp_path, make_postgres_url(HelperStore)) as helpers:
        for _ in range(ROUNDS):
            reports = [make.valid(at % 4) for at in range(4)]
            sent += reports
            answers = await helpers.jobs_at_once([job_of(KIT, [*reports, make.bad_proof(1)])] * PROCESSES)
            assert {answer.status for answer in answers} == {201}
            assert len({(answer.body, answer.headers["location"].rpartition("/")[2]) for answer in answers}) == 1
            assert [verdicts(answers[0])[report_id] for report_id in ids(reports)] == [None] * 4
            assert await helpers.tally() == tally_of(KIT, sent)
        assert await helpers.accepted() == len(sent)
        async with helpers.apps[1][STORE].read() as tx:
            assert await tx.job_count(KIT.task.task_id) == ROUNDS
            assert await tx.report_counts(KIT.task.task_id) == {"aggregated": 4 * ROUNDS, "rejected": ROUNDS}


async def test_a_report_in_several_jobs_at_once_counts_in_one_of_them(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    make = KIT.reports(2)
    sent: list[Report] = []
    async with running(KIT, tmp_path, make_postgres_url(HelperStore)) as helpers:
        for _ in range(ROUNDS):
            reports = [make.valid(at % 4) for at in range(6)]
            sent += reports
            jobs = [job_of(KIT, part) for part in (reports[:4], reports[:1:-1], reports[1:5])]
            found = [verdicts(answer) for answer in await helpers.jobs_at_once(jobs)]
            for report_id in ids(reports):
                fates = [job[report_id] for job in found if report_id in job]
                assert fates.count(None) == 1
                assert fates.count(ReportError.REPORT_REPLAYED) == len(fates) - 1
            assert await helpers.tally() == tally_of(KIT, sent)
        assert await helpers.accepted() == len(sent)


async def test_a_token_in_several_jobs_at_once_is_spent_once(tmp_path: Path, make_postgres_url: MakeDatabase) -> None:
    make = KIT.reports(3)
    counted: list[Report] = []
    async with running(KIT, tmp_path, make_postgres_url(HelperStore)) as helpers:
        for _ in range(ROUNDS):
            tokens = [make.token() for _ in range(3)]
            jobs = [[make.valid(at, token=token) for at, token in enumerate(tokens)] for _ in range(PROCESSES)]
            answers = await helpers.jobs_at_once([job_of(KIT, reports) for reports in jobs])
            found = [verdicts(answer) for answer in answers]
            for at in range(len(tokens)):
                fates = [job[ids(reports)[at]] for job, reports in zip(found, jobs, strict=True)]
                assert fates.count(None) == 1
                assert fates.count(ReportError.REPORT_REPLAYED) == PROCESSES - 1
                counted.append(jobs[fates.index(None)][at])
            assert await helpers.tally() == tally_of(KIT, counted)
        async with helpers.apps[0][STORE].read() as tx:
            assert await tx.rejections(KIT.task.task_id) == {"token-spent": (PROCESSES - 1) * 3 * ROUNDS}


def share_request(kit: TaskKit, reports: Sequence[Report], batch_id: bytes) -> AggregateShareReq:
    query, selector = Query.leader_selected(), BatchSelector.leader_selected(batch_id)
    return AggregateShareReq(CollectionJobReq(query), selector, len(reports), checksum_of(ids(reports)))


async def test_a_batch_is_released_without_a_job_that_comes_at_the_same_time_or_not_at_all(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    make = AT_B.reports(4)
    released = 0
    async with running(AT_B, tmp_path, make_postgres_url(HelperStore)) as helpers:
        for number in range(ROUNDS):
            batch_id = bytes([number]) * 32
            reports = [make.valid(1) for _ in range(3)]
            await helpers.jobs_at_once([job_of(AT_B, reports, batch_id)])
            late = make.valid(1)
            (job,), share = await asyncio.gather(
                helpers.jobs_at_once([job_of(AT_B, [late], batch_id)]),
                helpers.share(1, share_request(AT_B, reports, batch_id)),
            )
            fate = verdicts(job)[ids([late])[0]]
            assert (fate, share.status) in {(None, 400), (ReportError.BATCH_COLLECTED, 201)}
            released += share.status == 201
        async with helpers.apps[2][STORE].read() as tx:
            assert await tx.release_count(AT_B.task.task_id) == released


async def test_an_aggregate_share_asked_of_every_process_at_once_is_sealed_once(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    make = AT_B.reports(5)
    async with running(AT_B, tmp_path, make_postgres_url(HelperStore)) as helpers:
        reports = [make.valid(1) for _ in range(6)]
        jobs = [job_of(AT_B, reports[at : at + 2], BATCH) for at in (0, 2, 4)]
        assert [set(verdicts(answer).values()) for answer in await helpers.jobs_at_once(jobs)] == [{None}] * 3
        request = share_request(AT_B, reports, BATCH)
        shares = await asyncio.gather(*(helpers.share(process, request) for process in range(PROCESSES)))
        assert len({(share.status, share.body) for share in shares}) == 1
        assert shares[0].status == 201


async def test_processes_keep_buckets_of_their_own(tmp_path: Path, make_postgres_url: MakeDatabase) -> None:
    async with running(KIT, tmp_path, make_postgres_url(HelperStore)) as helpers:
        make = KIT.reports(6)
        reports = [make.valid(at) for at in range(PROCESSES)]
        await helpers.jobs_at_once([job_of(KIT, [report]) for report in reports])
        async with helpers.apps[0][STORE].read() as tx:
            shards = [row.shard for row in await tx.connection.execute(tx.common.buckets.select())]
        assert sorted(shards) == list(range(PROCESSES))
        assert await helpers.tally() == tally_of(KIT, reports)


async def test_a_process_that_starts_later_gives_the_answers_of_the_others(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    url = make_postgres_url(HelperStore)
    request = job_of(KIT, [KIT.reports(7).valid(1)])
    async with running(KIT, tmp_path, url) as first:
        (before,) = await first.jobs_at_once([request])
    async with running(KIT, tmp_path, url) as second:
        answers = await second.jobs_at_once([request] * PROCESSES)
        assert [answer.body for answer in answers] == [before.body] * PROCESSES
        assert await second.accepted() == 1
