"""One connection of a service's HTTP server, read under the control of ``Admission``.

A request to a fast route is answered once it is whole; any other request is the application's from its head on, which
waits for its body. Errors below the application (bad HTTP) become problem documents too, and reveal nothing about their
sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Coroutine
from typing import Any, cast

from tacit.service.base.log import get_logger
from tacit.service.http import proxy_line
from tacit.service.http.admission import Admission, ConnectionRecord
from tacit.service.http.application import AnswerWriter, Application
from tacit.service.http.fast_route import FastRequest, Serving, encode_answer
from tacit.service.http.problems import Answer, internal_error, problem_answer, too_slow
from tacit.service.http.reader import Body, Head, Reader

MOST_DISCARDED = 4 << 20
"""Most bytes that a connection may send after its last answer before it is cut."""


class Connection(asyncio.Protocol):
    """One connection, whose turns ``Admission`` assigns; ``connections`` has it while it lasts. ``late``: the request
    waited too long for its turn and only gets the answer to come back."""

    def __init__(
        self, admission: Admission, serving: Serving, application: Application, connections: set[Connection]
    ) -> None:
        self._admission = admission
        self._serving = serving
        self._application = application
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._record: ConnectionRecord | None = None
        self._reader = Reader(self._begin, self._on_wanted)
        self._fast: FastRequest | None = None
        self._writer: AnswerWriter | None = None
        self._answering: asyncio.Task[None] | None = None
        self._held = b""
        self._line: bytes | None = None
        self._raw: socket.socket | None = None
        self._readable = True
        self._writable: asyncio.Future[None] | None = None
        self._is_last = False  # the answer that is given or was given: whatever comes behind it is discarded
        self._discarded = 0
        self.late = False
        self.transport: asyncio.Transport | None = None

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
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not have this base class
        if self._record is None and not self.arrive(str((self.peername or ("",))[0])):
            self._is_last = True
            self.transport.abort()
            return
        self._raw = None
        self._connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """asyncio: the connection has ended. A request that is being answered keeps its turn, so nobody gets more turns
        by hanging up."""
        self.transport, self._held = None, b""
        self._connections.discard(self)
        self._reader.body.fail(ConnectionResetError("the connection has ended"))
        self.resume_writing()
        if self._answering is None and self._record is not None:
            self._admission.depart(self._record, self._loop.time())

    def eof_received(self) -> bool:
        """asyncio: the client sends no more. If it only closed its own side, it still gets the answer to what it has
        asked in full, as the last one; returns whether the connection lasts until then. A stream that has begun ends:
        most of its readers have left, and who else would notice? TLS cannot be closed on one side."""
        begun = self._writer is not None and self._writer.output_size > 0
        if self.ssl_context is not None or begun or self._answering is None or not self._is_whole():
            return False
        self._is_last, self._held = True, b""
        return True

    def data_received(self, data: bytes) -> None:
        """asyncio: read ``data`` now, or when it is this source's turn."""
        record = self._record
        if self._line is not None:
            data = self._after_proxy_line(self._line + data)
        if record is None or (self._is_last and (self._answering is None or self._is_whole())):
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self.cut()
        elif not data:
            return
        elif self._held or self._is_whole():
            self._hold(data)
        elif self._admission.may_read(record, len(data), self._loop.time()):
            self._read(record, data)
        elif not record.gone:
            self._hold(data)

    def _hold(self, data: bytes) -> None:
        """Keep arrived data until its turn comes, or until the previous request is answered; nothing more is read until
        then."""
        self._held += data
        self._set_readable()

    def _read(self, record: ConnectionRecord, data: bytes) -> None:
        reader = self._reader
        rest = reader.feed(data)
        whole = self._is_whole()
        self._admission.was_read(record, self._loop.time(), headed=reader.headed, complete=whole)
        if rest:
            self._hold(rest)
        if whole and self._answering is None:
            self._answer(self._answer_fast())
        elif reader.body.is_unwanted:
            self._set_readable()
        elif self._fast is not None and not whole:
            self._give_leave()

    def _is_whole(self) -> bool:
        """Whether a whole unanswered request has arrived, or as much as its answer takes."""
        reader = self._reader
        return reader.whole or reader.refusal is not None or (self.late and reader.headed)

    def _begin(self, head: Head, body: Body) -> None:
        """A head has come: whatever is not for a fast route is the application's."""
        found = self._serving.routes.find(head)
        if found is not None:
            self._fast = FastRequest(found[0], head, found[1], self, self.transport)
            self._fast.admit(head, body)
            return
        self._writer = AnswerWriter(self._send, to_head=head.method == "HEAD")
        self._answer(self._application.answer(head, body, self, self._writer))

    def _on_wanted(self) -> None:
        """The application waits for the rest of a body."""
        self._give_leave()
        self._set_readable()

    def _give_leave(self) -> None:
        """Send the interim answer for which a body waits."""
        head = self._reader.head
        if head is not None and head.leave and self.transport is not None and not self.transport.is_closing():
            head.leave = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _answer(self, answering: Coroutine[Any, Any, bool]) -> None:
        """Answer the request; nothing more is read until then but its body. ``answering`` returns whether the
        connection may be used again."""
        self._answering = self._loop.create_task(self._answer_to_the_end(answering))

    async def _answer_to_the_end(self, answering: Coroutine[Any, Any, bool]) -> None:
        again, broken = False, True
        try:
            again = await answering
            broken = False
        except ConnectionError:  # nobody reads it, or it has begun and cannot be finished
            pass
        except Exception as error:  # nobody awaits this task
            get_logger("http").error("answer_failed", error=error)
            if self._writer is None or not self._writer.output_size:
                with contextlib.suppress(ConnectionError):
                    await self._send(self._encoded(problem_answer(internal_error()), last=True))
        finally:
            self._end_turn(again=again, broken=broken)

    async def _answer_fast(self) -> bool:
        """Answer a request to a fast route, or one that was refused."""
        reader = self._reader
        answer = await self._serving.answer(self._fast, reader.refusal, reader.body, self.late)
        again = self.may_go_on()
        self._write(self._encoded(answer, last=not again))
        if self._writable is not None:
            await self._drained()
        return again

    def _encoded(self, answer: Answer, *, last: bool) -> bytes:
        head = self._reader.head
        to_head = head is not None and head.method == "HEAD"
        return encode_answer(answer, self._serving.date(), last=last, to_head=to_head)

    def may_go_on(self) -> bool:
        """Whether another request may follow the one that is being answered."""
        return self._reader.whole and not self._reader.last and not self._is_last

    async def _send(self, data: bytes) -> None:
        """Send ``data``, and wait until its reader keeps up. Raises ``ConnectionError`` if there is none."""
        self._write(data)
        if self._held and self._is_stream(data) and self._is_whole():
            # a stream may have no end: read on behind it, or a reader that leaves is never noticed (asyncio, TLS)
            self._is_last, self._held = True, b""
            self._set_readable()
        await self._drained()

    def _write(self, data: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("nobody reads the answer any more")
        self.transport.write(data)

    async def _drained(self) -> None:
        if self._writable is not None:
            await asyncio.shield(self._writable)
            if self.transport is None:
                raise ConnectionResetError("nobody reads the answer any more")

    def _is_stream(self, data: bytes) -> bool:
        """Whether the answer of which ``data`` was sent last has come in several parts."""
        return self._writer is not None and self._writer.output_size > len(data)

    def _end_turn(self, *, again: bool, broken: bool) -> None:
        """The request was answered, or never will be. If it was not whole the connection is kept until its sender has
        seen the answer (RFC 9112, section 9.6)."""
        reader, record, now = self._reader, self._record, self._loop.time()
        whole, last = reader.whole, not (again and self.may_go_on())
        self._answering = self._writer = self._fast = None
        self.late = False
        reader.body.forget()
        if record is None or self.transport is None:
            if record is not None:
                self._admission.depart(record, now)
            return
        if last:
            self._is_last, self._held = True, b""
            if whole:
                self.transport.close()
            else:
                _end_writing(self.transport)
        else:
            reader.next()
        self._admission.answered(record, now, linger=last and (broken or not whole))
        if self._held:
            self._loop.call_soon(self._next)
        elif not self._readable:
            self._set_readable()

    def _next(self) -> None:
        """Read what arrived while the previous request was being answered."""
        data, self._held = self._held, b""
        if data:
            self.data_received(data)
            self._set_readable()

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
        self._is_last, self._held = True, b""
        self._reader.body.fail(ConnectionResetError("the connection has ended"))
        if self.transport is not None:
            self.transport.abort()
        elif self._raw is not None:
            with contextlib.suppress(OSError):
                self._raw.shutdown(socket.SHUT_RDWR)

    async def finish(self, seconds: float) -> None:
        """End the connection, once the request that is being answered is answered, or after ``seconds``."""
        self.close_idle()
        answering = self._answering
        if answering is not None:
            await asyncio.wait([answering], timeout=seconds)
            answering.cancel()
            await asyncio.wait([answering], timeout=seconds)
            self.close_idle()

    def close_idle(self) -> None:
        """Take no further request; end the connection now if none is being answered."""
        self._is_last = True
        if self._answering is None or self._is_whole():  # else it is a part of the body that waits for its turn
            self._held = b""
            self._set_readable()  # else nobody would see that the reader of a stream leaves
        if self._answering is None and self.transport is not None:
            self.transport.close()

    def proceed(self, *, late: bool) -> None:
        """Read the waiting data, in a turn of its own; ``late``: only to be told to come back."""
        self._loop.call_soon(self._proceed, late)

    def _proceed(self, late: bool) -> None:
        record, data = self._record, self._held
        is_over = self._is_whole() or (self._is_last and self._answering is None)
        if record is None or record.gone or is_over:  # before its turn came, its time ran out or its answer was given
            return
        self._held, self.late = b"", late and self._answering is None
        self._read(record, data)
        self._set_readable()

    def too_slow(self) -> None:
        """Make reading the body fail, so that the answer is 408."""
        self._reader.body.fail(too_slow())
        if self._answering is None and self._record is not None:
            self._reader.refuse(too_slow())
            self._admission.was_read(self._record, self._loop.time(), headed=True, complete=True)
            self._answer(self._answer_fast())

    def pause_writing(self) -> None:
        """asyncio: an answer waits for its reader."""
        self._writable = self._loop.create_future()
        self._set_readable()
        if self._record is not None and self.transport is not None:
            size = self.transport.get_write_buffer_size() + len(self._held)
            self._admission.stalled(self._record, size, self._loop.time())

    def resume_writing(self) -> None:
        """asyncio: the reader has read it."""
        writable, self._writable = self._writable, None
        if writable is None:
            return
        writable.set_result(None)
        if self._record is not None:
            self._admission.flows(self._record)
        self._set_readable()

    def _set_readable(self) -> None:
        """Read from the socket unless something waits to be read or written, or a body to be asked for."""
        readable = not self._held and self._writable is None and not self._reader.body.is_unwanted
        if self.transport is not None and readable is not self._readable and not self.transport.is_closing():
            self._readable = readable
            (self.transport.resume_reading if readable else self.transport.pause_reading)()

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

    @property
    def peername(self) -> tuple[str, int] | None:
        """aiohttp: the peer's address; None where it is not known (a closed or Unix connection)."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return peer if isinstance(peer, tuple) else None

    @property
    def sockname(self) -> Any:
        """aiohttp: our own address."""
        return None if self.transport is None else self.transport.get_extra_info("sockname")

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """aiohttp: None without TLS."""
        return None if self.transport is None else self.transport.get_extra_info("sslcontext")


def _end_writing(transport: asyncio.WriteTransport) -> None:
    """Say that nothing more is written, where TLS does not forbid it and the peer has not reset the connection."""
    with contextlib.suppress(OSError):
        if transport.can_write_eof():
            transport.write_eof()
