"""A database that was restored from the past is noticed before it takes again what was spent (P32)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.reports import make_task_kit
from services.helper.app import STORE
from tacit.errors import UsageError
from tacit.messages import Role
from tests.http.test_after_the_end import made
from tests.http.test_helper import job_of, pair_of, post_job

KIT = make_task_kit(min_batch_size=3)
NAMES = {Role.LEADER: "leader", Role.HELPER: "helper"}


async def stop(pair: AggregatorPair, role: Role) -> None:
    task = pair.task.configuration
    leader = role is Role.LEADER
    await pair.inner.unmount(task.leader_aggregator_endpoint if leader else task.helper_aggregator_endpoint)


async def back_up(pair: AggregatorPair, role: Role, folder: Path) -> Path:
    """A copy of the database, made while the service stands still; then it goes on."""
    await stop(pair, role)
    backup = folder / "backup.sqlite3"
    shutil.copy(database_of(pair, role), backup)
    await pair.start(role)
    return backup


def database_of(pair: AggregatorPair, role: Role) -> Path:
    return Path(pair.settings[role]["state_dir"]) / f"{NAMES[role]}.sqlite3"


@pytest.mark.parametrize("role", list(NAMES))
async def test_an_aggregator_on_an_older_database_does_not_release_what_it_released(tmp_path: Path, role: Role) -> None:
    async with pair_of(tmp_path, KIT, storage="file") as pair:
        assert await pair.upload(made(KIT, 1, 3)) is None
        await pair.end_interval()
        backup = await back_up(pair, role, tmp_path)
        await pair.work()
        assert pair.opened(await pair.collect()).report_count == 3
        await stop(pair, role)
        shutil.copy(backup, database_of(pair, role))
        for _ in range(2):
            with pytest.raises(UsageError, match=rf"{NAMES[role]}\.mark: the database is older .* --accept-rollback"):
                await pair.start(role)


async def test_a_helper_takes_no_job_once_its_database_was_replaced_under_it(
    tmp_path: Path, make_postgres_url: Callable[[], str]
) -> None:
    reports = made(KIT, 2, 4)
    async with pair_of(tmp_path, KIT, databases={Role.HELPER: make_postgres_url()}) as pair:
        await pair.end_interval()
        assert (await post_job(pair, job_of(reports[:2], KIT))).status == 201
        async with pair.apps[Role.HELPER][STORE].transaction() as tx:
            for table in ("outcomes", "buckets", "aggregation_jobs", "tacit_marks where shard >= 0"):
                await tx.connection.exec_driver_sql(f"delete from {table}")  # noqa: S608 - own names
        for _ in range(2):
            assert (await post_job(pair, job_of(reports, KIT))).status == 503
        async with pair.apps[Role.HELPER][STORE].read() as tx:
            assert await tx.accepted_count(KIT.task.task_id) == 0
