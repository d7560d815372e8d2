"""One connection of a service's HTTP server, read under the control of ``Admission``.

Requests to fast routes (``tacit.service.http.fast_reader``) are read and answered here. The first other request makes
the connection aiohttp's until it ends, because only then is it certain that both see the same requests in the same
bytes.

Errors below the application (bad HTTP) become problem documents too, and reveal nothing about their sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import cast

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time

from tacit.service.base.log import get_logger
from tacit.service.http import proxy_line
from tacit.service.http.admission import Admission, ConnectionRecord
from tacit.service.http.divided import Divided, end_writing
from tacit.service.http.fast_reader import Reader, Serving, encode_answer
from tacit.service.http.problems import Answer, bad_request, problem_answer, too_slow

MOST_DISCARDED = 4 << 20
"""Most bytes that a connection may send after its last answer before it is cut."""


class Connection(Divided):
    """One connection, whose turns ``Admission`` assigns. ``late``: the request waited too long
    for its turn and only gets the answer to come back."""

    __slots__ = (
        "_admission",
        "_answering",
        "_discarded",
        "_held",
        "_line",
        "_raw",
        "_reader",
        "_record",
        "_serving",
        "late",
    )

    def __init__(
        self,
        server: web.Server,
        admission: Admission,
        serving: Serving | None,
        loop: asyncio.AbstractEventLoop,
        **options: object,
    ) -> None:
        super().__init__(server, loop, **options)
        self._admission = admission
        self._record: ConnectionRecord | None = None
        self._discarded = 0
        self._held = b""
        self._line: bytes | None = None
        self._raw: socket.socket | None = None
        self._serving = serving
        self._reader = None if serving is None else Reader(serving.routes, self)
        self._answering: asyncio.Task[None] | None = None
        self.late = False

    def arrive(self, address: str, raw: socket.socket | None = None) -> bool:
        """Whether there is room for a connection from ``address``, which counts from now on; ``raw``: its socket, as
        long as the handshake is not complete."""
        self._raw = raw
        proxied = address in self._admission.limits.front_proxies
        self._record = self._admission.arrive(self, address, self._loop.time(), known=proxied)
        self._line = b"" if proxied else None
        return self._record is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: accept the connection unless there is no room for it."""
        peer = transport.get_extra_info("peername")
        if self._record is None and not self.arrive(str(peer[0]) if isinstance(peer, tuple) else ""):
            self._force_close = True
            cast(asyncio.Transport, transport).abort()  # uvloop's transport does not have this base class
            return
        self._raw = None
        super().connection_made(transport)
        if self._reader is not None:
            self._reader.transport = transport
            self.keep_alive(True)  # aiohttp's timer, which sees no fast request, gives way to that of ``Admission``

    def connection_lost(self, exc: BaseException | None) -> None:
        """asyncio: the connection has ended. A request that is being answered keeps its turn, so nobody gets more turns
        by hanging up."""
        self._held = b""
        if not self.is_due():
            if self._reader is not None:
                self._reader.forget_body()  # nobody counts it any more, and the reader is part of a reference cycle
            if self._record is not None:
                self._admission.depart(self._record, self._loop.time())
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's signature, of which aiohttp returns None
        """asyncio: the client sends no more. If it only closed its own side, it still gets the answer to what it has
        asked in full, as the last one; returns whether the connection lasts until then. A stream that has begun ends:
        most of its readers have left, and who else would notice? TLS cannot be closed on one side."""
        reading = self._current_request
        begun = reading is not None and reading.writer.output_size > 0
        plain = self.transport is not None and self.transport.get_extra_info("sslcontext") is None
        if not plain or begun or not self.is_due() or not self._is_whole():
            return False
        self._close, self._held = True, b""
        return True

    def _on_end(self, task: asyncio.Task[None]) -> None:
        """aiohttp's task for the connection has ended, perhaps without an answer that would have ended the turn. What
        waits for its reader may keep the connection open for a while."""
        super()._on_end(task)
        if self._record is None or self._request_in_progress:
            return
        if self._wire is None:
            self._admission.depart(self._record, self._loop.time())
        elif self.transport is None or self.is_asked():
            self._close, self._held = True, b""
            self._admission.answered(self._record, self._loop.time(), linger=True)

    def data_received(self, data: bytes) -> None:
        """asyncio: read ``data`` now, or when it is this source's turn."""
        if self._line is not None:
            data = self._after_proxy_line(self._line + data)
        record = self._record
        if record is None or self._force_close or self._close:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self.cut()
            return
        if not data:  # aiohttp calls this itself, for data that it already has
            self._parse(data)
            if self._reader is None and self._is_whole():
                self._admission.is_whole(record, self._loop.time())
        elif self._held or self._is_whole():
            self._hold(data)
        elif self._reader is None and self.is_between():
            self._hold(data)
            self._loop.call_soon(self._next)
        elif self._admission.may_read(record, len(data), self._loop.time()):
            self._read(record, data)
        elif not record.gone:
            self._hold(data)

    def _hold(self, data: bytes) -> None:
        """Keep arrived data until its turn comes, or until the previous request is answered; nothing more is read until
        then."""
        self._held += data
        self._pause_transport_reading()

    def _read(self, record: ConnectionRecord, data: bytes) -> None:
        self._parse(data)
        reader, whole = self._reader, self._is_whole()
        headed = self.is_asked() if reader is None else reader.headed
        self._admission.was_read(record, self._loop.time(), headed=headed, complete=whole)
        if reader is not None and whole:
            self._begin(reader)

    def _parse(self, data: bytes) -> None:
        if self._reader is not None:
            rest = self._reader.feed(data)
            if rest is None:
                self._give_leave(self._reader)
                return
            self._reader, data = None, rest
        rest = self.take(data)
        if rest is None:
            self._refuse_head()
        elif rest:
            self._hold(rest)

    def _refuse_head(self) -> None:
        """Answer a head that is too large (400); the rest is awaited as after ``_send``."""
        self._close = True
        if self.transport is None:
            return
        self.transport.write(encode_answer(problem_answer(bad_request()), rfc822_formatted_time(), last=True))
        end_writing(self.transport)
        if self._record is not None:
            self._admission.answered(self._record, self._loop.time(), linger=True)

    def _is_whole(self) -> bool:
        """Whether a whole unanswered request has arrived, or as much as its answer takes."""
        reader = self._reader
        if reader is not None:
            return reader.whole or reader.refusal is not None or (self.late and reader.headed)
        return self.is_asked_in_full()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, which ends the turn."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            if not resp.keep_alive:
                self._held = b""
            self._end_turn()

    def _end_turn(self, *, linger: bool = False) -> None:
        self.late = False
        record, now = self._record, self._loop.time()
        if record is not None and self.transport is None:
            self._admission.depart(record, now)
        elif record is not None:
            self._admission.answered(record, now, linger=linger)
            if self._held:
                self._loop.call_soon(self._next)

    def _give_leave(self, reader: Reader) -> None:
        """Send the interim answer for which a body waits."""
        if reader.awaits_leave and not self._is_whole() and self.transport is not None:
            reader.awaits_leave = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _begin(self, reader: Reader) -> None:
        """Answer the fast request that was read; nothing more is read until then."""
        self._request_in_progress = True
        self._answering = self._loop.create_task(self._answer(reader))

    async def _answer(self, reader: Reader) -> None:
        linger = False
        try:
            if self._serving is not None:
                answer = await self._serving.answer(reader, self.late)
                reader.forget_body()  # it is no longer counted, and the sender decides how long the connection lasts
                linger = await self._send(reader, answer)
        except Exception as error:  # nobody awaits this task
            get_logger("http").error("answer_failed", error=error)
            self.cut()
        finally:
            self._request_in_progress = False
            self._answering = None
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)
            self._end_turn(linger=linger)

    async def _send(self, reader: Reader, answer: Answer) -> bool:
        """Send ``answer``; returns whether the rest of an unread body is awaited, since its sender might otherwise not
        see the answer (RFC 9112, section 9.6)."""
        transport = self.transport
        if transport is None:
            return False
        last = reader.last or not reader.whole or self._close or self._force_close
        transport.write(encode_answer(answer, rfc822_formatted_time(), last=last))
        if self._paused:
            with contextlib.suppress(ConnectionError):
                await self._drain_helper()
        if not last:
            reader.next()
            return False
        self._close = True
        if reader.whole:
            transport.close()
        else:
            end_writing(transport)
        return not reader.whole

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - aiohttp's signature
        """aiohttp: finish what is in progress within ``timeout`` seconds, and close."""
        await super().shutdown(timeout)
        if self._answering is not None:
            self._answering.cancel()

    def _next(self) -> None:
        """Read what arrived while the previous request was being answered."""
        if self._reader is None and self.is_between():
            self._loop.call_soon(self._next)
            return
        data, self._held = self._held, b""
        if self._record is not None and not self._record.gone:
            self.data_received(data)
        self._resume_transport_reading()

    @property
    def source(self) -> str | None:
        """The source of the connection; ``None`` for a known peer's."""
        return None if self._record is None else self._record.key

    def vouch(self) -> None:
        """Record that the peer proved who it is: no share limits it from now on."""
        if self._record is not None:
            self._admission.move(self._record, None, self._loop.time())

    def cut(self) -> None:
        """Close the connection at once, with or without an answer, before or after the first byte of a request."""
        connected = self._wire is not None
        super().cut()
        if not connected and self._raw is not None:
            with contextlib.suppress(OSError):
                self._raw.shutdown(socket.SHUT_RDWR)

    def proceed(self, *, late: bool) -> None:
        """Read the waiting data, in a turn of its own; ``late``: only to be told to come back."""
        self._loop.call_soon(self._proceed, late)

    def _proceed(self, late: bool) -> None:
        record, data = self._record, self._held
        if record is None or record.gone or self._answering is not None:  # its time ran out before its turn came
            return
        self._held, self.late = b"", late
        self._read(record, data)
        self._resume_transport_reading()

    def too_slow(self) -> None:
        """Make reading the body fail, so that the answer is 408."""
        if self._reader is not None and self._record is not None and not self._request_in_progress:
            self._reader.refusal = too_slow()
            self._admission.was_read(self._record, self._loop.time(), headed=True, complete=True)
            self._begin(self._reader)
            return
        if self._body is not None and not self._body.is_eof():
            self._body.set_exception(TimeoutError("the body arrives too slowly"))

    def pause_writing(self) -> None:
        """asyncio: an answer waits for its reader."""
        super().pause_writing()
        self._pause_transport_reading()
        if self._record is not None and self.transport is not None:
            size = self.transport.get_write_buffer_size() + len(self._held)
            self._admission.stalled(self._record, size, self._loop.time())

    def resume_writing(self) -> None:
        """asyncio: the reader has read it."""
        super().resume_writing()
        if self._record is not None:
            self._admission.flows(self._record)
        self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        if not self._held and not self._paused and not self._buffer_paused and not self._reading_paused:
            super()._resume_transport_reading()

    def _after_proxy_line(self, data: bytes) -> bytes:
        """The data after the PROXY line, which names the client; empty until the line is complete."""
        try:
            divided = proxy_line.divide(data)
        except ValueError:
            self.cut()
            return b""
        self._line = data if divided is None else None
        address, rest = divided or (None, b"")
        if address is not None and self._record is not None:
            self._admission.move(self._record, address, self._loop.time())
        return rest
