"""aiohttp's protocol for one connection, given one request at a time.

aiohttp reads on behind a request's end, bounds neither a head nor the number of requests sent ahead, and forgets broken
bodies. Here it gets the bytes of the next request only when the last one is answered and it waits again.
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import _ErrInfo

from tacit.errors import Abort
from tacit.service.base.log import get_logger
from tacit.service.http.extent import Extent, for_path, size_of
from tacit.service.http.problems import bad_request, problem_response


def end_writing(transport: asyncio.WriteTransport) -> None:
    """Say that nothing more is written, where TLS does not forbid it and the peer has not reset the connection."""
    with contextlib.suppress(OSError):
        if transport.can_write_eof():
            transport.write_eof()


class Divided(web.RequestHandler):
    """A connection that aiohttp reads."""

    __slots__ = ("_answered", "_body", "_extent", "_wire")

    def __init__(self, server: web.Server, loop: asyncio.AbstractEventLoop, **options: object) -> None:
        super().__init__(server, loop=loop, **options)  # type: ignore[arg-type]
        self._body: StreamReader | None = None
        self._answered = 0
        self._extent = Extent()
        self._wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: begin. Should aiohttp's task for the connection fail, so does the connection."""
        # kept as long as it lasts: aiohttp forgets its own while answers still wait to be read
        self._wire = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        if self._task_handler is not None:
            self._task_handler.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._wire is not None:  # aiohttp's task may fail over a connection that has ended
            get_logger("http").error("connection_failed", error=error)
            self.cut()

    def connection_lost(self, exc: BaseException | None) -> None:
        """asyncio: the connection has ended."""
        self._wire = None
        self.forget_rest()
        super().connection_lost(exc)

    def cut(self) -> None:
        """Close the connection at once."""
        transport = self._wire
        self.forget_rest()
        self.force_close()
        if transport is not None:
            transport.abort()

    def forget_rest(self) -> None:
        """What is left of a body never comes: whoever waits for it learns that."""
        body = self._body
        if body is None or body.is_eof():
            return
        if self.is_asked():
            body.set_exception(ConnectionResetError("the connection has ended"))
        else:
            body.feed_eof()

    def is_asked(self) -> bool:
        """Whether a request was read, as far as its head, that is not answered."""
        return self._request_count > self._answered

    def is_asked_in_full(self) -> bool:
        """Whether the body of that request has come too."""
        return self.is_asked() and (self._request_count - self._answered > 1 or self.is_read() or self._extent.whole)

    def is_due(self) -> bool:
        """Whether that request is being answered, or will be as soon as aiohttp's task runs."""
        task = self._task_handler
        return self._request_in_progress or (self.is_asked() and task is not None and not task.done())

    def is_read(self) -> bool:
        """Whether aiohttp has read the last body; it waits where it holds too much that its handler does not want."""
        return self._body is None or self._body.is_eof()

    def is_between(self) -> bool:
        """Whether an answer was sent, and aiohttp does not wait for the next request yet: one that ended the connection
        would be forgotten."""
        goes_on = self._task_handler is not None and not self._close and not self._force_close
        return goes_on and self._waiter is None and not self.is_asked() and self.is_read()

    def take(self, data: bytes) -> bytes | None:
        """Give aiohttp what belongs to the request that comes, and return what must wait for its answer; None if the
        head is too large."""
        if not data:
            self._feed(data)
        while data and not self._close and not self._force_close:
            begins = not self.is_asked() and self.is_read()
            divided = self._extent.head(data) if begins else self._extent.body(data)
            if divided is None:
                return None
            piece, rest = divided
            if piece:
                self._feed(piece)
            if rest and self.is_asked_in_full():
                return rest
            data = rest if piece else b""  # what comes behind the last request is dropped
        return b""

    def _feed(self, piece: bytes) -> None:
        body, before = self._body, self._request_count
        was_open = body is not None and not body.is_eof()
        super().data_received(piece)
        if self._request_count > before:
            self._took(*self._messages[-1])
        elif not self._reading_paused and self._extent.is_framing_too_large(getattr(body, "total_bytes", 0)):
            self.cut()
        ended = was_open and body is not None and body.is_eof()
        late = not self.is_asked()  # answered before its body came
        if (ended and (self._extent.ended() or late)) or self._upgraded or self._request_count - self._answered > 1:
            self.close()  # one turn answers one request only: RFC 9112, sections 7.8 and 9.3.2

    def _took(self, message: object, body: StreamReader) -> None:
        """Note a request that aiohttp has begun, or an error that it has found."""
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(bad_request())  # aiohttp only forgets a body that has an error
            return
        try:
            size = size_of(message)
            if isinstance(message, RawRequestMessage):
                self._messages[-1] = (for_path(message), body)
        except ValueError as error:
            size, body = 0, EMPTY_PAYLOAD
            self._messages[-1] = (_ErrInfo(400, error, ""), body)
            self.close()
        self._body = body
        self._extent.begin(size)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, which ends the connection unless the whole request has come."""
        if not self.is_read():
            resp.force_close()
        try:
            return await super().finish_response(request, resp, start_time)
        except Exception as error:
            if not isinstance(error, ConnectionError):  # aiohttp would say nothing
                get_logger("http").error("answer_failed", error=error)
            raise
        finally:
            self._answered += 1
            if not resp.keep_alive and self.is_read():
                self.close()

    def _process_keepalive(self) -> None:
        """aiohttp: nothing, since ``Admission`` ends idle connections; a request may wait for its turn here."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """As the method that it replaces, but neither echoes the request nor logs its sender."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(exc, ConnectionError):
            get_logger("http").error("connection_failed", error=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has already begun")
        response = problem_response(Abort("about:blank", status=status))
        response.headers["Server"] = "tacit"
        response.force_close()
        return response
