"""Receives changes as they happen: server-sent events (WHATWG HTML section 9.2) of the admin service.

No events are kept for a listener that is away. A listener that reconnects gets an event ``listening`` and should then
read again what it needs.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from tacit.adapters.network.http_stream import Streams
from tacit.answers import may_pass
from tacit.client.caller import PAUSES, Caller, is_stranger
from tacit.client.errors import error_of
from tacit.errors import DecodeError
from tacit.media_types import EVENT_STREAM, is_a
from tacit.operations.calls import NoAnswerError
from tacit.ports import TransportError
from tacit.retry_after import make_unanswered

PATH: Final = "/v1/events"
LISTENING: Final = "listening"
MOST_LINE: Final = 1 << 20
"""The largest size of an event in bytes."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """An event. ``kind``: ``listening`` (no event is missed from now on), ``question`` (``id``, ``state``,
    ``revision``), ``recipe`` (``hash``, ``contributions``, ``min_batch_size``, ``reached``, ``exact``) or, in a staging
    deployment, ``fleet`` (no members)."""

    kind: str
    document: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class EventParser:
    """Parses a stream that arrives in chunks of any size. ``feed`` returns ``(kind, data)`` for each event; the kind of
    an event without a name is ``message``. Comments and unknown fields are skipped, and an event that does not end with
    an empty line is dropped. Raises ``DecodeError`` for text that is not UTF-8 and for an event that is too long."""

    _buffer: bytearray = field(default_factory=bytearray)
    _kind: str = ""
    _data: list[str] = field(default_factory=list)
    _size: int = 0
    _begun: bool = False
    _after_return: bool = False

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """Each event that ``chunk`` completes, in order; what is left over waits for the next chunk. Raises as the
        class says."""
        found = []
        for line in self._lines(chunk):
            if line:
                self._field(line)
            elif (event := self._dispatch()) is not None:
                found.append(event)
        return found

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes; a line ends with LF, CR or both."""
        lines = []
        for byte in chunk:
            if byte == 0x0A and self._after_return:
                self._after_return = False
                continue
            self._after_return = byte == 0x0D
            if byte in {0x0A, 0x0D}:
                lines.append(self._line())
                continue
            self._size += 1
            if self._size > MOST_LINE:
                raise DecodeError(f"an event has more than {MOST_LINE} bytes")
            self._buffer.append(byte)
        return lines

    def _line(self) -> bytes:
        line = bytes(self._buffer)
        self._buffer.clear()
        if not self._begun:
            self._begun, line = True, line.removeprefix(_BOM)
        return line

    def _field(self, line: bytes) -> None:
        try:
            name, _, value = line.decode().partition(":")
        except UnicodeDecodeError as error:
            raise DecodeError("an event is not UTF-8") from error
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)

    def _dispatch(self) -> tuple[str, str] | None:
        kind, data = self._kind or "message", "\n".join(self._data)
        empty = not self._data
        self._kind, self._data, self._size = "", [], 0
        return None if empty else (kind, data)


async def listen(caller: Caller, streams: Streams) -> AsyncIterator[Event]:
    """The events from now on, without end. A stream that ends is opened again after a pause. Raises ``ApiError`` and
    ``TransportError`` if none can be opened within the caller's ``patience``."""
    failures, until = 0, caller.clock.now() + caller.patience
    while True:
        asked = 0.0
        try:
            async with aclosing(_once(caller, streams)) as events:
                async for event in events:
                    failures, until = 0, caller.clock.now() + caller.patience
                    yield event
        except TransportError as error:
            problem = NoAnswerError(caller.url, error)
            if caller.clock.now() >= until or is_stranger(error):
                raise problem from error
            asked = error.retry_after
        await caller.clock.sleep(PAUSES.pause(failures, caller.entropy, asked))
        failures += 1


async def _once(caller: Caller, streams: Streams) -> AsyncGenerator[Event, None]:
    headers = {**caller.authority, "Accept": EVENT_STREAM}
    async with streams.get(f"{caller.url}{PATH}", headers) as stream:
        if may_pass(stream.status):
            raise make_unanswered(f"the service answered {stream.status}", stream.headers, caller.clock.now())
        if stream.status != 200:
            raise error_of(await stream.whole())
        if not is_a(stream.headers.get("content-type", ""), EVENT_STREAM):
            raise DecodeError("the answer is not a stream of events; is this the URL of an admin service?")
        yield Event(LISTENING)
        parser = EventParser()
        async for chunk in stream.chunks():
            for kind, data in parser.feed(chunk):
                yield Event(kind, _document(data))


def _document(data: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DecodeError("an event is not JSON") from error
    if not isinstance(found, dict):
        raise DecodeError("an event is not a JSON object")
    return found
