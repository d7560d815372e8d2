"""From the recipe server's commit over a broker to whoever looks at the log sooner for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.agent import Agent
from client_agent.config import AgentConfig
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.hints import Hints, check_broker
from client_agent.journal import MemoryAgentStore
from infra.backing.mosquitto import MosquittoServer
from infra.lab.kit.clock import SimClock, settle
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.recipes import NOW, RecipeKit
from recipe_server.app import create_app
from recipe_server.config import RecipeServerConfig
from recipe_server.handlers import RECIPES as RECIPE_SERVICE
from tacit import ohttp
from tacit.adapters.messaging.mqtt import Broker, MqttAnnouncer
from tacit.adapters.messaging.topics import KEYS, LOG, RECIPES, encode_size, parse_size
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.announcer import MAX_ANNOUNCEMENT, Announcement, Subscription
from tacit.codec import b64url
from tacit.errors import DecodeError, UsageError
from tacit.ports import HttpResponse, TransportError
from tacit.service.announcements import wake_on_announcements
from tacit.service.app import ServiceEnv, make_app
from tacit.service.base.backends import AnnouncerConfig, RedisConfig, make_announcer
from tacit.service.base.secret_files import write_secret
from tacit.tlog.checkpoint import NoteKey
from tacit.tokens.attestation import Evidence
from tests.conftest import PUBLISHER, PUBLISHER_PASSWORD
from tests.kit.announcer import MemoryAnnouncer

KIT = RecipeKit()
SECONDS = 60.0


def announcer_config(folder: Path, server: MosquittoServer, *, publisher: bool) -> AnnouncerConfig:
    who = f"{PUBLISHER}:{PUBLISHER_PASSWORD}@" if publisher else ""
    path = folder / f"mqtt{publisher}.url"
    write_secret(path, f"mqtt://{who}127.0.0.1:{server.port}\n".encode())
    return AnnouncerConfig(mqtt=path)


@asynccontextmanager
async def listening(server: MosquittoServer) -> AsyncIterator[MqttAnnouncer]:
    announcer = MqttAnnouncer(Broker("127.0.0.1", server.port), SystemClock(), OsEntropy())
    await announcer.open()
    try:
        yield announcer
    finally:
        await announcer.close()


async def until(subscription: Subscription, wanted: Announcement) -> None:
    async with asyncio.timeout(SECONDS):
        async for announcement in subscription:
            if announcement == wanted:
                return


async def test_recipe_server_announces_what_it_committed(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    config = RecipeServerConfig.model_validate(
        {
            "state_dir": tmp_path,
            "log_name": KIT.log_policy.origin,
            "log_key": tmp_path / "log.key",
            "policy": KIT.policy,
            "accept_late_directories": True,
            "announcer": announcer_config(tmp_path, mosquitto, publisher=True),
        }
    )
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    app = create_app(config, ServiceEnv(SimClock(NOW), OsEntropy(), InProcessTransport(), background=False))
    async with InProcessTransport() as network, listening(mosquitto) as reader:
        heard = {topic: reader.subscribe(topic) for topic in (LOG, KEYS, RECIPES)}
        await network.mount("http://127.0.0.1:8084", app)
        await until(heard[LOG], Announcement(LOG, b"0"))
        service = app[RECIPE_SERVICE]
        assert (await service.publish_leaf(KIT.directory_leaf().encode())).added
        await until(heard[LOG], Announcement(LOG, b"1"))
        await until(heard[KEYS], Announcement(KEYS, b"1"))
        assert not (await service.publish_leaf(KIT.directory_leaf().encode())).added
        assert (await service.publish_leaf(KIT.recipe_leaf(KIT.recipe()).encode())).added
        await until(heard[RECIPES], Announcement(RECIPES, b"2"))


async def test_service_is_woken_when_the_log_grew_and_by_nothing_else(
    mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    publisher = make_announcer(
        announcer_config(tmp_path, mosquitto, publisher=True), "test", SystemClock(), OsEntropy(), insecure=False
    )
    app = make_app("collector", ServiceEnv(SystemClock(), OsEntropy(), InProcessTransport()))
    wake = asyncio.Event()
    wake_on_announcements(app, announcer_config(tmp_path, mosquitto, publisher=False), wake, insecure=False)
    await publisher.open()
    publisher.publish(LOG, b"not a size")
    publisher.publish(KEYS, b"7")
    async with InProcessTransport() as network, listening(mosquitto) as reader:
        await until(reader.subscribe(KEYS), Announcement(KEYS, b"7"))
        await network.mount("http://127.0.0.1:8010", app)
        await until(reader.subscribe(LOG), Announcement(LOG, b"not a size"))
        assert not wake.is_set()
        publisher.publish(LOG, encode_size(8))
        async with asyncio.timeout(SECONDS):
            await wake.wait()
    await publisher.close()


async def test_service_runs_where_its_broker_does_not(tmp_path: Path) -> None:
    write_secret(tmp_path / "mqtt.url", b"mqtt://127.0.0.1:1")
    app = make_app("collector", ServiceEnv(SystemClock(), OsEntropy(), InProcessTransport()))
    wake_on_announcements(app, AnnouncerConfig(mqtt=tmp_path / "mqtt.url"), asyncio.Event(), insecure=False)
    async with InProcessTransport() as network:
        await network.mount("http://127.0.0.1:8010", app)
        assert (await network.request("GET", "http://127.0.0.1:8010/healthz")).status == 200


class Recorded:
    """Stands where an agent does."""

    def __init__(self) -> None:
        self.polls: list[float] = []

    def poll_within(self, within: float) -> None:
        self.polls.append(within)


async def test_device_is_hastened_by_announcements_of_a_size_only() -> None:
    announcer, agent, wake = MemoryAnnouncer(), Recorded(), asyncio.Event()
    async with Hints(announcer, 30.0).followed(cast(Agent, agent), wake):
        await settle()
        for payload in (b"", b"-1", b"01", b"9" * MAX_ANNOUNCEMENT, b"1e3"):
            announcer.publish(LOG, payload)
            await settle()
        announcer.publish(RECIPES, b"5")
        await settle()
        assert (agent.polls, wake.is_set()) == ([], False)
        announcer.publish(LOG, b"5")
        await settle()
        assert (agent.polls, wake.is_set()) == ([30.0], True)


class Counting:
    """A network without anybody in it that counts who asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.asked += 1
        raise TransportError("nobody is here")


def device(clock: SimClock, network: Counting, **changes: Any) -> Agent:
    deps = AgentEnv(clock, SeededEntropy(b"hastened"), network)
    return Agent(
        agent_config(**changes), KIT.policy, deps, MemoryAgentStore(), CallableSource(lambda _metric: 1), NoDevice()
    )


class NoDevice:
    """A device without an attestation identity, for tests in which no token is due."""

    def attest(self, binding: bytes) -> Evidence:
        raise AssertionError("no token is due")


def agent_config(**changes: Any) -> AgentConfig:
    body = {
        "state_dir": "unused",
        "log_key": NoteKey("log.example/tacit", KIT.keys["log"].public).encode(),
        "issuer": {"name": "issuer.example", "signing_key": b64url(KIT.keys["issuer"].public), "epoch_seconds": 60},
        "gateway": {
            "name": "gateway.example",
            "signing_key": b64url(KIT.keys["gateway"].public),
            "rotation_seconds": 86400,
            "period": NOW // 86400,
            "key_config": b64url(ohttp.generate_key_config(1, SeededEntropy(b"gateway"))[0].encode()),
        },
        "relay_url": "http://127.0.0.1:1",
        "recipe_server_url": "http://127.0.0.1:2",
        "attester_url": "http://127.0.0.1:3",
        "attestation": {"identity": "unused"},
        "policy": "unused",
        "source": {"kind": "csv", "path": "unused"},
        "timing": {"poll_seconds": 86400, "retry_limit_seconds": 86400},
        **changes,
    }
    return AgentConfig.model_validate(body)


async def test_hastened_device_polls_once_at_a_random_moment_of_the_delay() -> None:
    clock, network = SimClock(float(NOW)), Counting()
    agent = device(clock, network)
    later = await agent.poll()
    assert later - NOW > 60_000
    assert await agent.poll() == later
    agent.poll_within(30.0)
    agent.poll_within(30.0)
    due = await agent.poll()
    assert NOW < due < NOW + 30
    clock.jump(due - NOW)
    assert await agent.poll() - NOW > 60_000
    assert network.asked == 2


async def test_announcements_without_end_cost_one_poll_per_delay() -> None:
    clock, network = SimClock(float(NOW)), Counting()
    agent = device(clock, network)
    for _ in range(900):
        agent.poll_within(30.0)
        await agent.poll()
        clock.jump(1)
    assert 900 / 30 - 2 <= network.asked <= 900 / 30 + 2


@pytest.mark.parametrize(
    ("announcements", "says"),
    [
        ({"operator": "relay.example", "host": "127.0.0.1", "tls": False}, None),
        ({"operator": "relay.example", "host": "broker.example"}, None),
        ({"operator": "analyst.example", "host": "broker.example"}, "run by an analyst"),
        ({"operator": "gateway.example", "host": "broker.example"}, "run by an analyst"),
        (
            {"operator": "relay.example", "host": "broker.example", "tls": False},
            "a plain connection to another machine",
        ),
    ],
)
def test_device_listens_to_no_broker_of_an_analyst_and_to_none_in_clear(
    announcements: dict[str, Any], says: str | None
) -> None:
    config = agent_config(announcements=announcements)
    policy = KIT.policy.model_copy(update={"analysts": {"analyst.example": "key"}})
    if says is None:
        check_broker(config, policy)
        return
    with pytest.raises(UsageError, match=says):
        check_broker(config, policy)


@given(st.integers(0, 10**15 - 1))
def test_sizes_survive_their_payload(size: int) -> None:
    assert parse_size(encode_size(size)) == size


@given(st.binary(max_size=MAX_ANNOUNCEMENT))
def test_what_is_not_a_size_is_refused(payload: bytes) -> None:
    try:
        size = parse_size(payload)
    except DecodeError:
        return
    assert encode_size(size) == payload


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("redis://127.0.0.1", None),
        ("redis://u:secret@localhost:6379/0", None),
        ("rediss://u:secret@queue.example", None),
        ("unix:///run/redis.sock", None),
        ("redis://u:secret@queue.example", "plain connection to another machine; use rediss://"),
        ("http://u:secret@127.0.0.1", "must hold one URL"),
        ("redis://u:secret@127.0.0.1:port", "must hold one URL"),
        ("redis://u:secret@", "must hold one URL"),
        ("redis://u:secret@127.0.0.1 redis://127.0.0.1", "must hold one URL"),
    ],
)
def test_redis_address_is_safe_and_never_quoted(tmp_path: Path, text: str, says: str | None) -> None:
    write_secret(tmp_path / "url", f"{text}\n".encode())
    config = RedisConfig(redis=tmp_path / "url")
    if says is None:
        assert config.url(insecure=False) == text
        return
    with pytest.raises(UsageError, match=says) as refused:
        config.url(insecure=False)
    assert "secret" not in str(refused.value)
    if "to another machine" in says:
        assert config.url(insecure=True) == text


async def test_broker_address_is_safe_and_never_quoted(tmp_path: Path) -> None:
    def made(text: str, *, insecure: bool = False) -> object:
        write_secret(tmp_path / "url", text.encode())
        config = AnnouncerConfig(mqtt=tmp_path / "url")
        return make_announcer(config, "leader", SimClock(), SeededEntropy(1), insecure=insecure)

    for text in ("mqtt://127.0.0.1:1883", "mqtts://u:secret@broker.example"):
        assert "secret" not in repr(made(text))
    assert made("mqtt://broker.example", insecure=True)
    for text in ("mqtt://u:secret@broker.example", "tcp://u:secret@127.0.0.1", "mqtt://"):
        with pytest.raises(UsageError) as refused:
            made(text)
        assert "secret" not in str(refused.value)
    write_secret(tmp_path / "ca", b"nothing")
    write_secret(tmp_path / "url", b"mqtts://broker.example")
    config = AnnouncerConfig(mqtt=tmp_path / "url", tls_ca=tmp_path / "ca")
    with pytest.raises(UsageError, match="CA cannot be loaded"):
        make_announcer(config, "leader", SimClock(), SeededEntropy(1), insecure=False)
