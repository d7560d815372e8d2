"""``tacit up`` with Redis, a broker and further processes: the stack's own servers or an operator's."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.backing import backends as backends_module
from infra.backing import mosquitto as mosquitto_module
from infra.backing import redis as redis_module
from infra.backing.backends import Wanted, backends, parse_backends
from infra.backing.backing_servers import BROKER_FILE, REDIS_FILE
from infra.backing.mosquitto import MosquittoServer
from infra.backing.redis import RedisServer
from infra.cli import run
from infra.stacks.layout import Layout, load_layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.workers import further_parts, known_parts
from infra.views.stack_view import SERVICE_NAMES
from tacit.adapters.messaging.redis_client import connect
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.service.base.secret_files import read_secret, write_secret
from tests.conftest import PUBLISHER, PUBLISHER_PASSWORD, REDIS_USER
from tests.kit.processes import ReadyProcess

UP = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--agents", "0"]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return create_layout(tmp_path / "my stack", StackOptions(), OsEntropy(), SystemClock().now())


def accepts(url: str) -> bool:
    parts = urlsplit(url)
    with contextlib.suppress(OSError), socket.create_connection((parts.hostname or "", parts.port or 0), 1):
        return True
    return False


def secret_of(layout: Layout, name: str, file: str) -> str:
    path = layout.configs[name].parent / file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return read_secret(path).decode()


def member(layout: Layout, name: str, key: str) -> object:
    return json.loads(layout.configs[name].read_text()).get(key)


@contextlib.contextmanager
def provided(layout: Layout, *names: str, **files: Path) -> Iterator[None]:
    with backends(layout, Wanted(frozenset(names), dict(files)), OsEntropy()):
        yield


@pytest.mark.usefixtures("make_redis", "make_mosquitto")
def test_own_servers_start_with_the_stack_and_stop_with_it(layout: Layout) -> None:
    with provided(layout, "redis", "mosquitto"):
        window = secret_of(layout, "gateway", REDIS_FILE)
        told = [secret_of(layout, name, BROKER_FILE) for name in ("recipe_server", "leader", "helper", "collector")]
        assert member(layout, "gateway", "replay_window") == {"redis": REDIS_FILE, "prefix": "tacit"}
        assert "@" in told[0]
        assert len(set(told[1:])) == 1
        assert "@" not in told[1]
        assert accepts(window)
        assert accepts(told[0])
    assert not accepts(window)
    assert not accepts(told[0])
    with provided(layout):
        assert accepts(window)
        assert accepts(told[0])
    secrets = [str(urlsplit(url).password) for url in (window, told[0])]
    readable = [path for path in layout.state_dir.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert not [path for path in readable for secret in secrets if secret.encode() in path.read_bytes()]


@pytest.mark.usefixtures("make_redis")
async def test_gateway_can_touch_its_own_keys_only(tmp_path: Path) -> None:
    layout = create_layout(tmp_path / "stack", StackOptions(), OsEntropy(), SystemClock().now())
    with provided(layout, "redis"):
        client = connect(secret_of(layout, "gateway", REDIS_FILE))
        assert await client.set("tacit:gateway:mine", b"1")
        for refused in (client.get("tacit:leader:other"), client.flushall(), client.config_get("*")):
            with pytest.raises(Exception, match=r"(?i)no permissions"):
                await refused
        await client.aclose()


def test_servers_of_the_operator_are_used_and_left_running(
    layout: Layout, redis_server: RedisServer, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    write_secret(tmp_path / "redis", redis_server.url_of(REDIS_USER).encode())
    url = f"mqtt://{PUBLISHER}:{PUBLISHER_PASSWORD}@127.0.0.1:{mosquitto.port}"
    write_secret(tmp_path / "mqtt", url.encode())
    files = {"redis": tmp_path / "redis", "mosquitto": tmp_path / "mqtt"}
    with provided(layout, "redis", "mosquitto", **files):
        assert secret_of(layout, "recipe_server", BROKER_FILE) == url
        assert secret_of(layout, "helper", BROKER_FILE) == f"mqtt://127.0.0.1:{mosquitto.port}"
        window = member(layout, "gateway", "replay_window")
        assert isinstance(window, dict)
        assert window["prefix"].startswith("tacit-")
    assert accepts(redis_server.url_of(REDIS_USER))
    with pytest.raises(UsageError, match="has its redis"), provided(layout, "redis", redis=tmp_path / "redis"):
        pass


def test_operators_redis_that_does_not_answer_changes_nothing(layout: Layout, tmp_path: Path) -> None:
    write_secret(tmp_path / "redis", b"redis://u:secret@127.0.0.1:1/0")
    with pytest.raises(UsageError, match="does not answer"), provided(layout, "redis", redis=tmp_path / "redis"):
        pass
    assert member(layout, "gateway", "replay_window") is None


def test_names_may_be_listed_or_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends_module, "_PROGRAMS", dict.fromkeys(backends_module.BACKENDS, lambda: ""))
    assert parse_backends(["redis, mosquitto", "redis"], {}).names == {"redis", "mosquitto"}
    assert parse_backends([], {}).names == frozenset()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--with", "redis"], "no Redis here: install it (apt-get install redis-server), or give --redis-url-file"),
        (["--with", "mosquitto"], "no Mosquitto here: install it (apt-get install mosquitto), or give --mqtt-url-file"),
        (["--redis-url-file", "x"], "--redis-url-file needs --with redis"),
        (["--mqtt-url-file", "x"], "--mqtt-url-file needs --with mosquitto"),
        (["--with", "redis", "--redis-url-file", "absent"], "absent: No such file"),
        (["--with", "mosquitto", "--mqtt-url-file", "absent"], "absent: No such file"),
        (["--leader-workers", "1"], "--leader-workers needs PostgreSQL; start a new stack with --with postgres"),
        (["--helper-workers", "2"], "--helper-workers needs PostgreSQL; start a new stack with --with postgres"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.setattr(redis_module, "find_redis", lambda: None)
    monkeypatch.setattr(mosquitto_module, "find_mosquitto", lambda: None)
    assert run(["up", "--state-dir", str(tmp_path / "stack"), "--agents", "0", *arguments]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert says in lines[0]


def test_further_processes_have_configurations_logs_and_addresses_of_their_own(layout: Layout) -> None:
    for name in ("leader", "helper"):
        body = json.loads(layout.configs[name].read_text())
        layout.configs[name].write_text(json.dumps({**body, "database_file": "database.url"}))
    parts = further_parts(layout, 2, 3)
    assert [part.label for part in parts] == [
        "leader worker-1",
        "leader worker-2",
        "helper worker-2",
        "helper worker-3",
    ]
    assert known_parts(layout) == sorted(parts, key=lambda part: (part.name == "helper", part.label))
    assert len({part.log for part in parts} | {part.config for part in parts}) == 8
    leaders = [json.loads(part.config.read_text()) for part in parts[:2]]
    assert [body["roles"] for body in leaders] == [["worker"], ["worker"]]
    assert len({part.url for part in parts[:2]} | {layout.urls["leader"]}) == 3
    assert {part.url for part in parts[2:]} == {layout.urls["helper"]}
    assert json.loads(layout.configs["helper"].read_text())["listen"]["reuse_port"]
    assert further_parts(layout, 0, 1) == known_parts(layout) == []
    assert "reuse_port" not in json.loads(layout.configs["helper"].read_text())["listen"]


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can reach, which pytest's are not."""
    made = Path(tempfile.mkdtemp(prefix="tacit-up-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.usefixtures("postgres", "make_redis", "make_mosquitto")
def test_whole_stack_runs_on_its_own_servers_with_further_processes(reachable: Path) -> None:
    folder = reachable
    options = ["--with", "postgres,redis", "--with", "mosquitto", "--leader-workers", "1", "--helper-workers", "2"]
    with ReadyProcess([*UP, *options, "--state-dir", str(folder / "stack")], folder / "stderr") as process:
        document = process.ready()
        assert {"leader worker-1", "helper worker-2"} <= document.keys()
        assert document["helper worker-2"]["url"] == document["helper"]["url"]
        assert document["helper worker-2"]["pid"] != document["helper"]["pid"]
        layout = load_layout(folder / "stack")
        urls = [secret_of(layout, "gateway", REDIS_FILE), secret_of(layout, "recipe_server", BROKER_FILE)]
        assert all(map(accepts, urls))
        assert (layout.configs["leader"].parent / "worker-1.log").exists()
        os.kill(document["helper"]["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 120
        while not accepts(document["helper"]["url"]):
            assert time.monotonic() < deadline
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not any(map(accepts, urls))


@pytest.mark.slow
def test_gateway_and_uploads_in_one_process_are_named_and_healthy_as_two_services(tmp_path: Path) -> None:
    folder = tmp_path / "stack"
    command = [*UP, "--together", "--batch-crypto", "--state-dir", str(folder)]
    with ReadyProcess(command, tmp_path / "stderr") as process:
        document = process.ready()
        assert document["gateway"]["pid"] == document["leader"]["pid"]
        assert len({document[name]["pid"] for name in SERVICE_NAMES}) == len(SERVICE_NAMES) - 1
        asked = subprocess.run(
            [*UP[:4], "status", "--json", "--state-dir", str(folder)], capture_output=True, check=True
        )
        status = json.loads(asked.stdout)
        assert status["ok"], status["problems"]
        assert {one["name"]: one["pid"] for one in status["processes"]} == {
            name: document[name]["pid"] for name in (*SERVICE_NAMES, "witness_1", "witness_2")
        }
        os.kill(document["gateway"]["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 120
        while "its log" not in process.stderr:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        told = process.stderr
    assert f"ingest (pid {document['gateway']['pid']})" in told
    assert "starting it again" in told
