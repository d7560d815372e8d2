"""Fixtures that every test may use, and the rule for what may be skipped."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from infra.backing.mosquitto import MosquittoServer, find_mosquitto
from infra.backing.postgres import PostgresServer
from infra.backing.redis import RedisServer, RedisUser, find_redis
from infra.base.free_ports import free_ports
from infra.base.postgres_programs import find_binaries
from tacit.adapters.system import OsEntropy
from tacit.extras import install_command
from tacit.service.base.log import log_level, set_log_level
from tests.kit import databases, draws, late
from tests.kit.durations import LongestFirst, Recording
from tests.kit.postgres import FAST, Databases, MakeDatabase
from tests.kit.rotation import Rotation

hypothesis.settings.register_profile("same", derandomize=True, deadline=None, max_examples=50)
hypothesis.settings.register_profile("searching", deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")
draws.watch()
databases.hasten()
late.put_off()

PUBLISHER, PUBLISHER_PASSWORD = "recipe_server", secrets.token_hex(16)
REDIS_USER = RedisUser("tacit", secrets.token_hex(16), "tacit")
ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runs", type=int, default=1, help="run every test that states a false-alarm rate so often, and compare"
    )
    parser.addoption("--rotating", action="store_true", help="run those slow tests whose turn is today")
    parser.addoption("--record-durations", action="store_true", help="write down how long each file of tests lasts")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(draws.Watch())
    if config.getoption("rotating"):
        config.pluginmanager.register(Rotation(date.today()))
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(LongestFirst())
    elif config.getoption("record_durations"):
        config.pluginmanager.register(Recording())
    if config.getoption("runs") > 1:
        draws.reseed()
        config.pluginmanager.register(draws.Repeats(config.getoption("runs")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hardly anything that is made meanwhile is garbage, which a search for it would find out again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What was collected stays: no later search for garbage looks at it again. The first one would take seconds."""
    gc.freeze()


@pytest.fixture
def run_number() -> int:
    """Which of several runs of a test this is."""
    return 0


def _required() -> set[str]:
    return {name.strip() for name in os.environ.get("TACIT_REQUIRE", "").split(",") if name.strip()}


def skip_or_fail(need: str, reason: str) -> None:
    """Skip with ``reason``, or fail where TACIT_REQUIRE names ``need``."""
    if need in _required():
        pytest.fail(f"TACIT_REQUIRE names {need}: {reason}", pytrace=False)
    pytest.skip(reason)


THEIRS = ("playwright", ".org.chromium", "org.chromium", "pytest-of-")
"""How names begin that a browser leaves in the temporary folder, and a pytest that a test runs."""


def left_in(folder: Path) -> list[str]:
    """Names in a temporary folder that none of ours should have left there."""
    return sorted(found.name for found in folder.iterdir() if not found.name.startswith(THEIRS))


@pytest.fixture(scope="session", autouse=True)
def nothing_in_the_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What runs in tests, killed processes among it, has a temporary folder of its own and leaves nothing there."""
    tmp_path_factory.getbasetemp()  # pytest's own is elsewhere
    before, folder = os.environ.get("TMPDIR"), Path(tempfile.mkdtemp(prefix="tacit-tests-"))
    folder.chmod(0o711)  # a PostgreSQL server of another user has its files in there
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    yield
    os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)
    tempfile.tempdir = None
    left = left_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
    assert left == [], "tests, or processes that they started, left something in the temporary folder"


@pytest.fixture(autouse=True)
def nothing_in_the_working_folder(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """A test works in an empty folder of its own kind, whatever the checkout holds, and leaves it empty."""
    monkeypatch.chdir(working_folder)
    yield
    left = [found.name for found in working_folder.iterdir() if found.name != ".hypothesis"]
    for name in left:
        (working_folder / name).rename(request.getfixturevalue("tmp_path") / name)
    assert not left, "a test left something in the working folder"


@pytest.fixture(autouse=True)
def the_log_level_of_before() -> Iterator[None]:
    """A command that is run within the test's process may set the log level; the next test has that of before."""
    level = log_level()
    yield
    set_log_level(level)


@pytest.fixture(scope="session")
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, shared by all tests of a process."""
    return tmp_path_factory.mktemp("working")


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The folder of the official test vectors."""
    folder = Path(os.environ.get("TACIT_VECTORS", ROOT.parent / "shared" / "vectors"))
    if not folder.is_dir():
        skip_or_fail("vectors", f"official test vectors absent ({folder}); set TACIT_VECTORS")
    return folder


@pytest.fixture(scope="session")
def load_vector(vectors: Path) -> Callable[[str], Any]:
    """``load_vector("hpke/rfc9180_base_x25519.json")`` -> the parsed JSON."""

    def load(name: str) -> Any:
        return json.loads((vectors / name).read_text())

    return load


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this session's own on a free port, with nothing in it."""
    if find_binaries() is None:
        skip_or_fail("postgres", "no PostgreSQL binaries on PATH or below /usr/lib/postgresql")
    if importlib.util.find_spec("asyncpg") is None:
        skip_or_fail("postgres", f"asyncpg is not installed ({install_command('postgres')})")
    folder = Path(tempfile.mkdtemp(prefix="tacit-postgres-"))
    folder.chmod(0o711)
    server: PostgresServer | None = None
    try:
        server = PostgresServer.create(folder / "server", free_ports(1)[0], secrets.token_hex(16))
        server.extra |= FAST
        server.start()
        yield server
    finally:
        if server is not None:
            server.crash()  # its files go too
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def make_postgres_url(postgres: PostgresServer) -> MakeDatabase:
    """Each call makes a fresh database, with the tables of the store that it is given, and returns its URL."""
    return Databases(postgres).make


@pytest.fixture(scope="session")
def make_redis() -> Iterator[Callable[[], RedisServer]]:
    """Each call starts a Redis server on a free port, with nothing in it and ``REDIS_USER``."""
    if find_redis() is None:
        skip_or_fail("redis", "no redis-server on PATH (apt-get install redis-server)")
    folder, made = Path(tempfile.mkdtemp(prefix="tacit-redis-")), list[RedisServer]()

    def make() -> RedisServer:
        server = RedisServer.create(folder / str(len(made)), free_ports(1)[0], {"tacit": REDIS_USER})
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.crash()  # its files go too
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_server(make_redis: Callable[[], RedisServer]) -> RedisServer:
    """A Redis server of this session's own, which no test stops."""
    return make_redis()


@pytest.fixture(scope="session")
def make_mosquitto() -> Iterator[Callable[[], MosquittoServer]]:
    """Each call starts a broker on a free port, where ``PUBLISHER`` may publish."""
    if find_mosquitto() is None:
        skip_or_fail("mosquitto", "no mosquitto on PATH or in /usr/sbin (apt-get install mosquitto)")
    folder, made = Path(tempfile.mkdtemp(prefix="tacit-mosquitto-")), list[MosquittoServer]()

    def make() -> MosquittoServer:
        publishers = {PUBLISHER: PUBLISHER_PASSWORD}
        server = MosquittoServer.create(folder / str(len(made)), free_ports(1)[0], publishers, OsEntropy())
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.crash()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mosquitto(make_mosquitto: Callable[[], MosquittoServer]) -> MosquittoServer:
    """A broker of this session's own, which no test stops."""
    return make_mosquitto()
