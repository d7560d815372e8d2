"""One client connection of HTTP/1.1 (RFC 9112): a request goes out, a bounded response comes back.

The parser is llhttp (through httptools) in its strict mode. What it leaves to its user is decided here: how much is
read, which responses have no body, which end with the connection, and whether the connection may carry another
exchange. A connection on which anything unexpected happened is never reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from tacit.ports import HttpResponse, TransportError

_JOINED_WRITE = 65_536
_FRAMING_PER_BODY = 8
_NO_BODY = (204, 304)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on a response in bytes: its head (with all interim responses), and its body."""

    head: int = 32_768
    body: int = 16 << 20


class UnansweredError(TransportError):
    """The connection ended before the first byte of a response. ``sent``: whether any request byte had left."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the peer closed the connection without an answer")
        self.sent = sent


class ClientConnection(asyncio.Protocol):
    """A connection that carries one exchange at a time; ``lost`` is called once when it has ended."""

    def __init__(self, bounds: Bounds, lost: Callable[[ClientConnection], None], *, encrypted: bool) -> None:
        self.idle_since = 0.0
        self.opened_at = 0.0
        self._bounds = bounds
        self._lost = lost
        self._encrypted = encrypted
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self._reusable = True
        self._used = False
        self._without_body = False
        self._most_body = bounds.body
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._start_response()

    @property
    def usable(self) -> bool:
        """Whether another exchange may start: open, nothing unexpected received, nothing of the last one left to send.
        (Before the first, an event loop may still hold the end of a TLS handshake.)"""
        transport = self._transport
        return (
            self._reusable
            and transport is not None
            and not transport.is_closing()
            and (not self._used or transport.get_write_buffer_size() == 0)
        )

    async def exchange(
        self, head: bytes, body: bytes, deadline: float, *, without_body: bool, most_body: int | None = None
    ) -> HttpResponse:
        """Send a request (its head ends with the empty line) and wait for the response until ``deadline`` (loop time).

        ``without_body``: the response has none whatever its head says (HEAD). ``most_body``: a bound on the body for
        this exchange. Raises ``TransportError``, with ``TimeoutError`` as its cause at the deadline, and
        ``UnansweredError``. After an error or a cancellation the connection is closed.
        """
        transport = self._transport
        if transport is None or not self.usable:
            raise UnansweredError(sent=False)
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[HttpResponse] = loop.create_future()
        self._waiter = waiter
        self._used = True
        self._without_body = without_body
        self._most_body = self._bounds.body if most_body is None else most_body
        self._start_response()
        if len(body) <= _JOINED_WRITE:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        timer = loop.call_at(deadline, self._expire)
        try:
            return await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()

    def abort(self) -> None:
        """Drop the connection now, together with unsent data."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is open."""
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transport has the methods but not the base class

    def data_received(self, data: bytes) -> None:
        """asyncio: received bytes of a response, or unexpected bytes."""
        if self._waiter is None:
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._reusable = False
            self._fail(TransportError("the response is not HTTP/1.1"))
        framing = self._received - self._body_size
        if framing > self._bounds.head + _FRAMING_PER_BODY * self._body_size:
            self._fail(_head_too_large())

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio: the connection has ended, and with it, outside TLS, a response without a length; any other one
        fails."""
        self._reusable = False
        if self._waiter is not None:
            if self._ends_with_connection and error is None and not self._encrypted:
                self._finish()
            elif self._received == 0:
                self._fail(UnansweredError(sent=True))
            else:
                self._fail(TransportError("the peer closed the connection within a response"))
        self._lost(self)

    def on_message_begin(self) -> None:
        """Parser: a response starts. A second response to one request is an error."""
        if self._waiter is None:
            self._reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser: a header field; fields after the body (trailers) are dropped."""
        if self._waiter is None or self._in_body:
            return
        self._head_size += len(name) + len(value) + len(b": \r\n")
        if self._head_size > self._bounds.head:
            self._fail(_head_too_large())
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Parser: the head is complete. Decides how the response ends."""
        if self._waiter is None:
            return
        self._status = self._parser.get_status_code()
        length, coding = self._headers.get("content-length"), self._headers.get("transfer-encoding")
        if self._status < 200:
            self._head_size += len(b"HTTP/1.1 100 \r\n\r\n")
            if self._head_size > self._bounds.head:
                self._fail(_head_too_large())
            elif self._status == 101 or length is not None or coding is not None:
                self._fail(TransportError("an unexpected interim response"))
            return
        self._in_body = True
        self._reusable = self._parser.should_keep_alive()
        if self._without_body or (self._status in _NO_BODY and (length is not None or coding is not None)):
            self._reusable = False
            self._finish()
        elif coding is not None and coding.lower() != "chunked":
            self._fail(TransportError("the response has a transfer coding that is not supported"))
        elif self._headers.get("content-encoding", "identity").lower() != "identity":
            self._fail(TransportError("the response has a content coding, for which nobody asked"))
        elif length is not None and not (length.isdecimal() and int(length) <= self._most_body):
            self._fail(TransportError("the response is larger than allowed"))
        else:
            self._ends_with_connection = length is None and coding is None and self._status not in _NO_BODY

    def on_body(self, part: bytes) -> None:
        """Parser: a part of the body, without its framing."""
        if self._waiter is None:
            return
        self._body_size += len(part)
        if self._body_size > self._most_body:
            self._fail(TransportError("the response is larger than allowed"))
            return
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Parser: the response is complete; an interim one is discarded."""
        if self._waiter is None:
            return
        if self._in_body:
            self._finish()
        else:
            self._headers = {}

    def _start_response(self) -> None:
        self._status = 0
        self._headers = {}
        self._parts = []
        self._received = 0
        self._head_size = 0
        self._body_size = 0
        self._in_body = False
        self._ends_with_connection = False

    def _finish(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            parts = self._parts
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            waiter.set_result(HttpResponse(self._status, self._headers, body))

    def _fail(self, error: TransportError) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.abort()

    def _expire(self) -> None:
        error = TransportError("TimeoutError: the peer did not answer in time")
        error.__cause__ = TimeoutError()
        self._fail(error)


def _head_too_large() -> TransportError:
    return TransportError("the response head is larger than allowed")
