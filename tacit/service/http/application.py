"""An aiohttp application behind the server: the request that it is given, and where its answer goes.

Only what aiohttp shows to everybody is used: a ``web.Server`` makes requests and answers them, whoever has read them,
and an ``AbstractStreamWriter`` takes what a response writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tacit.service.http.problems import require_lines
from tacit.service.http.reader import Body, Head


class AnswerWriter(AbstractStreamWriter):
    """Writes an answer. The head goes out with the first bytes of the body. ``send`` sends bytes and returns once the
    reader keeps up; it raises ``ConnectionError`` where nobody can read them any more. ``to_head``: the answer is to
    HEAD, and has no body whatever its handler writes."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], *, to_head: bool = False) -> None:
        self._send = send
        self._to_head = to_head
        self._head = b""
        self._chunked = self._ended = False
        self.length: int | None = None

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        """aiohttp: the head of the answer. Raises ``ValueError`` for fields that would end early."""
        head = "".join([f"{status_line}\r\n", *(f"{name}: {value}\r\n" for name, value in headers.items())])
        require_lines(head, 1 + len(headers))
        self._head = f"{head}\r\n".encode()
        # of the head that is sent: another answer may have been begun before it, and have failed
        self._chunked = headers.get("Transfer-Encoding") == "chunked"

    def enable_chunking(self) -> None:
        """aiohttp: nothing, as the head says that the body comes in chunks."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        """aiohttp: not offered, since the length of a compressed secret beside chosen text tells of it. Raises
        ``ValueError``."""
        raise ValueError(f"no answer is compressed ({encoding}, {strategy})")

    def send_headers(self) -> None:
        """aiohttp: nothing, as the head goes out with the body."""

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """aiohttp: a part of the body."""
        await self._write(self._framed(bytes(chunk)))

    async def write_eof(self, chunk: bytes = b"") -> None:
        """aiohttp: the last part of the body."""
        if not self._ended:
            self._ended = True
            await self._write(self._framed(bytes(chunk)) + (b"0\r\n\r\n" if self._chunked else b""))

    async def drain(self) -> None:
        """aiohttp: wait until the reader keeps up."""
        await self._send(b"")

    def _framed(self, chunk: bytes) -> bytes:
        if self._to_head:
            return b""
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._chunked and chunk else chunk

    async def _write(self, data: bytes) -> None:
        data, self._head = self._head + data, b""
        if data:
            self.output_size += len(data)
            await self._send(data)


class Application:
    """What answers the requests of an application. ``server``: aiohttp's, which has no connections of its own."""

    def __init__(self, server: web.Server) -> None:
        self._server = server

    async def answer(self, head: Head, body: Body, connection: Any, writer: AnswerWriter) -> bool:
        """Answer a request; returns whether its connection may be used again. Raises what an answer fails with.
        ``connection``: a ``Connection``."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        request = self._server.request_factory(_message_of(head), cast(Any, body), connection, writer, task)
        try:
            response = await self._server.request_handler(request)
        except web.HTTPException as error:
            response = error
        if not connection.may_go_on():
            response.force_close()
        await response.prepare(request)
        await response.write_eof()
        return bool(response.keep_alive)


def _message_of(head: Head) -> RawRequestMessage:
    # who waits for leave is answered by the server, not by each route
    lines = [(name, value) for name, values in head.fields.items() if name != b"expect" for value in values]
    path, _, query = head.path.partition("?")
    return RawRequestMessage(
        method=head.method,
        path=head.path,
        version=HttpVersion11 if head.version == "1.1" else HttpVersion10,
        headers=CIMultiDictProxy(CIMultiDict((name.decode("ascii"), value) for name, value in lines)),
        raw_headers=tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in lines),
        should_close=head.close,
        compression=None,
        upgrade=False,
        chunked=b"transfer-encoding" in head.fields,
        url=URL.build(path=path, query_string=query, encoded=True),
    )
