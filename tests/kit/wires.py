"""Connections without sockets, on a loop whose time a test sets, and what a client reads there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

HIGH_WATER, LOW_WATER = 65_536, 16_384
"""Bytes that wait to be sent above which asyncio tells a protocol to pause, and up to which it tells it to go on."""
_STATUS = re.compile(r"HTTP/(1\.[01]) (\d{3}) [^\r\n]*")


class StillLoop(asyncio.SelectorEventLoop):
    """A loop whose time, ``now`` in seconds, only moves when a test moves it."""

    now = 1000.0

    def time(self) -> float:
        """asyncio: the time of its timers."""
        return self.now


class Wire(asyncio.Transport):
    """One connection from ``address``, with both of its ends: to the server's ``protocol`` it is asyncio's transport,
    and the other methods are the client's.

    ``unsent`` is what the client has still to send, and with ``ends`` the end of its side follows; ``unread`` and
    ``read`` are what the server has written and the client has yet to read, and has read. As asyncio does, it passes no
    byte on while the server has paused it, the end of the client's side comes behind the last byte, and TLS cannot be
    closed on one side. ``lost``: the connection is over, as the protocol is told soon after. ``written_late``: the
    server has written something behind an end of its own."""

    def __init__(self, address: str, *, tls: bool) -> None:
        super().__init__()
        self.protocol: asyncio.Protocol
        self.unsent = self.unread = self.read = b""
        self.ends = self.leaves = self.paused = self.lost = self.written_late = False
        self._address, self._tls = address, tls
        self._closing = self._ended = self._told = self._full = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """asyncio: the addresses, and whether there is TLS."""
        known = {"peername": (self._address, 1), "sockname": ("127.0.0.1", 2)}
        return object() if self._tls and name == "sslcontext" else known.get(name, default)

    def is_closing(self) -> bool:
        """asyncio: whether the server has closed the connection, or it is lost."""
        return self._closing

    def pause_reading(self) -> None:
        """asyncio: pass nothing on."""
        self.paused = True

    def resume_reading(self) -> None:
        """asyncio: pass on what comes."""
        self.paused = False

    def get_write_buffer_size(self) -> int:
        """asyncio: bytes that the client has not read."""
        return len(self.unread)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """asyncio: send ``data``. Raises ``RuntimeError`` behind the end of the server's side."""
        self.written_late = self.written_late or self._ended or (self._closing and not self.lost)
        if self._ended:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing:
            return
        self.unread += data
        if len(self.unread) > HIGH_WATER and not self._full:
            self._full = True
            self.protocol.pause_writing()

    def can_write_eof(self) -> bool:
        """asyncio: whether one side can be closed."""
        return not self._tls

    def write_eof(self) -> None:
        """asyncio: close the server's side."""
        self._ended = True

    def close(self) -> None:
        """asyncio: end the connection once everything is sent."""
        self._closing = True
        if not self.unread:
            self._lose(None)

    def abort(self) -> None:
        """asyncio: end the connection now."""
        self._closing, self.unread = True, b""
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)

    def reset(self) -> None:
        """Client: end the connection now, whatever is under way."""
        self._closing, self.unread = True, b""
        self._lose(ConnectionResetError())

    def leave(self) -> None:
        """Client: send what is to be sent, then end both sides."""
        self.ends = self.leaves = True

    @property
    def has_more(self) -> bool:
        """Whether the client has something to send that the server would take."""
        may_send = not (self._closing or self.paused)
        return may_send and bool(self.unsent or (self.ends and not self._told) or self.leaves)

    def deliver(self, size: int) -> None:
        """Client: send up to ``size`` bytes, or the end behind the last one."""
        if not self.has_more:
            return
        if self.unsent:
            data, self.unsent = self.unsent[:size], self.unsent[size:]
            self.protocol.data_received(data)
        elif not self._told:
            self._told = True
            if not self.protocol.eof_received():
                self.close()
        else:
            self.reset()

    def drain(self, size: int) -> None:
        """Client: read up to ``size`` bytes."""
        self.read, self.unread = self.read + self.unread[:size], self.unread[size:]
        if self._full and len(self.unread) <= LOW_WATER and not self.lost:
            self._full = False
            self.protocol.resume_writing()
        if self._closing and not self.unread:
            self._lose(None)


class Reply(NamedTuple):
    """An answer as a client reads it. ``complete``: with all of its body; ``last``: it says that none follows."""

    status: int
    body: bytes
    complete: bool
    last: bool


@dataclass
class Replies:
    """Everything that came over a connection. ``rest``: an answer whose head is not complete."""

    replies: list[Reply]
    rest: bytes


def read_replies(data: bytes, methods: Sequence[str]) -> Replies:
    """The answers in ``data`` to requests of these ``methods``, in their order; interim ones are left out. Raises
    ``ValueError`` where something else stands in place of an answer's head or of a chunk's size."""
    found = Replies([], b"")
    while data:
        head, blank, data = data.partition(b"\r\n\r\n")
        if not blank:
            found.rest = head
            break
        first, *lines = head.decode().split("\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise ValueError(f"no answer begins so: {first[:80]!r}")
        version, code = status[1], int(status[2])
        if code == 100:
            continue
        pairs = [(name.lower(), value) for name, value in (line.split(": ", 1) for line in lines)]
        fields = dict(pairs)
        if len(fields) != len(pairs) or {"content-length", "transfer-encoding"} <= set(fields):
            raise ValueError(f"fields twice, or two framings: {pairs}")
        place = len(found.replies)
        is_last = fields.get("connection", "close" if version == "1.0" else "") == "close"
        if (place < len(methods) and methods[place] == "HEAD") or code in (204, 304):
            found.replies.append(Reply(code, b"", True, is_last))
        elif fields.get("transfer-encoding") == "chunked":
            body, complete, data = _unchunked(data)
            found.replies.append(Reply(code, body, complete, is_last))
        else:  # without a length, up to the end of the connection
            size = int(fields.get("content-length", len(data)))
            body, data = data[:size], data[size:]
            found.replies.append(Reply(code, body, len(body) == size, is_last or "content-length" not in fields))
    return found


def _unchunked(data: bytes) -> tuple[bytes, bool, bytes]:
    """The body at the beginning of ``data``, whether all of it is there, and what follows it."""
    body = b""
    while True:
        size_line, end, data = data.partition(b"\r\n")
        if not end:
            return body, False, b""
        size = int(size_line, 16)
        body, ending, data = body + data[:size], data[size : size + 2], data[size + 2 :]
        if len(ending) < 2:
            return body, False, b""
        if not size:
            return body, True, data
