"""Every queue keeps the promises of ``JobQueue``; what only a server can do to one is tried on Redis."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from itertools import chain

import pytest

from infra.backing.redis import RedisServer
from tacit.adapters.messaging.memory import MemoryJobQueue
from tacit.adapters.messaging.redis_streams import RedisJobQueue, connect
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.ports import MAX_JOB_ID, JobQueue
from tests.conftest import REDIS_USER

QUICK = ShiftedClock(SystemClock(), rate=20.0)
"""For pauses while a server is away."""
PATIENCE = 60.0
"""Seconds after which nothing comes any more, on a busy machine too."""


def redis_queue(server: RedisServer, name: str, **options: object) -> RedisJobQueue:
    return RedisJobQueue(server.url_of(REDIS_USER), name, QUICK, OsEntropy(), **options)  # type: ignore[arg-type]


@pytest.fixture
def name() -> str:
    return secrets.token_hex(6)


@pytest.fixture(params=["memory", "redis"])
async def queue(request: pytest.FixtureRequest, name: str) -> AsyncIterator[JobQueue]:
    made: JobQueue
    if request.param == "memory":
        made = MemoryJobQueue(SystemClock())
    else:
        made = redis_queue(request.getfixturevalue("redis_server"), name)
    yield made
    await made.close()


async def some(queue: JobQueue) -> bytes:
    """The next id, done; asks again as a worker would."""
    async with asyncio.timeout(PATIENCE):
        while (delivery := await queue.take(0.05)) is None:
            pass
    await queue.done(delivery.receipt)
    return delivery.id


async def test_ids_come_in_the_order_in_which_they_were_put(queue: JobQueue) -> None:
    await queue.put([b"one", b"two"])
    await queue.put([])
    await queue.put([b"\x00" * MAX_JOB_ID])
    assert [await some(queue) for _ in range(3)] == [b"one", b"two", b"\x00" * MAX_JOB_ID]
    assert await queue.take(0) is None


async def test_taker_that_waits_is_woken(queue: JobQueue) -> None:
    taking = asyncio.ensure_future(queue.take(5))
    await asyncio.sleep(0.01)
    await queue.put([b"late"])
    taken = await taking
    assert taken is not None
    assert taken.id == b"late"


async def test_each_id_goes_to_one_of_several_takers(queue: JobQueue) -> None:
    ids = [bytes([number]) for number in range(24)]
    await queue.put(ids)

    async def worker() -> list[bytes]:
        found = []
        while (delivery := await queue.take(0)) is not None:
            found.append(delivery.id)
            await queue.done(delivery.receipt)
        return found

    assert sorted(chain.from_iterable(await asyncio.gather(*(worker() for _ in range(4))))) == ids


async def test_finishing_twice_is_harmless(queue: JobQueue) -> None:
    await queue.put([b"one", b"two"])
    delivery = await queue.take(1)
    assert delivery is not None
    await queue.done(delivery.receipt)
    await queue.done(delivery.receipt)
    assert await some(queue) == b"two"


@pytest.mark.parametrize("wrong", [b"", b"x" * (MAX_JOB_ID + 1)])
async def test_id_of_a_wrong_size_is_refused(queue: JobQueue, wrong: bytes) -> None:
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        await queue.put([b"good", wrong])
    assert await queue.take(0) is None


async def test_closed_queue_gives_nothing_and_takes_nothing(queue: JobQueue) -> None:
    await queue.put([b"one"])
    await queue.close()
    await queue.put([b"two"])
    assert await queue.take(0.01) is None


async def test_memory_queue_forgets_the_oldest_beyond_its_bound() -> None:
    queue = MemoryJobQueue(SystemClock(), bound=2)
    await queue.put([b"one", b"two", b"three"])
    assert [await some(queue), await some(queue)] == [b"two", b"three"]


async def test_stream_forgets_the_oldest_far_beyond_its_bound(redis_server: RedisServer, name: str) -> None:
    queue = redis_queue(redis_server, name, bound=100)
    await queue.put([number.to_bytes(2, "big") for number in range(1000)])
    assert int.from_bytes(await some(queue), "big") >= 700
    await queue.close()


async def test_delivery_of_a_worker_that_died_goes_to_another(redis_server: RedisServer, name: str) -> None:
    dying, other = (redis_queue(redis_server, name, visibility=0.02) for _ in range(2))
    await dying.put([b"one", b"two"])
    lost = await dying.take(1)
    await dying.close()
    assert lost is not None
    assert sorted([await some(other), await some(other)]) == [b"one", b"two"]
    assert await other.take(0) is None
    await other.close()


async def test_delivery_in_time_is_not_repeated(redis_server: RedisServer, name: str) -> None:
    slow, other = redis_queue(redis_server, name), redis_queue(redis_server, name)
    await slow.put([b"one"])
    assert await slow.take(1) is not None
    assert await other.take(0.01) is None
    await slow.close()
    await other.close()


async def test_consumers_that_ended_long_ago_leave_the_group(redis_server: RedisServer, name: str) -> None:
    gone, other = (redis_queue(redis_server, name, visibility=0.0005) for _ in range(2))
    await gone.put([b"one"])
    assert await some(gone) == b"one"
    await gone.close()
    client = connect(redis_server.url_of(REDIS_USER))
    (left,) = await client.xinfo_consumers(f"tacit:{name}:jobs", "workers")
    async with asyncio.timeout(PATIENCE):
        while left["name"] in {one["name"] for one in await client.xinfo_consumers(f"tacit:{name}:jobs", "workers")}:
            assert await other.take(0.01) is None
    await client.aclose()
    await other.close()


async def test_stream_that_vanishes_under_a_waiting_worker_is_made_again(redis_server: RedisServer, name: str) -> None:
    queue = redis_queue(redis_server, name)
    client = connect(redis_server.url_of(REDIS_USER))
    await queue.put([b"one"])
    kept = await queue.take(1)
    assert kept is not None
    waiting = asyncio.ensure_future(queue.take(5))
    await asyncio.sleep(0.02)
    assert await client.delete(f"tacit:{name}:jobs") == 1
    assert await waiting is None
    await queue.done(kept.receipt)
    await queue.put([b"two"])
    assert await some(queue) == b"two"
    assert queue.outage.total == 0
    await client.aclose()
    await queue.close()


async def test_entry_that_is_not_ours_is_passed_over(redis_server: RedisServer, name: str) -> None:
    queue, client = redis_queue(redis_server, name), connect(redis_server.url_of(REDIS_USER))
    await client.xadd(f"tacit:{name}:jobs", {"other": "field"})
    await client.xadd(f"tacit:{name}:jobs", {"id": "x" * 1000})
    await queue.put([b"one"])
    assert await some(queue) == b"one"
    assert await client.xlen(f"tacit:{name}:jobs") == 0
    await client.aclose()
    await queue.close()


async def test_server_that_is_away_costs_pauses_and_no_error(make_redis: Callable[[], RedisServer], name: str) -> None:
    server, told = make_redis(), list[str]()
    queue = redis_queue(server, name, report=lambda error: told.append(type(error).__name__))
    await queue.put([b"one"])
    assert await queue.take(0) is not None
    server.crash()
    assert await queue.take(0.01) is None
    await queue.put([b"lost"])
    assert await queue.take(0.5) is None
    assert told == ["ConnectionError"]
    server.start()
    delivery = None
    async with asyncio.timeout(PATIENCE):
        while delivery is None or delivery.id != b"two":
            await queue.put([b"two"])
            delivery = await queue.take(0.05)
    assert told == ["ConnectionError", "NoneType"]
    await queue.close()


async def test_wrong_password_is_an_outage_and_stands_in_no_text(redis_server: RedisServer, name: str) -> None:
    url = redis_server.url_of(REDIS_USER).replace(REDIS_USER.password, "not-the-password")
    told = list[Exception | None]()
    queue = RedisJobQueue(url, name, QUICK, OsEntropy(), report=told.append)
    assert await queue.take(0) is None
    assert "not-the-password" not in f"{told} {queue!r} {queue._redis!r}"
    assert queue.outage.total == 1
    await queue.close()
