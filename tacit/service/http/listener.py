"""Listening sockets, and those with TLS whose connections are counted before their handshake.

An event loop's own server reports a connection to its protocol only after the handshake, so clients that never start
one would be counted nowhere, for a minute each. Here a connection is admitted by its address first, and has as much
time for the handshake as for a request head.

Sockets are bound and listen before an event loop gets them. Two processes may bind one address before either listens;
the second to listen fails, and uvloop drops that error, so that a service would seem to start and never be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Sequence
from functools import partial

from tacit.service.http.connection import Connection
from tacit.service.http.server import Server

PAUSE_SECONDS = 0.2
"""Seconds to pause after a failed accept, when the process is out of descriptors."""


async def listening_sockets(host: str, port: int, *, backlog: int, reuse_port: bool) -> list[socket.socket]:
    """Non-blocking TCP sockets that listen at ``port`` of each address of ``host``. Raises ``OSError``, and leaves none
    open, where one cannot."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    places = sorted({(family, (str(address[0]), port)) for family, _, _, _, address in addresses})
    with contextlib.ExitStack() as stack:
        listening = [
            stack.enter_context(socket.create_server(address, family=family, backlog=backlog, reuse_port=reuse_port))
            for family, address in places
        ]
        for one in listening:
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # which its connections have too
        stack.pop_all()
    return listening


class TlsListener:
    """Accepts TLS connections at sockets that listen already, until it is closed."""

    def __init__(self, server: Server, listening: Sequence[socket.socket], tls: ssl.SSLContext) -> None:
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
                    # it was closed; anything else (no descriptors left) passes, and a busy loop would not help
                    if error.errno in {errno.EBADF, errno.EINVAL}:
                        return
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                self._admit(raw, str(address[0]))

    def _admit(self, raw: socket.socket, address: str) -> None:
        connection = self._server()
        # before the handshake, which costs more than all else that a stranger can ask for
        if not connection.arrive(address, raw):
            raw.close()
            return
        task = asyncio.get_running_loop().create_task(self._greet(connection, raw))
        self._greeting.add(task)
        task.add_done_callback(partial(self._greeted, connection, raw))

    def _greeted(self, connection: Connection, raw: socket.socket, task: asyncio.Task[None]) -> None:
        self._greeting.discard(task)
        if task.cancelled():  # perhaps before it began, so it cannot clean up by itself
            _give_up(connection, raw)

    async def _greet(self, connection: Connection, raw: socket.socket) -> None:
        seconds = self._server.admission.limits.head_seconds
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: connection, raw, ssl=self._tls, ssl_handshake_timeout=seconds)
        except OSError:  # from clients that do not speak TLS, or hang up; ssl.SSLError is one
            _give_up(connection, raw)


def _give_up(connection: Connection, raw: socket.socket) -> None:
    # asyncio reports a connection to its protocol only after the handshake, so nobody else tells it
    connection.connection_lost(None)
    with contextlib.suppress(OSError):
        raw.close()
