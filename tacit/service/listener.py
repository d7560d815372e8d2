"""A listening socket with TLS whose connections are counted before their handshake.

An event loop's own server reports a connection to its protocol only after the handshake, so clients that never start
one would be counted nowhere, for a minute each. Here a connection is admitted by its address first, and has as much
time for the handshake as for a request head.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from typing import cast

from aiohttp import web

from tacit.service.connection import Connection, Server

PAUSE_SECONDS = 0.2
"""Seconds to pause after a failed accept, when the process is out of descriptors."""


class TlsSite(web.BaseSite):
    """A site that ``runner`` listens on. Raises ``OSError`` on ``start`` for an address that cannot be bound."""

    __slots__ = ("_host", "_port", "_reuse_port", "_tls")

    def __init__(
        self, runner: web.AppRunner, host: str, port: int, *, tls: ssl.SSLContext, backlog: int, reuse_port: bool
    ) -> None:
        super().__init__(runner, ssl_context=tls, backlog=backlog)
        self._host = host
        self._port = port
        self._tls = tls
        self._reuse_port = reuse_port

    @property
    def name(self) -> str:
        """The site's name as aiohttp shows it."""
        return f"https://{self._host}:{self._port}"

    async def start(self) -> None:
        """Start to listen for TLS connections."""
        await super().start()
        server = self._runner.server
        if not isinstance(server, Server):
            raise TypeError("the runner must be set up before its site starts")
        found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        places = sorted({(family, (str(address[0]), self._port)) for family, _, _, _, address in found})
        with contextlib.ExitStack() as stack:
            listening = [stack.enter_context(self._bound(family, address)) for family, address in places]
            stack.pop_all()
        self._server = cast(asyncio.AbstractServer, _Listener(server, listening, self._tls))

    def _bound(self, family: int, address: tuple[str, int]) -> socket.socket:
        made = socket.create_server(address, family=family, backlog=self._backlog, reuse_port=self._reuse_port)
        made.setblocking(False)
        return made


class _Listener:
    """Accepts until it is closed; ``sockets`` and ``close`` are those of an ``asyncio.Server``, which is all that
    aiohttp requires."""

    def __init__(self, server: Server, listening: Sequence[socket.socket], tls: ssl.SSLContext) -> None:
        self.sockets = tuple(listening)
        self._server = server
        self._tls = tls
        self._greeting: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._accepting = [loop.create_task(self._accept(one)) for one in listening]

    def close(self) -> None:
        """Stop listening, and end the handshakes in progress."""
        for task in (*self._accepting, *self._greeting):
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    raw, address = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in {errno.EBADF, errno.EINVAL}:
                        return
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                self._admit(raw, str(address[0]))

    def _admit(self, raw: socket.socket, address: str) -> None:
        connection = self._server()
        if not isinstance(connection, Connection) or not connection.arrive(address, raw):
            raw.close()
            return
        task = asyncio.get_running_loop().create_task(self._greet(connection, raw))
        self._greeting.add(task)
        task.add_done_callback(self._greeting.discard)

    async def _greet(self, connection: Connection, raw: socket.socket) -> None:
        seconds = self._server.admission.limits.head_seconds
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: connection, raw, ssl=self._tls, ssl_handshake_timeout=seconds)
        except (
            OSError,
            asyncio.CancelledError,
        ):  # from clients that do not speak TLS, or hang up; ssl.SSLError is an OSError
            connection.connection_lost(None)
            with contextlib.suppress(OSError):
                raw.close()
