"""Connections to a name with several addresses, one of which may not answer (RFC 8305, Happy Eyeballs).

A host may have an IPv6 address to which no packet gets, or a load balancer of which one address is down. Whoever tries
the addresses one after the other waits at the silent one until the whole attempt has run out of time. So the next
address is tried after ``ATTEMPT_DELAY``, or at once where one refuses; the families alternate, in the order that the
resolver prefers; the first connection that stands is used, and the others end.

The event loops do not do so by themselves: asyncio's does on request, uvloop's cannot. So sockets are opened here, and
given to the loop, for every client: HTTP, PostgreSQL, Redis and MQTT. (aiohttp, which reads streams, races by itself.)
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, TypeVar

from aiohappyeyeballs import AddrInfoType, start_connection

P = TypeVar("P", bound=asyncio.BaseProtocol)

ATTEMPT_DELAY = 0.25
"""Seconds after which the next address is tried while the earlier ones still may answer (RFC 8305 section 8)."""


async def open_socket(host: str, port: int) -> socket.socket:
    """Connect to the first address of ``host`` (a name or an address) that answers; the socket does not block, and is
    the caller's to close. Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    try:
        found = _literal(host, port) or await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that no name may have
        raise OSError("not the name of a host") from error
    if not found:
        raise OSError("the name has no address")
    try:
        opened = await start_connection(found, happy_eyeballs_delay=ATTEMPT_DELAY)
    except RuntimeError as error:  # what uvloop raises for some addresses
        raise OSError("the address cannot be used") from error
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _literal(host: str, port: int) -> list[AddrInfoType]:
    """``host`` where it is an address, without the resolver's thread; else nothing."""
    try:
        address = ip_address(host)
    except ValueError:
        return []
    if address.version == 4:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
    if "%" in host:  # the resolver knows the number of a zone
        return []
    return [(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0))]


async def connect(factory: Callable[[], P], host: str, port: int, **options: Any) -> tuple[asyncio.Transport, P]:
    """``loop.create_connection`` with a race of the addresses of ``host``; ``options`` are the loop's. Raises
    ``OSError``."""
    opened = await open_socket(host, port)
    try:
        return await asyncio.get_running_loop().create_connection(factory, sock=opened, **options)
    except BaseException:
        opened.close()
        raise


class RacingLoop:
    """An event loop as a client library sees it that takes no socket (asyncpg): ``create_connection`` to a host races
    its addresses, everything else is the loop's own. It equals the loop, so that asyncio finds the loop's tasks.

    What the library's protocol would wait for, once connected, is a future that it makes meanwhile. Where the caller
    gives up before, nobody ever waits for it, and asyncio would complain of its exception to whoever sits before the
    terminal; so the exceptions of these count as seen."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connecting = 0

    def create_future(self) -> asyncio.Future[Any]:
        """The loop's own future; nobody is told of its exception if it is made while a connection is."""
        future = self._loop.create_future()
        if self._connecting:
            future.add_done_callback(_seen)
        return future

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int, **options: Any
    ) -> tuple[asyncio.Transport, Any]:
        """``connect`` with the options of the loop's own method."""
        if options.get("ssl"):
            options.setdefault("server_hostname", host)
        self._connecting += 1
        try:
            return await connect(factory, host, port, **options)
        finally:
            self._connecting -= 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def __eq__(self, other: object) -> bool:
        return other is self._loop or other is self

    def __hash__(self) -> int:
        return hash(self._loop)


def _seen(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
