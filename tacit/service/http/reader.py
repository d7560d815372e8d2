"""A reader of HTTP/1.1 requests (RFC 9112), one after another from one connection.

The parser is llhttp (through httptools) in its strict mode, which refuses what parsers disagree about: both or two
lengths, folded fields, bare CR or LF, a space before a colon, NUL. What it leaves to its user is decided here: the
bounds, the target, that there is one Host, that "chunked" is the only coding, and that a body has a meaning. A refused
request is the last of its connection. No ``Upgrade`` is ever taken up (RFC 9110, section 7.8: a server may ignore it);
proxies send one with any request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus

import httptools

from tacit.service.http.problems import bad_request, status_abort, too_large
from tacit.service.http.targets import divide_target, is_host

MOST_FIELDS, MOST_FIELD, MOST_HEAD = 128, 8190, 32_768
"""Most fields of a head, most bytes of the target or of one name or value, and most bytes of the whole head."""
FRAMING_PER_BODY = 8
"""Most bytes of chunk framing and trailers for each byte of the body, beyond ``MOST_HEAD``."""
MOST_UNWANTED = 262_144
"""Bytes of a body that nobody has asked for yet, above which no more are taken from the connection."""
_MOST_LENGTH = 1 << 62
_VERSIONS = {b"0\r\n": "1.0", b"1\r\n": "1.1"}
"""By the end of a request line."""
_BLANK = b"\r\n\r\n"
_LINE_ENDS = re.compile(rb"\A(?:\r\n)+")
"""Empty lines before a request, which RFC 9112 section 2.2 has ignored."""
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose body has no meaning (RFC 9110, section 9.3.1): such a request would be answered before it has come."""


class Head:
    """The head of a request. ``fields``: by names in lower case; ``close``: the sender asks for nothing after it;
    ``leave``: the body waits until it is asked for (RFC 9110, section 10.1.1)."""

    __slots__ = ("close", "fields", "leave", "method", "path", "version")

    def __init__(self, method: str, path: str, version: str, fields: dict[bytes, list[str]]) -> None:
        self.method, self.path, self.version, self.fields = method, path, version, fields
        self.close = self.leave = False

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """The values of the fields called ``key``, in their order."""
        return self.fields.get(key.lower().encode(), default)


class Body:
    """The body of a request, as it arrives. ``limit``: most bytes, once somebody has said what may come; ``wanted`` is
    called when somebody begins to wait for the rest."""

    __slots__ = ("_parts", "_waiter", "_wanted", "error", "limit", "size", "whole")

    def __init__(self, wanted: Callable[[], None]) -> None:
        self.limit: int | None = None
        self.size = 0
        self.whole = False
        self._parts = bytearray()
        self.error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = wanted

    @property
    def is_unwanted(self) -> bool:
        """Whether so much has come before anybody asked for it that the rest must wait."""
        return self.limit is None and len(self._parts) > MOST_UNWANTED

    def feed(self, part: bytes) -> None:
        """Take the bytes that come next."""
        self.size += len(part)
        if self.limit is not None and self.size > self.limit:
            self.fail(too_large(self.limit))
        elif self.error is None:
            self._parts += part

    def end(self) -> None:
        """The body is whole."""
        self.whole = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """What is left of the body never comes: whoever waits for it learns why."""
        if not self.whole:
            self.error = self.error or error
            self.forget()
            self._wake()

    def forget(self) -> None:
        """Free the bytes, of a request that was answered or broken off; its connection may last."""
        self._parts = bytearray()

    def take(self) -> bytes:
        """The bytes that have arrived, which are no longer kept here."""
        taken, self._parts = bytes(self._parts), bytearray()
        return taken

    async def read(self, limit: int) -> bytes:
        """Wait for the whole body, and take it. Raises ``Abort`` (413) over ``limit`` bytes, and what ``fail`` was
        called with."""
        self.limit = limit
        if self.size > limit:
            self.forget()
            raise too_large(limit)
        if not self.whole and self.error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            self._wanted()
            await self._waiter
        if self.error is not None:
            raise self.error
        return self.take()

    def set_read_chunk_size(self, size: int) -> None:
        """aiohttp, for ``web.Request.read``: the most bytes that it will take."""
        self.limit = size

    async def readany(self) -> bytes:
        """aiohttp, for ``web.Request.read``: the whole body, and nothing when it was taken."""
        return await self.read(self.limit or MOST_UNWANTED)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Reader:
    """Reads one request after another. ``begin`` is called with the head and the body to come, and refuses the request
    by raising; ``wanted``: see ``Body``.

    After ``feed``: ``headed`` says whether the head is complete, ``whole`` whether the body is; ``refusal`` is the
    answer that the request has earned besides what ``begin`` does with it. ``last`` says that nothing may follow on the
    connection.
    """

    def __init__(self, begin: Callable[[Head, Body], None], wanted: Callable[[], None]) -> None:
        self._begin = begin
        self._wanted = wanted
        self._parser = httptools.HttpRequestParser(self)
        self.next()

    def next(self) -> None:
        """Forget the request; the bytes that follow are another's."""
        self.head: Head | None = None
        self.body = Body(self._wanted)
        self.refusal: Exception | None = None
        self.headed = self.whole = self.last = self._broken = False
        self._target = b""
        self._fields: dict[bytes, list[str]] = {}
        self._count = self._received = 0
        self._left: int | None = 0
        self._raw = b""

    def feed(self, data: bytes) -> bytes:
        """Read the bytes of one request; returns those that follow it. What has come of a refused one is read too, so
        that its connection may last."""
        start = 0  # of the body
        if not self.headed:
            # empty lines before a request are ours to skip; the parser would take bare CR and LF, too
            if self._raw == b"\r" or (not self._raw and data.startswith(b"\r")):
                data = _LINE_ENDS.sub(b"", self._raw + data)
                self._raw = b""
                if data in {b"", b"\r"}:
                    self._raw = data
                    return b""
            begun, self._raw = len(self._raw), self._raw + data
            end = self._raw.find(_BLANK, max(0, begun + 1 - len(_BLANK)))
            self._raw = self._raw[: end + len(_BLANK)] if end >= 0 else self._raw
            start = len(self._raw) - begun
            self._parse(data[:start] if begun else self._raw)
        # the parser gets no byte of another request: to parse all that was sent ahead, again for each of them, would
        # take a time that grows with the square of their number
        end = len(data) if self._left is None else start + self._left
        body, rest = data[start:end], data[end:]
        self._received += len(body)
        if body:
            self._parse(body)
        # chunk sizes, extensions and trailers cost bytes of which no limit of a body knows
        framing = self._received - self.body.size if self.headed and self._left is None else 0
        if framing > MOST_HEAD + FRAMING_PER_BODY * self.body.size or len(self._raw) >= MOST_HEAD + len(_BLANK):
            self._break()
        if self._left is None or not self.headed:
            return b""
        self._left -= len(body)
        return rest

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as pause:  # behind the head; nothing that follows it is another protocol's
            if not self.whole and self.refusal is None and self.head is not None:
                self._parser = httptools.HttpRequestParser(self)
                self._parse(_without_upgrade(self.head) + data[pause.args[0] :])
        except httptools.HttpParserError:
            if not self.whole or self._left is None:
                self._break()

    def _break(self) -> None:
        """Nothing that follows can be read; nor can the request, unless it is whole."""
        self._broken = self.last = True
        if not self.whole:
            self.refuse(bad_request())

    def refuse(self, error: Exception) -> None:
        """Refuse the request, unless it was refused before."""
        self.refusal = self.refusal or error
        self.body.fail(error)

    def on_message_begin(self) -> None:
        """Parser: a request begins. Behind chunks nobody knows where: a second one in the same bytes is not read."""
        self.last = self.last or (self.whole and self._left is None)

    def on_url(self, part: bytes) -> None:
        """Parser: a part of the target."""
        if self.headed:
            return
        self._target += part
        if len(self._target) > MOST_FIELD:
            self._break()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser: a field; those behind the body (trailers) are counted and dropped."""
        if self.whole:
            return
        self._count += 1
        if self._count > MOST_FIELDS or len(value) > MOST_FIELD or len(name) > MOST_FIELD:
            self._break()
        elif not self.headed:
            name, text = name.lower(), value.strip(b" \t").decode("utf-8", "surrogateescape")
            if name in self._fields:
                self._fields[name].append(text)
            else:
                self._fields[name] = [text]

    def on_headers_complete(self) -> None:
        """Parser: the head is complete. Decides whether the body may come."""
        if self.headed or self.refusal is not None:
            return
        self.headed = True
        method, raw = self._parser.get_method(), self._raw
        # compared with the bytes, as the parser takes any number of spaces, and other versions
        line = b"%b %b HTTP/1." % (method, self._target)
        version = _VERSIONS.get(raw[len(line) : len(line) + 3])
        if version is None or len(raw) > MOST_HEAD + len(_BLANK) or not (raw.startswith(line) and raw.endswith(_BLANK)):
            self._break()
            return
        self._raw, self._count = b"", 0
        try:
            path, authority = divide_target(self._target.decode("ascii"))
            head = Head(method.decode("ascii"), path, version, self._fields)
            self._left = size = _body_size(head)
        except ValueError:
            self._break()
            return
        if authority is not None:  # the target's, whatever the field says (RFC 9112, section 3.2.2)
            head.fields[b"host"] = [authority]
        # asked now, since a handler may answer before the body has come
        head.close = not self._parser.should_keep_alive()
        self.head = head
        try:
            head.leave = b"expect" in head.fields and _waits_for_leave(head) and size != 0
            self._begin(head, self.body)
        except Exception as error:  # as with every handler, an error becomes an answer
            self.refuse(error)

    def on_body(self, part: bytes) -> None:
        """Parser: a part of the body, without its framing."""
        if self.whole or self.refusal is not None:
            return
        self.body.feed(part)
        if self.body.error is not None:
            self.refuse(self.body.error)

    def on_message_complete(self) -> None:
        """Parser: the request is whole."""
        if self.head is not None and not self.whole and not self._parser.should_upgrade():
            self.whole = True
            self.last = self.last or not self._parser.should_keep_alive()
            self.body.end()


def _body_size(head: Head) -> int | None:
    """Bytes of the body, None for chunks. Raises ``ValueError`` for what others may read differently."""
    fields, is_newest = head.fields, head.version == "1.1"
    if not is_host(fields.get(b"host", ())) and (is_newest or b"host" in fields):
        raise ValueError("no valid Host, or several")
    if b"content-type" in fields and len(fields[b"content-type"]) > 1:
        raise ValueError("several types")
    if b"transfer-encoding" in fields:
        if not is_newest or [one.lower() for one in fields[b"transfer-encoding"]] != ["chunked"]:
            raise ValueError("another coding than chunks")
        size = None
    else:
        size = int(fields[b"content-length"][0]) if b"content-length" in fields else 0
    if size != 0 and (head.method in _BODILESS or (size or 0) > _MOST_LENGTH):
        raise ValueError("another party could read this request differently")
    return size


def _waits_for_leave(head: Head) -> bool:
    """Whether the sender waits for leave to send the body. Raises ``Abort`` (417) where it expects anything else."""
    expected = head.fields.get(b"expect", ())
    if any(one.lower() != "100-continue" for one in expected):
        raise status_abort(HTTPStatus.EXPECTATION_FAILED, "no expectation but 100-continue is supported")
    return bool(expected) and head.version == "1.1"


def _without_upgrade(head: Head) -> bytes:
    """A head that frames the same body, for a parser that is not to stop behind it."""
    names = (b"host", b"content-length", b"transfer-encoding")
    lines = [b"%b: %b\r\n" % (name, value.encode()) for name in names for value in head.fields.get(name, ())]
    end = b"Connection: close\r\n\r\n" if head.close else b"\r\n"
    return b"%b / HTTP/%b\r\n" % (head.method.encode(), head.version.encode()) + b"".join(lines) + end
