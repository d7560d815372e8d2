"""Redis and an MQTT broker for a local stack: the stack's own, or an operator's.

Redis carries the gateway's replay window, with a user of its own; on an operator's server it uses the given URL, with a
prefix for this stack. The broker carries announcements: the recipe
server publishes, everybody else listens anonymously. Either can be added at any start; the stack then keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from client_agent.config import Announcements
from infra.backing.child import PrivateServer
from infra.backing.mosquitto import MosquittoServer
from infra.backing.redis import RedisServer, RedisUser
from infra.base.certificate_files import CA_FILE
from infra.base.certificates import certify
from infra.base.free_ports import free_ports
from infra.base.remembered_servers import amend_config, has_server, own_port, remember
from infra.stacks.certificates import authority_of
from infra.stacks.layout import Layout
from infra.stacks.tls import AUTHORITY
from tacit.adapters.messaging.redis_replay import RedisSeen
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.ports import Entropy
from tacit.service.base.backends import AnnouncerConfig, RedisConfig
from tacit.service.base.secret_files import read_secret, write_secret

REDIS, BROKER = "redis", "mosquitto"
REDIS_FILE, BROKER_FILE = "redis.url", "mqtt.url"
REDIS_SERVICES = {"gateway": "replay_window"}
PUBLISHER = "recipe_server"
BROKER_OPERATOR = "broker.example"
SECURE_PORT, PLAIN_PORT = 8883, 1883
DEVICE_DELAY_SECONDS = 2.0
"""Within how many seconds of an announcement a stack's devices read the log; short, because its epochs are."""
LISTENERS = ("leader", "helper", "shuffler", "analyzer", "collector")

Server = TypeVar("Server", RedisServer, MosquittoServer)


@contextlib.contextmanager
def redis(layout: Layout, *, wanted: bool, url_file: Path | None, entropy: Entropy) -> Iterator[None]:
    """Provide the stack's Redis, if it has one or is to get one, while the block runs. Raises ``UsageError``."""

    def own(folder: Path) -> tuple[RedisServer, Callable[[], None]]:
        users = {name: RedisUser(name, entropy(24).hex(), f"tacit:{name}:") for name in REDIS_SERVICES}
        server = RedisServer.create(folder, free_ports(1)[0], users)
        _certify(layout, server)
        urls = {name: server.url_of(user) for name, user in users.items()}
        return server, lambda: _use_redis(layout, urls, "tacit")

    def operators(path: Path) -> None:
        url, prefix = RedisConfig(redis=path).url(insecure=False), f"tacit-{entropy(4).hex()}"
        asyncio.run(_require_redis(url))
        _use_redis(layout, dict.fromkeys(REDIS_SERVICES, url), prefix)

    folder = layout.state_dir / REDIS
    load = partial(_load_server, layout, RedisServer)
    yield from _provide(folder, own, load, operators, wanted=wanted, url_file=url_file)


@contextlib.contextmanager
def broker(layout: Layout, *, wanted: bool, url_file: Path | None, entropy: Entropy) -> Iterator[None]:
    """Provide the stack's broker, if it has one or is to get one, while the block runs. Raises ``UsageError``."""

    def own(folder: Path) -> tuple[MosquittoServer, Callable[[], None]]:
        password = entropy(24).hex()
        tls = layout.options.tls
        server = MosquittoServer.create(folder, free_ports(1)[0], {PUBLISHER: password}, entropy, tls=tls)
        _certify(layout, server)
        url = f"{'mqtts' if tls else 'mqtt'}://{PUBLISHER}:{password}@127.0.0.1:{server.port}"
        return server, lambda: _use_broker(layout, url, {"tls_ca": CA_FILE} if tls else {})

    def operators(path: Path) -> None:
        _use_broker(layout, AnnouncerConfig(mqtt=path).url(insecure=False), {})

    folder = layout.state_dir / BROKER
    load = partial(_load_server, layout, MosquittoServer)
    yield from _provide(folder, own, load, operators, wanted=wanted, url_file=url_file)


def announcements_of(layout: Layout) -> Announcements | None:
    """Return the announcement settings for devices that listen to the stack's broker; None if it has none."""
    if not has_server(layout.state_dir / BROKER):
        return None
    url = urlsplit(read_secret(layout.configs[LISTENERS[0]].parent / BROKER_FILE).decode().strip())
    secure, trust = url.scheme == "mqtts", layout.state_dir / AUTHORITY / CA_FILE
    return Announcements(
        operator=BROKER_OPERATOR,
        host=url.hostname or "",
        port=url.port or (SECURE_PORT if secure else PLAIN_PORT),
        tls=secure,
        tls_ca=trust if secure and own_port(layout.state_dir / BROKER) is not None else None,
        delay_seconds=DEVICE_DELAY_SECONDS,
    )


def _provide(
    folder: Path,
    own: Callable[[Path], tuple[Server, Callable[[], None]]],
    load: Callable[[Path, int], Server],
    operators: Callable[[Path], None],
    *,
    wanted: bool,
    url_file: Path | None,
) -> Iterator[None]:
    """Provide the server that the stack already has, or the one wanted now. ``own`` creates a server's files and
    returns it with a function that configures the services once it runs, ``load`` finds existing files, and
    ``operators`` configures the services for the server in a URL file."""
    server: Server | None = None
    try:
        if has_server(folder):
            port = own_port(folder)
            if url_file is not None:
                raise UsageError(f"{folder.parent}: this stack has its {folder.name}; leave the URL file out")
            if port is not None:
                server = load(folder / "server", port)
                server.start()
        elif url_file is not None:
            operators(url_file)
            remember(folder, None)
        elif wanted:
            shutil.rmtree(folder, ignore_errors=True)  # left by a start that failed before the marker was written
            server, tell = own(folder / "server")
            server.start()
            tell()
            remember(folder, server.port)
        yield
    finally:
        if server is not None:
            server.stop()


def _certify(layout: Layout, server: PrivateServer) -> None:
    """In a stack with TLS, give the server a certificate, so that it speaks TLS only."""
    if layout.options.tls:
        now = SystemClock().now()
        certify(server.folder, authority_of(layout.state_dir, now), [f"{server.folder.parent.name}.local"], now)


def _load_server(layout: Layout, kind: Callable[[Path, int], Server], folder: Path, port: int) -> Server:
    """Return a server of an earlier start, with a new certificate."""
    server = kind(folder, port)
    _certify(layout, server)
    return server


def _use_redis(layout: Layout, urls: Mapping[str, str], prefix: str) -> None:
    for name, url in urls.items():
        config = layout.configs[name]
        write_secret(config.parent / REDIS_FILE, url.encode())
        amend_config(config, **{REDIS_SERVICES[name]: {"redis": REDIS_FILE, "prefix": prefix}})


def _use_broker(layout: Layout, url: str, trust: Mapping[str, str]) -> None:
    """Configure the publisher with ``url``, and listeners with ``url`` without name and password. ``trust`` is the
    setting that names the authority's file."""
    parts = urlsplit(url)
    anonymous = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    for name in (PUBLISHER, *LISTENERS):
        config = layout.configs[name]
        write_secret(config.parent / BROKER_FILE, (url if name == PUBLISHER else anonymous).encode())
        amend_config(config, announcer={"mqtt": BROKER_FILE, **trust})


async def _require_redis(url: str) -> None:
    seen = RedisSeen(url, "start")
    await seen.open()
    await seen.close()
