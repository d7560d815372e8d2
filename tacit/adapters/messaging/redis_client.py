"""A client of a Redis server, over TLS where its URL says so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from redis.asyncio import Redis
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tacit.adapters.network.happy_eyeballs import open_socket
from tacit.adapters.network.tls import LiveContext, private_context
from tacit.errors import UsageError

TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 10.0


class _Connection(Connection):
    """A connection to the first address of its host that answers."""

    _socket: socket.socket | None = None

    async def _connect(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            self._socket = await open_socket(self.host, self.port)
            try:
                await super()._connect()  # type: ignore[no-untyped-call]
            except BaseException:
                self._socket.close()
                raise

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {"sock": self._socket}


class _TlsConnection(_Connection, SSLConnection):
    """A connection that uses the newest TLS context of its files."""

    def __init__(self, *, live: LiveContext, **options: Any) -> None:
        super().__init__(**options)
        self._live = live

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._live.current(), "server_hostname": self.host}


def connect(url: str) -> Redis:
    """Make a client that connects on first use, answers or fails in bounded time, and never sends a command twice by
    itself.

    A ``rediss://`` server must show a certificate for its host, signed by an authority of ``ssl_ca_certs`` (without it
    by one of the system's); ``ssl_certfile`` and ``ssl_keyfile`` (0600) are shown to it. Raises ``UsageError`` for any
    other option in the URL and for files that cannot be used.
    """
    bare, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options).difference(TLS_OPTIONS))
    if unknown or (options and not url.startswith("rediss:")):
        raise UsageError(f"a Redis URL may have {', '.join(TLS_OPTIONS)} with rediss://, and no other option")
    client = Redis.from_url(
        bare,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,  # the shape of answers below
    )
    if url.startswith("redis:"):
        client.connection_pool.connection_class = _Connection
    if url.startswith("rediss:"):
        files = [Path(options[name]) if name in options else None for name in TLS_OPTIONS]
        live = LiveContext("TLS of Redis", files, partial(private_context, *files))
        live.current()
        client.connection_pool.connection_class = _TlsConnection
        client.connection_pool.connection_kwargs["live"] = live
    return client
