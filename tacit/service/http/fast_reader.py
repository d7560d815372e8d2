"""A fast reader of HTTP/1.1 (RFC 9112) for the few resources through which every contribution passes.

A resource that is registered as a ``FastRoute`` costs one parser call, one task and one write per request; aiohttp
serves everything else. ``Reader`` looks at the request line alone: exactly ``POST``, the path of a fast route (alone or
in absolute form) and ``HTTP/1.1``. Any other line, and everything that follows on its connection, is aiohttp's, so that
no byte is ever read by both.

The parser is llhttp (through httptools) in its strict mode, which refuses what parsers disagree about: both or two
lengths, folded fields, bare CR or LF, a space before a colon, NUL. What it leaves to its user is decided here: the
bounds, that there is one Host, and that "chunked" is the only coding. A refused request is the last of its connection.
No ``Upgrade`` is ever taken up (RFC 9110, section 7.8: a server may ignore it); proxies send one with any request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol

import httptools

from tacit import media_types
from tacit.errors import Abort
from tacit.service.http.problems import Answer, bad_request, status_abort, too_large
from tacit.service.http.targets import ABSOLUTE, is_host, with_path

MOST_LINE = 512
"""Most bytes of the request line of a fast route."""
MOST_FIELDS, MOST_FIELD, MOST_HEAD = 128, 8190, 32_768
"""Most fields of a head, most bytes of one name or value (both as in aiohttp), and most bytes of the whole head."""
FRAMING_PER_BODY = 8
"""Most bytes of chunk framing for each byte of the body, beyond ``MOST_HEAD``."""


_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ (?:/[!-~]*|\*|" + ABSOLUTE.encode() + rb") HTTP/1\.[01]")
"""Any request line."""
_BEGUN = re.compile(rb"[ -~]*\r?")


class Fields(Protocol):
    """The fields of a head by their names, in any case."""

    def getall(self, key: str, default: list[str], /) -> list[str]:
        """The values of the fields called ``key``, in their order."""
        ...


class Asking(Protocol):
    """What is known of a request besides its body; ``web.Request`` has all of this too."""

    @property
    def headers(self) -> Fields: ...
    @property
    def match_info(self) -> Mapping[str, str]: ...
    @property
    def remote(self) -> str | None: ...
    @property
    def transport(self) -> Any: ...
    @property
    def protocol(self) -> object: ...


Respond = Callable[[bytes], Awaitable[Answer]]
"""Called with the whole body; may raise what any handler may raise."""


@dataclass(frozen=True)
class FastRoute:
    """A resource that takes POST of one media type. ``admit`` is called once the head is read, refuses a request by
    raising, and returns the function that answers its body. ``limit``: most bytes of a body. A ``{name}`` in
    ``path`` stands for URL-safe letters; ``explain`` adds to a problem what it says about them."""

    path: str
    media_type: str
    limit: int
    admit: Callable[[Asking], Respond] = field(repr=False)
    explain: Callable[[Abort, Mapping[str, str]], None] = field(default=lambda _abort, _named: None, repr=False)

    @property
    def line(self) -> re.Pattern[bytes]:
        """What the request line must be; groups are named as in ``path``."""
        parts = re.split(r"\{(\w+)\}", self.path)
        parts[::2] = map(re.escape, parts[::2])
        parts[1::2] = [f"(?P<{name}>[A-Za-z0-9_-]+)" for name in parts[1::2]]
        return re.compile(f"POST {''.join(parts)} HTTP/1\\.1".encode())


class FastRoutes:
    """The fast routes of an application."""

    def __init__(self, routes: Sequence[FastRoute]) -> None:
        self._routes = [(route.line, route) for route in routes]

    def find(self, line: bytes) -> tuple[FastRoute, Mapping[str, str]] | None:
        """The route of a request line, and the named parts of its path."""
        for pattern, route in self._routes:
            if match := pattern.fullmatch(line):
                return route, {name: value.decode() for name, value in match.groupdict().items()}
        return None


class _Fields:
    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[bytes, list[str]]) -> None:
        self._fields = fields

    def getall(self, key: str, default: list[str], /) -> list[str]:
        return self._fields.get(key.lower().encode(), default)


class Head:
    """The head of a request that ``Reader`` has read."""

    __slots__ = ("headers", "match_info", "protocol", "transport")

    def __init__(self, headers: Fields, match_info: Mapping[str, str], protocol: object, transport: Any) -> None:
        self.headers = headers
        self.match_info = match_info
        self.protocol = protocol
        self.transport = transport

    @property
    def remote(self) -> str | None:
        """The peer's address; None where it is not known (a closed or Unix connection)."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else None


class Reader:
    """Reads one request after another from a connection.

    After ``feed``: ``headed`` says whether the head is complete, ``whole`` whether the body is; ``refusal`` is the
    answer that the request has earned without being handed on; otherwise ``respond`` awaits the ``body``. ``last`` says
    that nothing may follow on the connection.
    """

    def __init__(self, routes: FastRoutes, protocol: object) -> None:
        self._routes = routes
        self._protocol = protocol
        self._parser = httptools.HttpRequestParser(self)
        self.transport: Any = None
        self.next()

    def next(self) -> None:
        """Forget the request; the bytes that follow are another's."""
        self.route: FastRoute | None = None
        self.refusal: Exception | None = None
        self.respond: Respond | None = None
        self.headed = self.whole = self.last = self.awaits_leave = False
        self._begun = b""
        self._named: Mapping[str, str] = {}
        self._authority: str | None = None
        self._fields: dict[bytes, list[str]] = {}
        self._count = 0
        self._body = bytearray()
        self._received = self._head = self._size = 0

    @property
    def named(self) -> Mapping[str, str]:
        """The named parts of the path."""
        return self._named

    @property
    def body(self) -> bytes:
        """The bytes of the body that have arrived and were taken, without chunk framing."""
        return bytes(self._body)

    def forget_body(self) -> None:
        """Free the body of a request that was handed on, answered or broken off; its connection may last."""
        self._body = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """Read ``data``. Returns ``None``, or every byte of a request that is not for a fast route."""
        if self.route is None:
            data = (self._begun + data).removeprefix(b"\r\n")
            end = data.find(b"\r\n", 0, MOST_LINE)
            line, authority = with_path(data[:end]) if end >= 0 else (b"", None)
            route_match = self._routes.find(line)
            if route_match is None:
                return self._pass_on(data, end)
            (self.route, self._named), self._authority = route_match, authority
        self._received += len(data)
        self._parse(data)
        if not self.whole and self._received > MOST_HEAD + self._size * (1 + FRAMING_PER_BODY):
            self._break()
        return None

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as pause:  # behind the head; nothing that follows it is another protocol's
            if self.refusal is None:
                self._parser = httptools.HttpRequestParser(self)
                self._parse(self._head_without_upgrade() + data[pause.args[0] :])
        except httptools.HttpParserError:
            self._break()

    def _head_without_upgrade(self) -> bytes:
        """A head that frames the same body, for a parser that is not to stop behind it."""
        names = (b"host", b"content-length", b"transfer-encoding")
        lines = [b"%b: %b\r\n" % (name, value.encode()) for name in names for value in self._fields.get(name, ())]
        ends = any("close" in value.lower() for value in self._fields[b"connection"])
        return b"".join((b"POST / HTTP/1.1\r\n", *lines, b"Connection: close\r\n" if ends else b"", b"\r\n"))

    def _pass_on(self, data: bytes, end: int) -> bytes | None:
        """Return ``data``, unless it begins with no whole request line, or with what cannot be one."""
        if end < 0 and len(data) < MOST_LINE and _BEGUN.fullmatch(data):
            self._begun = data
            return None
        if (end >= 0 and _LINE.fullmatch(data, 0, end)) or (end < 0 and _BEGUN.fullmatch(data, 0, MOST_LINE)):
            return data
        self._break()
        return None

    def _break(self) -> None:
        """Nothing that follows can be read; nor can the request, unless it is whole."""
        self.last = True
        if not self.whole:
            self.refusal = self.refusal or bad_request()

    def on_message_begin(self) -> None:
        """Parser: a request begins; a second one in the same bytes is not read."""
        self.last = self.last or self.whole

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser: a field; those behind the body (trailers) are dropped."""
        if self.headed:
            return
        self._head += len(name) + len(value)
        self._count += 1
        text = value.strip(b" \t").decode("utf-8", "surrogateescape")
        self._fields.setdefault(name.lower(), []).append(text)
        if len(name) > MOST_FIELD or len(value) > MOST_FIELD or self._head > MOST_HEAD:
            self._break()

    def on_headers_complete(self) -> None:
        """Parser: the head is complete. Decides whether the body may come."""
        if self.headed or self.route is None:
            return
        self.headed = True
        fields = self._fields
        single = is_host(fields.get(b"host", ())) and len(fields.get(b"content-type", ())) <= 1
        coding = fields.get(b"transfer-encoding")
        if not single or (coding is not None and coding[0].lower() != "chunked") or self._count > MOST_FIELDS:
            self._break()
        if self.refusal is not None:
            return
        if self._authority is not None:
            fields[b"host"] = [self._authority]
        try:
            self._admit(self.route)
        except Exception as error:  # as with every handler, an error becomes an answer
            self.refusal = error

    def _admit(self, route: FastRoute) -> None:
        fields = self._fields
        if expected := fields.get(b"expect"):
            if not is_met(expected):
                self.last = True
                raise expectation_failed()
            self.awaits_leave = True
        self.respond = route.admit(Head(_Fields(fields), self._named, self._protocol, self.transport))
        codings = fields.get(b"content-encoding", [])
        require_media_type(fields.get(b"content-type", []), route.media_type, codings)
        if b"content-length" in fields and int(fields[b"content-length"][0]) > route.limit:
            raise too_large(route.limit)

    def on_body(self, part: bytes) -> None:
        """Parser: a part of the body, without its framing."""
        if self.refusal is not None or self.whole or self.route is None:
            return
        self._size += len(part)
        if self._size > self.route.limit:
            self.refusal = too_large(self.route.limit)
            self.forget_body()
        else:
            self._body += part

    def on_message_complete(self) -> None:
        """Parser: the request is whole."""
        if not self.whole and not self._parser.should_upgrade():
            self.whole = True
            self.last = self.last or not self._parser.should_keep_alive()


@dataclass(frozen=True)
class Serving:
    """The fast routes of an application, and how it answers a request that is whole or refused. ``answer`` never
    raises; its second argument says that the request waited too long for its turn."""

    routes: FastRoutes
    answer: Callable[[Reader, bool], Awaitable[Answer]] = field(repr=False)


def require_media_type(found: Sequence[str], media_type: str, codings: Sequence[str]) -> None:
    """Raise ``Abort`` (415) unless a request whose Content-Type fields are ``found`` has one, which says
    ``media_type``, and its Content-Encoding fields ``codings`` name no coding but ``identity``."""
    coded = any(coding.lower() != "identity" for coding in codings)
    if len(found) != 1 or coded or not media_types.is_a(found[0], media_type):
        raise status_abort(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {media_type}")


def is_met(expected: Sequence[str]) -> bool:
    """Whether a request whose Expect fields are ``expected`` asks for no more than leave to send its body."""
    return all(one.lower() == "100-continue" for one in expected)


def expectation_failed() -> Abort:
    """The answer (417) to an ``Expect`` that is not met."""
    return status_abort(HTTPStatus.EXPECTATION_FAILED, "no expectation but 100-continue is supported")


def encode_answer(answer: Answer, date: str, *, last: bool) -> bytes:
    """An answer as it is sent, with the fields that every answer has; ``last``: the connection ends with it."""
    lines = [_LINES[answer.status]]
    lines += [f"{name}: {value}\r\n" for name, value in answer.headers.items()]
    if "Date" not in answer.headers:
        lines.append(f"Date: {date}\r\n")
    lines.append(f"Content-Length: {len(answer.body)}\r\n{_ALWAYS}")
    lines.append("Connection: close\r\n\r\n" if last else "\r\n")
    return "".join(lines).encode() + answer.body


_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_ALWAYS = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
