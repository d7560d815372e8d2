"""Every announcer keeps the promises of ``Announcer``; what only a broker can do to one is tried on Mosquitto."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiomqtt
import pytest

from infra.backing.mosquitto import MosquittoServer
from tacit.adapters.messaging.mqtt import Broker, MqttAnnouncer
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.announcer import MAX_ANNOUNCEMENT, Announcement, Announcer, Subscription
from tests.conftest import PUBLISHER, PUBLISHER_PASSWORD
from tests.kit.announcer import MemoryAnnouncer

QUICK = ShiftedClock(SystemClock(), rate=20.0)
"""For pauses while the broker is away."""
SECONDS = 60.0


class Told:
    """Records what an announcer reported."""

    def __init__(self) -> None:
        self.errors = list[Exception | None]()
        self.first = asyncio.Event()

    def __call__(self, error: Exception | None) -> None:
        self.errors.append(error)
        self.first.set()


def broker(server: MosquittoServer) -> Broker:
    return Broker("127.0.0.1", server.port, username=PUBLISHER, password=PUBLISHER_PASSWORD)


@asynccontextmanager
async def opened(where: Broker, told: Told | None = None) -> AsyncIterator[MqttAnnouncer]:
    announcer = MqttAnnouncer(where, QUICK, OsEntropy(), told or Told())
    await announcer.open()
    try:
        yield announcer
    finally:
        await announcer.close()


async def following(subscription: Subscription) -> Announcement:
    async with asyncio.timeout(SECONDS):
        return await anext(subscription)


async def assert_heard(subscription: Subscription, payload: bytes) -> None:
    """Read on to ``payload``: the one before may come again."""
    async with asyncio.timeout(SECONDS):
        async for announcement in subscription:
            if announcement.payload == payload:
                return
    pytest.fail(f"the subscription ended before {payload!r}")


@pytest.fixture
def topic() -> str:
    return f"tacit/v1/{secrets.token_hex(6)}"


@pytest.fixture(params=["memory", "mqtt"])
async def announcer(request: pytest.FixtureRequest) -> AsyncIterator[Announcer]:
    if request.param == "memory":
        made = MemoryAnnouncer()
        await made.open()
        yield made
        await made.close()
        return
    async with opened(broker(request.getfixturevalue("mosquitto"))) as mqtt:
        yield mqtt


async def test_everyone_who_listens_hears_it(announcer: Announcer, topic: str) -> None:
    first, second = announcer.subscribe(topic), announcer.subscribe(topic, f"{topic}/other")
    announcer.publish(topic, b"1")
    assert await following(first) == await following(second) == Announcement(topic, b"1")
    announcer.publish(f"{topic}/other", b"2")
    assert await following(second) == Announcement(f"{topic}/other", b"2")


async def test_who_comes_later_hears_the_newest(announcer: Announcer, topic: str) -> None:
    announcer.publish(topic, b"1")
    announcer.publish(topic, b"2")
    await assert_heard(announcer.subscribe(topic), b"2")
    await assert_heard(announcer.subscribe(topic), b"2")


async def test_slow_reader_finds_the_newest_only(announcer: Announcer, topic: str) -> None:
    quick, slow = announcer.subscribe(topic), announcer.subscribe(topic)
    for number in range(100):
        announcer.publish(topic, b"%d" % number)
    await assert_heard(quick, b"99")
    assert await following(slow) == Announcement(topic, b"99")


async def test_closing_ends_what_waits(announcer: Announcer, topic: str) -> None:
    ended, other = announcer.subscribe(topic), announcer.subscribe(topic)
    waiting = asyncio.ensure_future(anext(ended, None))
    await asyncio.sleep(0)
    ended.close()
    assert await waiting is None
    announcer.publish(topic, b"1")
    assert await following(other) == Announcement(topic, b"1")
    await announcer.close()
    assert [item async for item in other] == []


@pytest.mark.parametrize(("name", "payload"), [("", b""), ("t", b"x" * (MAX_ANNOUNCEMENT + 1))])
async def test_what_is_no_announcement_is_refused(announcer: Announcer, name: str, payload: bytes) -> None:
    with pytest.raises(ValueError, match="at most 64 bytes"):
        announcer.publish(name, payload)


async def test_publisher_reaches_other_connections_and_those_that_come_later(
    mosquitto: MosquittoServer, topic: str
) -> None:
    anonymous = Broker("127.0.0.1", mosquitto.port)
    async with opened(broker(mosquitto)) as publisher, opened(anonymous) as early:
        listening = early.subscribe(topic)
        publisher.publish(topic, b"7")
        assert await following(listening) == Announcement(topic, b"7")
    async with opened(anonymous) as late:
        assert await following(late.subscribe(topic)) == Announcement(topic, b"7")


async def test_who_has_no_password_cannot_announce(mosquitto: MosquittoServer, topic: str) -> None:
    anonymous = Broker("127.0.0.1", mosquitto.port)
    async with opened(broker(mosquitto)) as publisher, opened(anonymous) as stranger:
        stranger.publish(topic, b"forged")
        heard = stranger.subscribe(topic)
        await asyncio.sleep(0.05)
        publisher.publish(topic, b"true")
        assert await following(heard) == Announcement(topic, b"true")


async def test_wrong_password_is_an_outage(mosquitto: MosquittoServer, topic: str) -> None:
    told = Told()
    wrong = Broker("127.0.0.1", mosquitto.port, username=PUBLISHER, password="wrong")
    async with opened(wrong, told) as announcer:
        announcer.publish(topic, b"1")
        async with asyncio.timeout(SECONDS):
            await told.first.wait()
    assert "wrong" not in f"{wrong!r} {told.errors}"
    assert isinstance(told.errors[0], aiomqtt.MqttError)


async def test_payload_that_is_too_long_is_not_heard(mosquitto: MosquittoServer, topic: str) -> None:
    where = broker(mosquitto)
    async with opened(Broker("127.0.0.1", mosquitto.port)) as announcer:
        heard = announcer.subscribe(topic)
        async with aiomqtt.Client(where.host, where.port, username=where.username, password=where.password) as client:
            await client.publish(topic, b"x" * (MAX_ANNOUNCEMENT + 1), qos=1, retain=True)
            await client.publish(topic, b"9", qos=1, retain=True)
        assert await following(heard) == Announcement(topic, b"9")


async def test_broker_that_was_away_gets_everything_again(
    make_mosquitto: Callable[[], MosquittoServer], topic: str
) -> None:
    server, told = make_mosquitto(), Told()
    async with opened(broker(server), told) as publisher, opened(Broker("127.0.0.1", server.port)) as reader:
        heard = reader.subscribe(topic)
        publisher.publish(topic, b"1")
        await assert_heard(heard, b"1")
        server.crash()
        async with asyncio.timeout(SECONDS):
            await told.first.wait()
        publisher.publish(topic, b"2")
        server.start()
        await assert_heard(heard, b"2")
        async with opened(Broker("127.0.0.1", server.port)) as late:
            await assert_heard(late.subscribe(topic), b"2")
    assert [type(error).__name__ for error in told.errors] == ["MqttError", "NoneType"]


async def test_announcer_without_a_broker_ends_at_once_when_told(topic: str) -> None:
    async with opened(Broker("127.0.0.1", 1)) as announcer:
        announcer.publish(topic, b"1")
        subscription = announcer.subscribe(topic)
        await asyncio.sleep(0.02)
    assert [item async for item in subscription] == []


async def test_an_error_that_nobody_expected_ends_one_session_and_not_the_announcements(
    mosquitto: MosquittoServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, real = Told(), MqttAnnouncer._session

    async def broken(self: MqttAnnouncer, _client: aiomqtt.Client) -> None:
        monkeypatch.setattr(MqttAnnouncer, "_session", real)
        raise TypeError("an answer that nobody expected")

    monkeypatch.setattr(MqttAnnouncer, "_session", broken)
    async with opened(broker(mosquitto), told) as announcer:
        announcer.publish(topic, b"1")
        assert (await following(announcer.subscribe(topic))).payload == b"1"
    assert [type(error) for error in told.errors] == [TypeError, type(None)]
