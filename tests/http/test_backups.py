"""``tacit backup`` of a service that runs, ``tacit restore`` of one that was stopped, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from infra.backups import CONTENTS, DATABASES, back_up, back_up_into, read_contents, restore
from infra.cli import run
from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.reports import make_task_kit
from tacit.adapters.postgres import administer
from tacit.errors import UsageError
from tacit.messages import Role
from tests.http.test_after_the_end import made
from tests.http.test_helper import pair_of
from tests.http.test_restored_databases import NAMES, database_of, stop

real_gmtime = time.gmtime
KIT = make_task_kit(min_batch_size=3)
BOTH = pytest.mark.parametrize("role", list(NAMES))


def config_of(pair: AggregatorPair, role: Role) -> Path:
    path = Path(pair.settings[role]["state_dir"]) / "config.json"
    path.write_text(json.dumps(pair.settings[role]))
    return path


def made_url(make_postgres_url: Callable[[], str]) -> str:
    """A database and its owner, as every service has them: no superuser."""
    admin, name = make_url(make_postgres_url()), f"tacit_{secrets.token_hex(4)}"
    statements = [f"CREATE ROLE {name} LOGIN PASSWORD 'secret'", f"CREATE DATABASE {name} OWNER {name}"]
    asyncio.run(administer(admin, [*statements, f"REVOKE ALL ON DATABASE {name} FROM PUBLIC"]))
    return admin.set(username=name, password="secret", database=name).render_as_string(hide_password=False)


async def put_back(pair: AggregatorPair, role: Role, backup: Path) -> None:
    await asyncio.to_thread(restore, NAMES[role], config_of(pair, role), backup)


async def refused_once_older(pair: AggregatorPair, role: Role, tmp_path: Path) -> None:
    """Back up while it runs, go on, restore: refused; what was newest, put back, goes on and has lost nothing."""
    name, older, newest = NAMES[role], tmp_path / "older", tmp_path / "newest"
    assert await pair.upload(made(KIT, 1, 3)) is None
    await pair.end_interval()
    await asyncio.to_thread(back_up, name, config_of(pair, role), older)
    await pair.work()
    result = pair.opened(await pair.collect())
    assert result.report_count == 3
    await asyncio.to_thread(back_up, name, config_of(pair, role), newest)
    with pytest.raises(UsageError, match=r"has (it|the database) open"):
        await put_back(pair, role, older)
    await stop(pair, role)
    await put_back(pair, role, older)
    with pytest.raises(UsageError, match=rf"{name}\.mark: the database is older .* --accept-rollback"):
        await pair.start(role)
    await put_back(pair, role, newest)
    await pair.start(role)
    assert pair.opened(await pair.collect()) == result, "the same release as before, and none beside it"


@BOTH
async def test_an_older_backup_is_refused_and_the_newest_goes_on(tmp_path: Path, role: Role) -> None:
    async with pair_of(tmp_path, KIT, storage="file") as pair:
        await refused_once_older(pair, role, tmp_path)
        kept = list(database_of(pair, role).parent.glob("*.before-*"))
        assert kept
        with sqlite3.connect(kept[0]) as found:
            assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_so_it_is_on_postgresql(tmp_path: Path, make_postgres_url: Callable[[], str]) -> None:
    url = made_url(make_postgres_url)

    async def both() -> None:
        async with pair_of(tmp_path, KIT, databases={Role.LEADER: url}) as pair:
            await refused_once_older(pair, Role.LEADER, tmp_path)
            assert (tmp_path / "newest" / DATABASES["postgres"]).stat().st_mode & 0o777 == 0o600
            assert b"secret" not in (tmp_path / "newest" / CONTENTS).read_bytes()

    asyncio.run(both())


async def test_a_backup_goes_where_nothing_else_is_and_is_whole_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with pair_of(tmp_path, KIT, storage="file") as pair:
        assert await pair.upload(made(KIT, 1, 3)) is None
        config, backup = config_of(pair, Role.LEADER), tmp_path / "backup"
        words = ["leader", "--config", str(config)]
        assert await asyncio.to_thread(run, ["backup", *words, "--out", str(backup), "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["service"] == "leader"
        assert set(said["files"]) == {DATABASES["sqlite"]} == {path.name for path in backup.iterdir()} - {CONTENTS}
        with pytest.raises(UsageError, match="never replaces another"):
            back_up("leader", config, backup)
        with pytest.raises(UsageError, match="a backup of the leader, not of the helper"):
            restore("helper", config_of(pair, Role.HELPER), backup)
        await stop(pair, Role.LEADER)
        database_of(pair, Role.LEADER).unlink()
        assert await asyncio.to_thread(run, ["restore", "leader", str(backup), "--config", str(config), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["before"] is None
        await pair.start(Role.LEADER)
    with (backup / DATABASES["sqlite"]).open("r+b") as file:
        file.seek(20_000)
        file.write(b"changed")
    with pytest.raises(UsageError, match="not what was backed up"):
        read_contents(backup)
    (backup / CONTENTS).unlink()
    with pytest.raises(UsageError, match="not a whole backup"):
        read_contents(backup)


def test_what_cannot_be_backed_up_is_refused_in_one_line(tmp_path: Path) -> None:
    async def asked() -> None:
        async with pair_of(tmp_path, KIT) as pair:
            with pytest.raises(UsageError, match="in memory"):
                back_up("leader", config_of(pair, Role.LEADER), tmp_path / "backup")

    asyncio.run(asked())
    assert {path.name for path in tmp_path.iterdir()} == {"leader", "helper"}, "and leaves nothing behind"


async def test_a_damaged_database_is_set_aside_as_it_is(tmp_path: Path) -> None:
    async with pair_of(tmp_path, KIT, storage="file") as pair:
        await asyncio.to_thread(back_up, "helper", config_of(pair, Role.HELPER), tmp_path / "backup")
        await stop(pair, Role.HELPER)
        place = database_of(pair, Role.HELPER)
        place.write_bytes(b"no database" * 1000)
        with pytest.raises(UsageError, match="cannot be copied"):
            back_up("helper", config_of(pair, Role.HELPER), tmp_path / "second")
        await put_back(pair, Role.HELPER, tmp_path / "backup")
        (before,) = place.parent.glob("*.before-*")
        assert before.read_bytes().startswith(b"no database")
        await pair.start(Role.HELPER)


async def test_a_timer_keeps_the_newest_backups_and_touches_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, now = tmp_path / "backups", 1_790_000_000
    async with pair_of(tmp_path, KIT, storage="file") as pair:
        config = config_of(pair, Role.LEADER)
        for name in ("leader-mine", "helper-20260101T000000Z", ".leader-20260101T000000Z.1.new"):
            (folder / name).mkdir(parents=True)
        os.utime(folder / ".leader-20260101T000000Z.1.new", (1, 1))
        made_there = []
        for step in range(3):
            monkeypatch.setattr(time, "gmtime", lambda at=now + step: real_gmtime(at))
            out, contents = await asyncio.to_thread(back_up_into, "leader", config, folder, 2)
            assert read_contents(out) == contents
            made_there.append(out.name)
        assert made_there[0] == "leader-20260921T141320Z"
        assert {path.name for path in folder.iterdir()} == {*made_there[1:], "leader-mine", "helper-20260101T000000Z"}
        for wrong in (["--keep", "2"], ["--into", str(folder)], ["--into", str(folder), "--keep", "2", "--out", "x"]):
            assert await asyncio.to_thread(run, ["backup", "leader", "--config", str(config), *wrong]) == 2
        assert "--out FOLDER or --into FOLDER" in " ".join(capsys.readouterr().err.split())
