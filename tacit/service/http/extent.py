"""Where heads and bodies end in what one connection sends, so that aiohttp reads one request at a time and no head is
too large: aiohttp bounds fields, but neither their number nor their sum, and reads on behind a request's end.

Only the end of a chunked body is known to aiohttp alone. Its framing and trailers are bounded instead.
"""

from __future__ import annotations

from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from tacit.service.http.fast_reader import FRAMING_PER_BODY, MOST_HEAD
from tacit.service.http.targets import divide_target, is_host

_BLANK = b"\r\n\r\n"
_OVERLAP = len(_BLANK) - 1
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_MOST_LENGTH = 1 << 62
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})


def size_of(message: object) -> int | None:
    """Bytes of a request's body as aiohttp has read its head, None for chunks.

    Raises ``ValueError`` for what others may read differently, and for a body that has no meaning (RFC 9110, section
    9.3.1): its request would be answered before it has come.
    """
    if not isinstance(message, RawRequestMessage):  # an error, which has no body
        return 0
    codings = [coding.lower() for coding in message.headers.getall("Transfer-Encoding", ())]
    known = [["chunked"], []] if message.version == HttpVersion11 else [[]]
    size = None if message.chunked else int(message.headers.get("Content-Length", 0))
    if message.version not in (HttpVersion10, HttpVersion11):
        raise ValueError("no request of HTTP/1.0 or 1.1")
    hosts = message.headers.getall("Host", ())
    if not is_host(hosts) and (hosts or message.version == HttpVersion11):
        raise ValueError("no valid Host, or several")
    if codings not in known or (size or 0) > _MOST_LENGTH or (size != 0 and message.method in _BODILESS):
        raise ValueError("another party could read this request differently")
    return size


def for_path(message: RawRequestMessage) -> RawRequestMessage:
    """``message`` for the path alone, where its target is in absolute form, and with the authority that this names as
    its Host, whatever it said (RFC 9112, section 3.2.2). Raises ``ValueError`` for what is no target."""
    path, authority = divide_target(message.path)
    if authority is None:
        return message
    headers = CIMultiDict(message.headers)
    headers["Host"] = authority
    url = URL.build(path=path.partition("?")[0], query_string=path.partition("?")[2], encoded=True)
    return message._replace(path=path, url=url, headers=CIMultiDictProxy(headers))


class Extent:
    """The ends of one connection's heads and bodies. A head has at most ``MOST_HEAD`` bytes before its blank line; the
    framing and trailers of a chunked body have as many and ``FRAMING_PER_BODY`` times the body."""

    __slots__ = ("_clean", "_end", "_head", "_left", "_received")

    def __init__(self) -> None:
        self._end = b""
        self._head = self._received = 0
        self._left: int | None = 0
        self._clean = True

    def head(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Divide ``data``, with which a head begins or goes on, at the head's end; None if the head is too large. Blank
        lines before it are dropped (RFC 9112, section 2.2)."""
        data = data if self._head else data.lstrip(b"\r\n")
        known = self._end + data
        at = known.find(_BLANK)
        if at < 0:
            self._head, self._end = self._head + len(data), known[-_OVERLAP:]
            return (data, b"") if self._head <= MOST_HEAD + _OVERLAP else None
        size = at + len(_BLANK) - len(self._end)
        head, self._head, self._end = self._head + size - len(_BLANK), 0, b""
        return (data[:size], data[size:]) if head <= MOST_HEAD else None

    def begin(self, size: int | None) -> None:
        """A head has ended: its body has ``size`` bytes, None for a chunked one."""
        self._left, self._received, self._end = size, 0, b"\r\n" if size is None else b""

    def body(self, data: bytes) -> tuple[bytes, bytes]:
        """Divide ``data`` at the end of the body, where it is known."""
        if self._left is not None:
            piece = data[: self._left]
            self._left -= len(piece)
            return piece, data[len(piece) :]
        self._received += len(data)
        known = self._end + data
        self._end, self._clean = known[1 - len(_LAST_CHUNK) :], known.endswith(_LAST_CHUNK)
        return data, b""

    @property
    def whole(self) -> bool:
        """Whether a body with a length has come."""
        return self._left == 0

    def ended(self) -> bool:
        """A body has ended; returns whether it was chunked and had trailers, or more came with its end: aiohttp may
        take trailers for fields of the next request."""
        chunked, self._left, self._end = self._left is None, 0, b""
        return chunked and not self._clean

    def is_framing_too_large(self, body: int) -> bool:
        """Whether a chunked body, of which ``body`` bytes are known, has too much besides."""
        return self._left is None and self._received > MOST_HEAD + (1 + FRAMING_PER_BODY) * body
