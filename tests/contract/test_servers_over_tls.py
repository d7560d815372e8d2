"""Queue and announcements over TLS: the server must show a certificate of an authority that the service trusts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.layout import free_ports
from infra.mosquitto import MosquittoServer
from infra.redis import RedisServer
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.ports import Announcement
from tacit.service.announcements import LOG
from tacit.service.backends import AnnouncerConfig, RedisConfig, make_announcer, make_queue
from tacit.service.config import write_secret
from tests.certificates import Authority
from tests.conftest import PUBLISHER, PUBLISHER_PASSWORD, REDIS_USER

SECONDS = 10.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "ca")


def extended(config: Path, lines: list[str]) -> None:
    config.write_text("\n".join([config.read_text(), *lines, ""]))


async def test_queue_over_tls(make_redis: Callable[[], RedisServer], authority: Authority, tmp_path: Path) -> None:
    server, (port,) = make_redis(), free_ports(1)
    certificate, key = authority.issue("redis")
    server.stop()
    files = [f'tls-cert-file "{certificate}"', f'tls-key-file "{key}"', f'tls-ca-cert-file "{authority.certificate}"']
    extended(server.folder / "redis.conf", [f"tls-port {port}", "tls-auth-clients no", *files])
    server.start()
    url = f"rediss://{REDIS_USER.name}:{REDIS_USER.password}@127.0.0.1:{port}/0"

    async def taken(query: str) -> bytes | None:
        write_secret(tmp_path / "redis.url", (url + query).encode())
        config = RedisConfig(redis=tmp_path / "redis.url")
        queue = make_queue(config, "leader", SystemClock(), OsEntropy(), insecure=False)
        await queue.put([b"over tls"])
        delivery = await queue.take(0.01)
        await queue.close()
        return None if delivery is None else delivery.id

    assert await taken(f"?ssl_ca_certs={authority.certificate}") == b"over tls"
    assert await taken("") is None


@pytest.fixture
def broker_url(make_mosquitto: Callable[[], MosquittoServer], authority: Authority, tmp_path: Path) -> Path:
    """File with the URL of a broker that speaks TLS."""
    server, (port,) = make_mosquitto(), free_ports(1)
    certificate, key = authority.issue("broker")
    server.stop()
    lines = [f"listener {port} 127.0.0.1", f"certfile {certificate}", f"keyfile {key}"]
    extended(server.folder / "mosquitto.conf", lines)
    server.start()
    write_secret(tmp_path / "mqtt.url", f"mqtts://{PUBLISHER}:{PUBLISHER_PASSWORD}@127.0.0.1:{port}".encode())
    return tmp_path / "mqtt.url"


async def test_announcements_over_tls(broker_url: Path, authority: Authority) -> None:
    config = AnnouncerConfig(mqtt=broker_url, tls_ca=authority.certificate)
    announcer = make_announcer(config, "test", SystemClock(), OsEntropy(), insecure=False)
    await announcer.open()
    announcer.publish(LOG, b"3")
    async with asyncio.timeout(SECONDS):
        assert await anext(announcer.subscribe(LOG)) == Announcement(LOG, b"3")
    await announcer.close()


# The client library leaves a socket whose handshake failed to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_broker_of_an_unknown_authority_is_not_spoken_to(broker_url: Path) -> None:
    failed = asyncio.Event()
    announcer = make_announcer(
        AnnouncerConfig(mqtt=broker_url),
        "test",
        SystemClock(),
        OsEntropy(),
        insecure=False,
        report=lambda _error: failed.set(),
    )
    await announcer.open()
    async with asyncio.timeout(SECONDS):
        await failed.wait()
    await announcer.close()
    gc.collect()
