"""Queue and announcements over TLS: the server must show a certificate of an authority that the service trusts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.backing.mosquitto import MosquittoServer
from infra.backing.redis import RedisServer
from infra.base.free_ports import free_ports
from tacit.adapters.messaging.redis_replay import RedisSeen
from tacit.adapters.messaging.topics import LOG
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.announcer import Announcement
from tacit.errors import UsageError
from tacit.service.base.backends import AnnouncerConfig, RedisConfig, make_announcer
from tacit.service.base.secret_files import read_secret, write_secret
from tests.certificates import Authority
from tests.conftest import PUBLISHER, PUBLISHER_PASSWORD, REDIS_USER

SECONDS = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "ca")


def extended(config: Path, lines: list[str]) -> None:
    config.write_text("\n".join([config.read_text(), *lines, ""]))


@pytest.fixture(scope="module")
def redis(make_redis: Callable[[], RedisServer], authority: Authority) -> str:
    """URL, without options, of a Redis that speaks TLS beside plain text."""
    server, (port,) = make_redis(), free_ports(1)
    certificate, key = authority.issue("redis", ["127.0.0.1"])
    server.stop()
    files = [f'tls-cert-file "{certificate}"', f'tls-key-file "{key}"', f'tls-ca-cert-file "{authority.certificate}"']
    extended(server.folder / "redis.conf", [f"tls-port {port}", "tls-auth-clients no", *files])
    server.start()
    return f"rediss://{REDIS_USER.name}:{REDIS_USER.password}@127.0.0.1:{port}/0"


def url_file(folder: Path, url: str) -> RedisConfig:
    write_secret(folder / "redis.url", url.encode())
    return RedisConfig(redis=folder / "redis.url")


async def test_a_window_on_redis_over_tls(redis: str, authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "beside.pem").write_bytes(authority.certificate.read_bytes())
    # a name alone is that of a file in the folder of the URL's
    for trusted, is_new in ((authority.certificate, True), ("beside.pem", False)):
        seen = RedisSeen(url_file(tmp_path, f"{redis}?ssl_ca_certs={trusted}").url(insecure=False), "test")
        await seen.open()
        assert await seen.add([(b"over tls", 60)]) == [is_new]
        await seen.close()


async def test_a_window_on_redis_is_refused_in_one_line_unless_it_is_the_right_server(
    redis: str, redis_server: RedisServer, authority: Authority, folder: Path, tmp_path: Path
) -> None:
    trusted = f"?ssl_ca_certs={authority.certificate}"
    other = f"?ssl_ca_certs={Authority(folder, 'other').certificate}"
    plain = f"rediss://u:p@127.0.0.1:{redis_server.port}/0{trusted}"
    for url, says in (
        (redis, "its certificate is not trusted"),
        (redis + other, "its certificate is not trusted"),
        (redis.replace("127.0.0.1", "localhost") + trusted, "its certificate is for another host"),
        (plain, "TimeoutError"),  # it waits for the rest of a command
    ):
        seen = RedisSeen(url_file(tmp_path, url).url(insecure=False), "test")
        with pytest.raises(UsageError, match=f"^Redis does not answer: {says}[^\n]*$"):
            await seen.open()


@pytest.mark.parametrize("option", ["ssl_cert_reqs=none", "ssl_check_hostname=false", "ssl_min_version=769", "db=1"])
async def test_a_redis_url_cannot_switch_the_checks_off(redis: str, tmp_path: Path, option: str) -> None:
    """The client library would take each of these."""
    with pytest.raises(UsageError, match="and no other option"):
        RedisSeen(url_file(tmp_path, f"{redis}?{option}").url(insecure=False), "test")


@pytest.fixture
def broker_url(make_mosquitto: Callable[[], MosquittoServer], authority: Authority, tmp_path: Path) -> Path:
    """File with the URL of a broker that speaks TLS."""
    server, (port,) = make_mosquitto(), free_ports(1)
    certificate, key = authority.issue("broker", ["127.0.0.1"])
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
@pytest.mark.parametrize("wrong", ["unknown authority", "other authority", "other name"])
async def test_broker_of_an_unknown_authority_or_another_name_is_not_spoken_to(
    broker_url: Path, authority: Authority, folder: Path, wrong: str
) -> None:
    failed, met = asyncio.Event(), list[str]()

    def report(error: Exception | None) -> None:
        met.append(str(error))
        failed.set()

    trusted = {"unknown authority": None, "other authority": Authority(folder, "foreign").certificate}
    if wrong == "other name":
        write_secret(broker_url, read_secret(broker_url).replace(b"127.0.0.1", b"localhost"))
    announcer = make_announcer(
        AnnouncerConfig(mqtt=broker_url, tls_ca=trusted.get(wrong, authority.certificate)),
        "test",
        SystemClock(),
        OsEntropy(),
        insecure=False,
        report=report,
    )
    await announcer.open()
    announcer.publish(LOG, b"3")
    listening = announcer.subscribe(LOG)
    async with asyncio.timeout(SECONDS):
        await failed.wait()
    await announcer.close()
    assert [item async for item in listening] == []
    assert len(met) == 1, "the outage is not over"
    assert "certificate verify failed" in met[0]
    gc.collect()
