"""Database, queue and broker are reached at the address of their name that answers, whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import sqlalchemy as sa
import uvloop
from sqlalchemy.engine import make_url

from infra.backing.mosquitto import MosquittoServer
from infra.backing.redis import RedisServer
from tacit.adapters.databases.postgres import make_engine
from tacit.adapters.databases.postgres_driver import driver_of
from tacit.adapters.messaging.mqtt import Broker, MqttAnnouncer
from tacit.adapters.messaging.redis_replay import RedisSeen
from tacit.adapters.system import OsEntropy, SystemClock
from tests.conftest import PUBLISHER, PUBLISHER_PASSWORD, REDIS_USER
from tests.kit.addresses import ANSWERING, silent_first

on_both_loops = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
NewLoop = Callable[[], asyncio.AbstractEventLoop]
SLOW = 3
"""Seconds of a statement that is cancelled."""


@on_both_loops
def test_postgres(new_loop: NewLoop, make_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement is also cancelled there, over a connection of its own."""
    url = make_url(make_postgres_url())
    weak = {"sslmode": "prefer", "insecure_tls": "true"}

    async def asked(name: str) -> object:
        engine = make_engine(url.set(host=name, query=weak))
        try:
            async with engine.connect() as connection:
                driver = await driver_of(connection)
                with pytest.raises(TimeoutError):
                    await driver.execute(f"SELECT pg_sleep({SLOW})", timeout=0.1)
                return (await connection.execute(sa.text("SELECT 1"))).scalar_one()
        finally:
            await engine.dispose()

    with silent_first(url.port or 0, monkeypatch) as name, asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(asked(name)) == 1


@on_both_loops
def test_redis(new_loop: NewLoop, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(name: str) -> list[bool]:
        seen = RedisSeen(redis_server.url_of(REDIS_USER).replace(ANSWERING, name), f"two addresses {new_loop}")
        await seen.open()
        try:
            return await seen.add([(b"key", 60)])
        finally:
            await seen.close()

    with silent_first(redis_server.port, monkeypatch) as name, asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(asked(name)) == [True]


@on_both_loops
def test_mqtt(new_loop: NewLoop, mosquitto: MosquittoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def heard(name: str) -> bytes:
        broker = Broker(name, mosquitto.port, username=PUBLISHER, password=PUBLISHER_PASSWORD)
        announcer = MqttAnnouncer(broker, SystemClock(), OsEntropy())
        subscription = announcer.subscribe("tacit/v1/two-addresses")
        await announcer.open()
        try:
            announcer.publish("tacit/v1/two-addresses", b"heard")
            async with asyncio.timeout(30):
                return (await anext(subscription)).payload
        finally:
            await announcer.close()

    with silent_first(mosquitto.port, monkeypatch) as name, asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(heard(name)) == b"heard"
