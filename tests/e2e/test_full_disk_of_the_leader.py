"""The leader of a running stack, its database and its log on a disk that fills up while reports arrive."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.lab.bench.loading.live import LiveStack
from infra.stacks.layout import load_layout
from tacit.adapters.network.http import HttpTransport
from tacit.operations.status import DeploymentStatus
from tests.e2e.test_faults_on_real_servers import carried_through, laid_out, statuses, told, until
from tests.http.test_full_disk import Disk, make_disk  # noqa: F401 - a fixture
from tests.kit.processes import ReadyProcess

MEGABYTES = 4


def log_emptied(folder: Path) -> bool:
    """Empty the write-ahead log of the one database in ``folder``, whose free pages would hold all reports that are
    still to come; False where a reader is in the way."""
    [log] = folder.rglob("*-wal")
    with contextlib.closing(sqlite3.connect(log.with_name(log.name.removesuffix("-wal")))) as connection:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


@pytest.mark.slow
async def test_devices_wait_until_a_full_leader_has_room_and_every_report_counts_once(
    make_disk: Callable[[int], Disk],  # noqa: F811
    tmp_path: Path,
) -> None:
    disk = make_disk(MEGABYTES)
    layout = laid_out(tmp_path / "stack")
    folder = layout.configs["leader"].parent
    shutil.move(folder, disk.folder / "leader")
    folder.symlink_to(disk.folder / "leader")
    command = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--agents", "0"]
    command += ["--state-dir", str(layout.state_dir)]
    with ReadyProcess(command, tmp_path / "stderr") as process:
        await asyncio.to_thread(process.ready)
        layout = load_layout(layout.state_dir)

        async def there_is_no_room_in_the_log() -> bool:
            return await asyncio.to_thread(log_emptied, disk.folder / "leader")

        async def it_is_full_for_a_while() -> None:
            await until("the write-ahead log is empty", there_is_no_room_in_the_log)
            disk.fill()
            await told(layout, "leader is not ready: there is no room for the database")
            disk.empty()

        async with HttpTransport() as transport:
            live = LiveStack(layout, [], transport)
            await live.until_keys()
            devices = await carried_through(live, it_is_full_for_a_while)
        assert devices.retried

        async def all_is_well() -> bool:
            after: DeploymentStatus = await statuses(layout)
            tokens = {
                line for slot in after.issuance for line in slot.mismatches
            }  # which these devices made themselves
            return all(line.partition(": ")[2] in tokens for line in after.problems)

        await until("all is well", all_is_well)

        async def it_is_said() -> bool:
            return "leader is ready again" in process.stderr or "leader is not ready" not in process.stderr

        await until("tacit up says that the leader is ready again", it_is_said)
        process.signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 0
