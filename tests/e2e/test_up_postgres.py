"""``tacit up --with postgres``: a server of the stack's own or an operator's, one database and role per service."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from infra.backing import backends as backends_module
from infra.backing import postgres as server_module
from infra.backing.databases import URL_FILE, databases
from infra.backing.postgres import PostgresServer
from infra.base.service_names import SERVICES
from infra.cli import run
from infra.stacks.layout import Layout, load_layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.status import stack_status
from services.helper.store import HelperStore
from services.leader.store import LeaderStore
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.extras import install_command
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import read_secret, write_secret
from tests.kit.processes import ReadyProcess

WITH_DATABASE = [name for name in SERVICES if name != "relay"]
WITNESSES = ("witness_1", "witness_2")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's own user can reach, which pytest's are not."""
    made = Path(tempfile.mkdtemp(prefix="tacit-up-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def layout(folder: Path) -> Layout:
    return create_layout(folder / "stack", StackOptions(), OsEntropy(), SystemClock().now())


def url_of(layout: Layout, name: str) -> str:
    """What the service itself reads from its configuration."""
    body = json.loads(layout.configs[name].read_text())
    assert body["database_file"] == URL_FILE
    file = layout.configs[name].parent / URL_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    config = ServiceConfig(state_dir=layout.state_dir, database_file=file)
    password = str(make_url(config.database_url(name)).password)
    assert password not in layout.configs[name].read_text()
    return config.database_url(name)


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


async def open_leader(layout: Layout, *, leaves: int) -> int:
    """Add a leaf if there are none; returns how many there were."""
    store = LeaderStore(url_of(layout, "leader"))
    await store.open()
    async with store.transaction() as tx:
        found = len(await tx.leaves())
        await tx.add_leaves([(number, b"leaf") for number in range(leaves)])
    await store.close()
    return found


@pytest.mark.usefixtures("postgres")
async def test_own_server_starts_with_the_stack_keeps_its_data_and_stops_with_it(layout: Layout) -> None:
    enter = contextlib.ExitStack()
    with enter:
        manager = databases(layout, wanted=True, url_file=None, entropy=OsEntropy())
        await asyncio.to_thread(enter.enter_context, manager)
        port = make_url(url_of(layout, "leader")).port or 0
        assert len({url_of(layout, name) for name in WITH_DATABASE}) == len(WITH_DATABASE)
        assert await open_leader(layout, leaves=2) == 0
        foreign = make_url(url_of(layout, "leader")).set(database=make_url(url_of(layout, "helper")).database)
        with pytest.raises(UsageError, match="InsufficientPrivilege"):
            await HelperStore(foreign.render_as_string(hide_password=False)).open()
    assert not accepts(port)
    with enter:
        manager = databases(layout, wanted=False, url_file=None, entropy=OsEntropy())
        await asyncio.to_thread(enter.enter_context, manager)
        assert await open_leader(layout, leaves=2) == 2
    assert not accepts(port)


async def test_server_of_the_operator_gets_the_databases_and_is_left_running(
    layout: Layout, folder: Path, postgres: PostgresServer
) -> None:
    file = folder / "admin.url"
    write_secret(file, postgres.url.replace("+asyncpg", "").encode())
    enter = contextlib.ExitStack()
    with enter:
        manager = databases(layout, wanted=True, url_file=file, entropy=OsEntropy())
        await asyncio.to_thread(enter.enter_context, manager)
        assert make_url(url_of(layout, "issuer")).port == postgres.port
        assert await open_leader(layout, leaves=1) == 0
    assert accepts(postgres.port)
    assert postgres.password not in "".join(path.read_text() for path in layout.state_dir.rglob("*.url"))
    again = databases(layout, wanted=True, url_file=file, entropy=OsEntropy())
    with pytest.raises(UsageError, match="has its databases"), again:
        pass


def test_stack_that_began_on_sqlite_stays_there(layout: Layout) -> None:
    (layout.configs["leader"].parent / "leader.sqlite3").write_bytes(b"")
    manager = databases(layout, wanted=True, url_file=None, entropy=OsEntropy())
    with pytest.raises(UsageError, match="keeps its data in SQLite"), manager:
        pass
    assert "database_file" not in json.loads(layout.configs["leader"].read_text())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--with", "kafka"], "kafka is not known; choose: postgres, redis, mosquitto"),
        (["--postgres-url-file", "x"], "needs --with postgres"),
        (["--with", "postgres"], "no PostgreSQL here"),
        (["--with", "postgres", "--postgres-url-file", "absent"], "absent: No such file"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.setattr(server_module, "find_binaries", lambda: None)
    monkeypatch.setattr(backends_module, "require_driver", lambda: None)
    assert run(["up", "--state-dir", str(folder / "stack"), "--agents", "0", *arguments]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert says in lines[0]


def test_missing_driver_is_named_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert run(["up", "--state-dir", str(folder / "stack"), "--with", "postgres"]) == 1
    told = f"tacit: PostgreSQL needs asyncpg; install it with: {install_command('postgres')}\n"
    assert capsys.readouterr().err == told
    assert not (folder / "stack").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("postgres")
async def test_every_service_of_the_stack_runs_on_its_own_database(folder: Path) -> None:
    command = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--agents", "0", "--with", "postgres"]
    with ReadyProcess([*command, "--state-dir", str(folder / "stack")], folder / "stderr") as process:
        document = process.ready()
        async with HttpTransport() as transport:
            for name in WITH_DATABASE:
                assert (await transport.request("GET", f"{document[name]['url']}/healthz")).status == 200
        config = Path(document["leader"]["config"])
        port = make_url(read_secret(config.parent / URL_FILE).decode()).port or 0
        assert accepts(port)
        (postmaster,) = (folder / "stack").rglob("postmaster.pid")
        os.kill(int(postmaster.read_text().split()[0]), signal.SIGINT)
        for name in WITH_DATABASE:
            await announced(process, f"{name} is not ready: the database")
        async with load_layout(folder / "stack").transport(timeout=10.0) as transport:
            found = await stack_status(load_layout(folder / "stack"), transport)
        assert {one.name for one in found.processes if one.up and not one.ready} == {*WITH_DATABASE, *WITNESSES}
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not accepts(port)
    assert list((folder / "stack").rglob("*.sqlite3")) == []
    assert load_config(config, ServiceConfigOnly).database_file == config.parent / URL_FILE


async def announced(process: ReadyProcess, words: str) -> None:
    """``tacit up`` says it, in the end."""
    deadline = time.monotonic() + 120
    while words not in process.stderr:
        assert time.monotonic() < deadline, process.stderr
        await asyncio.sleep(0.2)


class ServiceConfigOnly(ServiceConfig, extra="ignore"):
    """What every service's configuration has."""
