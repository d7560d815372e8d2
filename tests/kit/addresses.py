"""A name with a silent address before the one that answers, as a host with a broken IPv6 route has."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

NAME = "two-addresses.example"
SILENT, ANSWERING = "127.0.0.2", "127.0.0.1"


@contextlib.contextmanager
def silent_first(port: int, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a host whose first address, at ``port``, takes no connection and refuses none."""
    own, own_of_uvloop = socket.getaddrinfo, uvloop.Loop.getaddrinfo

    def both(at: int | str | None) -> list[tuple[Any, ...]]:
        tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*tcp, (address, int(at or 0))) for address in (SILENT, ANSWERING)]

    def resolved(host: Any, at: Any, *rest: Any, **named: Any) -> Any:
        return both(at) if host in (NAME, NAME.encode()) else own(host, at, *rest, **named)

    async def resolved_in_loop(loop: Any, host: Any, at: Any, *rest: Any, **named: Any) -> Any:
        found = host in (NAME, NAME.encode())
        return both(at) if found else await own_of_uvloop(loop, host, at, *rest, **named)

    patch.setattr(socket, "getaddrinfo", resolved)
    patch.setattr(uvloop.Loop, "getaddrinfo", resolved_in_loop)
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind((SILENT, port))
        listening.listen(0)
        for _ in range(3):  # nobody accepts them: later ones get no answer at all
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect((SILENT, port))
        yield NAME
