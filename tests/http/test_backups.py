"""``tacit backup`` of a service that runs, ``tacit restore`` of one that was stopped, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import os
import resource
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from attester.store import AttesterStore
from infra.backing.backups import CONTENTS, DATABASES, back_up, back_up_into, read_contents, restore
from infra.backing.postgres_backup import dump_into, put_dump, write_new
from infra.backing.sealed_files import (
    SEALED,
    backup_public_key,
    generate_backup_key,
    recipients_of,
    seal,
    unseal,
)
from infra.backing.sqlite_backup import put_database
from infra.cli import run
from infra.lab.kit.aggregators import AggregatorPair
from infra.lab.kit.reports import make_task_kit
from tacit.adapters.databases import sqlite_file
from tacit.adapters.databases.postgres import administer
from tacit.errors import UsageError
from tacit.messages import Role
from tests.http.test_after_the_end import made
from tests.http.test_helper import pair_of
from tests.http.test_restored_databases import NAMES, database_of, stop

real_gmtime = time.gmtime
KIT = make_task_kit(min_batch_size=3)
RELAY = {"gateway_url": "https://gateway.example"}
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
        assert await asyncio.to_thread(run, ["backup", *words, "--out", str(backup), "--unencrypted", "--json"]) == 0
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
    with pytest.raises(UsageError, match="not a complete backup"):
        read_contents(backup)


@pytest.mark.parametrize("moment", ["hardlink_to", "replace"])
def test_wherever_a_restore_is_killed_a_database_is_in_its_place(tmp_path: Path, moment: str) -> None:
    place, copy = tmp_path / "attester.sqlite3", tmp_path / "copy.sqlite3"
    for path, number in ((place, 1), (copy, 2)):
        with contextlib.closing(sqlite3.connect(path)) as made_now:
            made_now.execute("CREATE TABLE issued (device)")
            made_now.execute("INSERT INTO issued VALUES (?)", (number,))
            made_now.commit()
    killed = (
        "import os, pathlib, signal, sys; from infra.backing.sqlite_backup import put_database as put\n"
        f"pathlib.Path.{moment} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "put(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))"
    )
    done = subprocess.run([sys.executable, "-c", killed, str(copy), str(place)], check=False)
    assert done.returncode == -signal.SIGKILL
    for expected in (1, 2):
        with contextlib.closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True)) as found:
            assert found.execute("SELECT device FROM issued").fetchall() == [(expected,)]
        before = put_database(copy, place)
    assert before is not None
    with contextlib.closing(sqlite3.connect(before)) as found:
        assert found.execute("SELECT device FROM issued").fetchall() == [(2,)]


def test_what_lies_in_a_backup_and_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CONTENTS)
    with pytest.raises(UsageError, match="not a regular file"):
        read_contents(tmp_path)
    (tmp_path / CONTENTS).unlink()
    said = {"service": "leader", "made": 1, "database": "sqlite", "files": {DATABASES["sqlite"]: "0" * 64}}
    (tmp_path / CONTENTS).write_text(json.dumps(said))
    (tmp_path / DATABASES["sqlite"]).symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="not a complete backup"):
        read_contents(tmp_path)


def test_a_dump_gives_no_orders_to_the_machine_that_restores_it(
    tmp_path: Path, make_postgres_url: Callable[[], str]
) -> None:
    url, dump, ran = made_url(make_postgres_url), tmp_path / "dump.sql", tmp_path / "ran"
    owner = make_url(url)
    asyncio.run(administer(owner, ["CREATE TABLE kept (one integer)"]))
    for order in (f"\\! touch {ran}", f"SELECT 1 \\g {ran}", f"\\restrict aaaa\n\\unrestrict aaaa\n\\! touch {ran}"):
        dump.write_text(f"CREATE TABLE new (one integer);\n{order}\n")
        with pytest.raises(UsageError, match="restricted"):
            put_dump(dump, url)
        assert not ran.exists()
    dump.write_text("CREATE TABLE new (one integer);\nCOPY new FROM stdin;\n1\n")
    with pytest.raises(UsageError, match="invalid input syntax"):
        put_dump(dump, url)
    dump_into(url, lambda dump: write_new(dump, tmp_path / "after.sql"))
    after = (tmp_path / "after.sql").read_text()
    assert "public.kept" in after
    assert "public.new" not in after


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The private key of the operator, which no service has."""
    path = tmp_path / "safe" / "backup.key"
    generate_backup_key(path)
    return path


@pytest.mark.parametrize("stored", ["sqlite", "postgres"])
def test_an_encrypted_backup_tells_nothing_and_its_private_key_alone_puts_it_back(
    tmp_path: Path, key: Path, stored: str, make_postgres_url: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    databases = {Role.LEADER: made_url(make_postgres_url)} if stored == "postgres" else {}
    public, backup, other = backup_public_key(key), tmp_path / "backup", tmp_path / "other.key"
    generate_backup_key(other)

    async def whole() -> None:
        async with pair_of(tmp_path, KIT, storage="file", databases=databases) as pair:
            assert await pair.upload(made(KIT, 1, 3)) is None
            await pair.end_interval()
            pair.settings[Role.LEADER]["backup_keys"] = [public]
            config = config_of(pair, Role.LEADER)
            words = ["--config", str(config)]
            assert await asyncio.to_thread(run, ["backup", "leader", *words, "--out", str(backup), "--json"]) == 0
            said = json.loads(capsys.readouterr().out)
            assert said["encrypted_to"] == [public]
            assert set(said["files"]) == {f"{DATABASES[stored]}{SEALED}"}
            (sealed,) = backup.glob(f"*{SEALED}")
            data = sealed.read_bytes()
            assert data.startswith(b"age-encryption.org/v1\n")
            assert b"aggregation_jobs" not in data
            assert sealed.stat().st_mode & 0o777 == 0o600
            assert not list(config.parent.glob(".backup-*")), "no snapshot stays beside the database"
            await stop(pair, Role.LEADER)
            for more, why in (([], "name its private key with --key"), (["--key", str(other)], "cannot be decrypted")):
                assert await asyncio.to_thread(run, ["restore", "leader", str(backup), *words, *more]) == 1
                assert why in capsys.readouterr().err
            assert await asyncio.to_thread(run, ["restore", "leader", str(backup), *words, "--key", str(key)]) == 0
            assert not list(config.parent.glob(".backup-*"))
            await pair.start(Role.LEADER)
            await pair.work()
            assert pair.opened(await pair.collect()).report_count == 3

    asyncio.run(whole())


def test_what_a_service_makes_itself_is_encrypted_and_put_back(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, files = tmp_path / "relay", ("key-sets.json",)
    state.mkdir()
    (state / files[0]).write_text('{"kept": "by the relay"}')
    body = {"state_dir": str(state), **RELAY, "backup_keys": [backup_public_key(key)]}
    (tmp_path / "relay.json").write_text(json.dumps(body))
    words = ["--config", str(tmp_path / "relay.json")]
    assert run(["backup", "relay", *words, "--out", str(tmp_path / "backup")]) == 0
    assert [path.name for path in (tmp_path / "backup").glob("key*")] == [f"{files[0]}{SEALED}"]
    (state / files[0]).unlink()
    assert run(["restore", "relay", str(tmp_path / "backup"), *words, "--key", str(key)]) == 0
    assert "also put back: key-sets.json" in capsys.readouterr().out
    assert (state / files[0]).read_text() == '{"kept": "by the relay"}'


def test_a_backup_without_a_key_has_to_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "relay.json").write_text(json.dumps({"state_dir": str(tmp_path), **RELAY}))
    words = ["relay", "--config", str(tmp_path / "relay.json"), "--out", str(tmp_path / "backup")]
    assert run(["backup", *words]) == 1
    assert "a backup of the relay holds its secrets: encrypt it to a public key" in capsys.readouterr().err
    assert run(["backup", *words, "--to", "age1nothing"]) == 1
    assert "not a public key of tacit keys generate backup" in capsys.readouterr().err
    assert run(["backup", *words, "--to", "age1nothing", "--unencrypted"]) == 2
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize("harm", ["cut", "changed", "extended"])
def test_a_damaged_encrypted_file_is_refused_and_leaves_nothing(tmp_path: Path, key: Path, harm: str) -> None:
    sealed, plain = tmp_path / "file.age", tmp_path / "plain"
    seal(io.BytesIO(bytes(200_000)), sealed, recipients_of([backup_public_key(key)]))
    data = bytearray(sealed.read_bytes())
    if harm == "changed":
        data[-1] ^= 1
    sealed.write_bytes({"cut": data[:-70_000], "changed": data, "extended": data + b"more"}[harm])
    with sealed.open("rb") as file, pytest.raises(UsageError, match=r"file\.age: cannot be decrypted"):
        unseal(file, plain, key)
    assert plain.read_bytes() == b""


def test_a_file_that_cannot_grow_is_named(tmp_path: Path, key: Path) -> None:
    """The library tells the system's errors in words of its own."""
    recipients, before = recipients_of([backup_public_key(key)]), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*sealed") as refused:
            seal(io.BytesIO(bytes(200_000)), tmp_path / "sealed", recipients)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert refused.value.errno == errno.EFBIG


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
        monkeypatch.setattr(time, "gmtime", lambda: real_gmtime(60))
        with pytest.raises(UsageError, match="is the clock right"):
            await asyncio.to_thread(back_up_into, "leader", config, folder, 2)
        assert {*made_there[1:], "leader-19700101T000100Z"} <= {path.name for path in folder.iterdir()}
        for wrong in (["--keep", "2"], ["--into", str(folder)], ["--into", str(folder), "--keep", "2", "--out", "x"]):
            assert await asyncio.to_thread(run, ["backup", "leader", "--config", str(config), *wrong]) == 2
        assert "--out FOLDER or --into FOLDER" in " ".join(capsys.readouterr().err.split())


def test_a_service_that_starts_while_a_restore_has_its_database_ends_and_writes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, copy = tmp_path / "attester.sqlite3", tmp_path / "copy.sqlite3"

    async def opened() -> None:
        store = AttesterStore(f"sqlite+aiosqlite:///{place}")
        await store.open()
        await store.close()

    asyncio.run(opened())
    shutil.copy(place, copy)
    begun, original = threading.Event(), sqlite_file._place_of

    def looked(path: Path | None) -> tuple[int, int] | None:
        found = original(path)
        begun.set()
        return found

    def replace(draft: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", moved)
        starting.append(threads.submit(asyncio.run, opened()))
        assert begun.wait(30)
        return draft.rename(target)

    moved, starting = Path.replace, list[Future[None]]()
    monkeypatch.setattr(sqlite_file, "_place_of", looked)
    monkeypatch.setattr(Path, "replace", replace)
    with ThreadPoolExecutor(1) as threads:
        before = put_database(copy, place)
        with pytest.raises(UsageError, match="replaced while it was being opened; start again"):
            starting[0].result(60)
    assert before is not None
    assert before.read_bytes()[:16] == b"SQLite format 3\0"
    asyncio.run(opened())
