"""A disk without room: uploads are told to come back, nothing acknowledged is lost, nothing counts twice, and with the
room comes back the work.

The disk is a small file system of its own, filled to the last byte by the test.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from client_agent.journal import State
from infra.backing.postgres import SUPERUSER, PostgresServer
from infra.base.free_ports import free_ports
from infra.lab.kit.aggregators import GATEWAY_TOKEN, AggregatorPair
from infra.lab.kit.reports import make_task_kit
from services.leader.app import STORE
from tacit import media_types
from tacit.errors import Unavailable
from tacit.messages import Report, Role, UploadRequest
from tacit.ports import HttpResponse
from tacit.service.app import UNAVAILABLE
from tacit.service.http.limits import RETRY_AFTER
from tacit.service.stores import PROBES
from tests.conftest import skip_or_fail
from tests.http.aggregator_pair import both_aggregators
from tests.http.test_agent_upload import KIT as AGENT_KIT
from tests.http.test_agent_upload import World, scheduled, world  # noqa: F401 - a fixture

KIT = make_task_kit(min_batch_size=5)
MOST_UPLOADS = 400
FULL = "there is no room for the database"
CHUNK = 1 << 16


class Disk:
    """A file system of a few MiB in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Fill the disk up to its last byte."""
        with self._ballast.open("wb", buffering=0) as file:
            size = CHUNK
            while size:
                try:
                    file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def empty(self) -> None:
        """Free the disk again by removing the ballast."""
        self._ballast.unlink()


@pytest.fixture
def make_disk() -> Iterator[Callable[[int], Disk]]:
    """``make_disk(megabytes)``: a file system of this test's own, gone afterwards."""
    with contextlib.ExitStack() as stack:

        def make(megabytes: int) -> Disk:
            folder = Path(tempfile.mkdtemp(prefix="tacit-disk-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            options = f"size={megabytes}m,mode=0711"
            command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
            if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
                skip_or_fail("tmpfs", "a small file system needs root and mount")
            stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
            return Disk(folder)

        yield make


@asynccontextmanager
async def pair_on(folder: Path, database: str | None = None) -> AsyncIterator[AggregatorPair]:
    pair = both_aggregators(KIT, folder, storage="file", databases={} if database is None else {Role.LEADER: database})
    async with pair:
        yield pair


def upload_body(report: Report) -> bytes:
    return UploadRequest((report,)).encode()


async def offered(pair: AggregatorPair, body: bytes) -> HttpResponse:
    return await pair.post_reports(body)


def check_refusal(answer: HttpResponse) -> None:
    """It is a 503 with all that belongs to it."""
    assert answer.status == 503
    assert answer.headers["content-type"] == media_types.PROBLEM_JSON
    assert RETRY_AFTER[0] <= int(answer.headers["retry-after"]) <= RETRY_AFTER[1]
    problem = json.loads(answer.body)
    assert (problem["type"], problem["status"]) == (UNAVAILABLE, 503)


async def trouble(pair: AggregatorPair, role: Role) -> str:
    """What it says of itself, after it has looked once more: 503 at ``/readyz`` where that is something, while the
    process lives."""
    for probing in pair.apps[role][PROBES]:
        await probing.step()
    alive, ready = await pair.get(role, "/healthz"), await pair.get(role, "/readyz")
    words = str(json.loads(ready.body).get("trouble", ""))
    assert (alive.status, ready.status) == (200, 503 if words else 200)
    return words


async def fill_with_uploads(pair: AggregatorPair, values: list[int]) -> bytes:
    """Upload until the first refusal; ``values`` gets what was acknowledged. Returns the body that was refused."""
    reports = KIT.reports(1)
    for number in range(MOST_UPLOADS):
        body = upload_body(reports.valid(number % 4))
        answer = await offered(pair, body)
        if answer.status != 200:
            check_refusal(answer)
            return body
        values.append(number % 4)
    raise AssertionError("the disk is larger than thought")


async def all_counted(pair: AggregatorPair, values: list[int]) -> None:
    """The release holds exactly ``values``, and each token once."""
    await pair.end_interval()
    found = pair.opened(await pair.collect())
    assert tuple(found.values) == tuple(values.count(value) for value in range(4))
    status = await pair.status(Role.LEADER)
    assert (status["aggregated"], status["rejected"], status["pending"]) == (len(values), 0, 0)
    assert status["distinct_nullifiers"] == len(values)


async def test_uploads_to_a_full_disk_are_refused_for_now_and_nothing_acknowledged_is_lost(
    make_disk: Callable[[int], Disk],
) -> None:
    disk = make_disk(3)
    async with pair_on(disk.folder) as pair:
        values = [0, 1, 2, 3]
        assert await pair.upload(map(KIT.reports(2).valid, values)) is None
        disk.fill()
        refused = await fill_with_uploads(pair, values)
        assert await trouble(pair, Role.LEADER) == FULL
        check_refusal(await offered(pair, refused))
        with pytest.raises(Unavailable):
            await pair.work()
        with contextlib.suppress(Unavailable):  # a small write may still find room in the database's own files
            async with pair.apps[Role.LEADER][STORE].transaction() as tx:
                await tx.put_log_state(b"little")
        assert await trouble(pair, Role.LEADER) == FULL
        disk.empty()
        assert (await offered(pair, refused)).status == 200
        assert (await offered(pair, refused)).status == 200, "the same again is the same"
        values.append((len(values) - 4) % 4)
        assert await trouble(pair, Role.LEADER) == ""
        await all_counted(pair, values)


async def test_helper_on_a_full_disk_gets_the_same_job_again_until_it_has_room(
    make_disk: Callable[[int], Disk], tmp_path: Path
) -> None:
    disk = make_disk(3)
    values = [0, 1, 1, 2, 3, 3] * 10
    async with pair_on(tmp_path) as pair:
        pair.settings[Role.HELPER]["state_dir"] = str(disk.folder)
        await pair.start(Role.HELPER)
        disk.fill()
        reports = KIT.reports(3)
        assert await pair.upload([reports.valid(value) for value in values]) is None
        await pair.work()
        (job,) = (await pair.status(Role.LEADER))["failing_jobs"]
        assert (job["cause"], job["size"]) == ("helper-status-503", len(values))
        assert await trouble(pair, Role.HELPER) == FULL
        assert (await pair.status(Role.LEADER))["aggregated"] == 0
        disk.empty()
        await pair.clock.advance(60)
        await pair.work()
        assert (await pair.status(Role.LEADER))["failing_jobs"] == []
        sent = {one.body for one in pair.network.exchanges if one.url.endswith("/aggregation_jobs")}
        assert len(sent) == 1
        await all_counted(pair, values)


async def test_device_keeps_its_report_while_the_leader_has_no_room_and_sends_the_same_bytes_later(
    make_disk: Callable[[int], Disk],
    world: World,  # noqa: F811
) -> None:
    disk = make_disk(3)
    leader = world.pair.settings[Role.LEADER]
    leader |= {"storage": "file", "state_dir": str(disk.folder)}
    await world.pair.start(Role.LEADER)
    disk.fill()
    reports = AGENT_KIT.reports(9)
    for _ in range(MOST_UPLOADS):  # what is left of the room in the database's own files
        path = f"/tasks/{AGENT_KIT.task.task_id_text}/reports"
        url = AGENT_KIT.task.configuration.leader_aggregator_endpoint + path
        headers = {"Content-Type": media_types.dap("upload-req"), "Authorization": f"Bearer {GATEWAY_TOKEN}"}
        body = upload_body(reports.valid(1))
        if (await world.pair.inner.request("POST", url, headers=headers, body=body)).status == 503:
            break
    before = await world.uploaded()
    entry = await scheduled(world)
    kept = entry.report
    for attempt in (1, 2):
        entry = await world.uploader.send(entry)
        assert (entry.state, entry.attempts, entry.report) == (State.SCHEDULED, attempt, kept)
        assert entry.detail == "the leader answered 503"
        await world.pair.clock.advance(entry.send_at - world.pair.clock.now())
    assert await world.uploaded() == before
    disk.empty()
    entry = await world.uploader.send(entry)
    assert (entry.state, entry.report) == (State.SENT, b"")
    assert await world.uploaded() == before + 1
    assert world.behind.seen is not None
    assert set(world.behind.seen) == {kept}
    assert len(world.behind.seen) == 3


@pytest.mark.usefixtures("postgres")
async def test_uploads_to_a_full_disk_of_the_database_server_are_refused_for_now(
    make_disk: Callable[[int], Disk], tmp_path: Path
) -> None:
    disk = make_disk(160)
    server = PostgresServer.create(disk.folder / "server", free_ports(1)[0], secrets.token_hex(16))
    server.extra["max_wal_size"] = "32MB"
    server.start()
    try:
        url = server.url_of(SUPERUSER, server.password, "postgres")
        async with pair_on(tmp_path, url) as pair:
            values = [0, 1, 2, 3]
            assert await pair.upload(map(KIT.reports(2).valid, values)) is None
            disk.fill()
            refused = await fill_with_uploads(pair, values)
            assert await trouble(pair, Role.LEADER) != ""
            disk.empty()
            assert (await offered(pair, refused)).status == 200
            assert await trouble(pair, Role.LEADER) == ""
            values.append((len(values) - 4) % 4)
            await all_counted(pair, values)
    finally:
        server.crash()
