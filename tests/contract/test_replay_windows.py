"""The gateway's replay window keeps its promise in its database and on Redis; what only Redis can do is tried there."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from infra.backing.redis import RedisServer
from services.gateway.ports import ReplayWindow, SeenRequest
from services.gateway.store import MARGIN, RedisReplayWindow, ReplayStore
from tacit.adapters.messaging.redis_client import connect
from tacit.adapters.messaging.redis_replay import RedisSeen
from tacit.adapters.system import SystemClock
from tacit.errors import Abort, Unavailable, UsageError
from tests.conftest import REDIS_USER

DATE_WINDOW = 600


def on_redis(server: RedisServer, name: str) -> RedisReplayWindow:
    return RedisReplayWindow(RedisSeen(server.url_of(REDIS_USER), name), DATE_WINDOW, SystemClock())


def request(name: bytes, date: float | None = None) -> SeenRequest:
    return SeenRequest(name.ljust(32, b"."), int(time.time() if date is None else date))


@pytest.fixture(params=["memory", "file", "postgres", "redis"])
def make_window(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ReplayWindow]:
    """Each call gives another view of the same window, except that one in memory has one view."""
    if request.param == "redis":
        server, name = request.getfixturevalue("redis_server"), secrets.token_hex(6)
        return lambda: on_redis(server, name)
    if request.param == "postgres":
        url = request.getfixturevalue("make_postgres_url")()
    else:
        url = f"sqlite+aiosqlite:///{':memory:' if request.param == 'memory' else tmp_path / 'window.sqlite3'}"
    return lambda: ReplayStore(url)


@pytest.fixture
async def window(make_window: Callable[[], ReplayWindow]) -> AsyncIterator[ReplayWindow]:
    made = make_window()
    await made.open()
    yield made
    await made.close()


async def test_each_request_is_new_once(window: ReplayWindow) -> None:
    first, second = request(b"a"), request(b"b")
    assert await window.remember([first, second, first]) == [True, True, False]
    assert await window.remember([second, request(b"c")]) == [False, True]
    assert await window.remember([first]) == [False]


async def test_of_requests_that_race_one_wins(window: ReplayWindow) -> None:
    answers = await asyncio.gather(*(window.remember([request(b"r"), request(b"%d" % n)]) for n in range(10)))
    assert sum(racing for racing, _ in answers) == 1
    assert all(other for _, other in answers)


async def test_the_oldest_and_the_newest_date_in_the_window_are_remembered(window: ReplayWindow) -> None:
    old, new = request(b"o", time.time() - DATE_WINDOW), request(b"n", time.time() + DATE_WINDOW)
    assert await window.remember([old, new]) == [True, True]
    await window.forget(int(time.time()) - DATE_WINDOW - 1)
    assert await window.remember([old, new]) == [False, False]


@pytest.mark.parametrize("make_window", ["file", "postgres", "redis"], indirect=True)
async def test_window_remembers_after_it_was_opened_again(make_window: Callable[[], ReplayWindow]) -> None:
    for fresh in (True, False):
        window = make_window()
        await window.open()
        assert await window.remember([request(b"a")]) == [fresh]
        await window.close()


async def test_requests_on_redis_expire_after_their_date_and_not_before(redis_server: RedisServer) -> None:
    name = secrets.token_hex(6)
    window, client = on_redis(redis_server, name), connect(redis_server.url_of(REDIS_USER))
    await window.open()
    assert await window.remember([request(b"a", time.time() + DATE_WINDOW)]) == [True]
    left = await client.ttl(f"tacit:{name}:seen:".encode() + b"a".ljust(32, b"."))
    assert 2 * DATE_WINDOW + MARGIN - 60 < left <= 2 * DATE_WINDOW + MARGIN
    await client.aclose()
    await window.close()


async def test_nothing_passes_while_redis_is_away_and_what_passed_before_never_again(
    make_redis: Callable[[], RedisServer],
) -> None:
    server = make_redis()
    window = on_redis(server, "gateway")
    await window.open()
    assert await window.remember([request(b"a")]) == [True]
    server.stop()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await window.remember([request(b"b")])
        assert "Redis did not take it" in window.durable.trouble
    server.start()
    assert await _once_it_answers(window, [request(b"a"), request(b"b")]) == [False, True]
    assert window.durable.trouble == ""
    await window.close()


async def _once_it_answers(window: ReplayWindow, requests: list[SeenRequest]) -> list[bool]:
    """What the window says; a busy machine may need more than one try for a new connection, and a server that has just
    begun says for a while that it loads its data."""
    for _ in range(600):
        with contextlib.suppress(Abort, Unavailable):
            return await window.remember(requests)
        await asyncio.sleep(0.05)
    raise AssertionError("the window never answered again")


async def test_redis_without_room_refuses_rather_than_forgets(make_redis: Callable[[], RedisServer]) -> None:
    server = make_redis()
    server.stop()
    config = server.folder / "redis.conf"
    config.write_text(config.read_text() + "maxmemory 1\n")
    server.start()
    window = on_redis(server, "gateway")
    await window.open()
    with pytest.raises(Unavailable, match="OutOfMemoryError"):
        await window.remember([request(b"a")])
    await window.close()
    server.stop()
    config.write_text(config.read_text() + "maxmemory-policy allkeys-lru\n")
    server.start()
    with pytest.raises(UsageError, match="noeviction"):
        await window.open()


async def test_window_does_not_open_without_its_server() -> None:
    window = RedisReplayWindow(RedisSeen("redis://u:secret@127.0.0.1:1/0", "gateway"), DATE_WINDOW, SystemClock())
    with pytest.raises(UsageError, match="does not answer: ConnectionError") as refused:
        await window.open()
    assert "secret" not in str(refused.value)
