"""Bounds what aiohttp reads of a request besides its body: it bounds fields, but neither their number nor their sum.

A peer could else send heads, or trailers behind an empty body, of any size, which no budget of bytes counts.
"""

from __future__ import annotations

from tacit.service.http.lean import FRAMING_PER_BODY, MOST_HEAD

_BLANK = b"\r\n\r\n"


class HeadBound:
    """Counts the bytes of one connection. Heads have at most ``MOST_HEAD`` bytes, framing and trailers as many and
    ``FRAMING_PER_BODY`` times the body."""

    __slots__ = ("_end", "_head", "_received")

    def __init__(self) -> None:
        self._end = b""
        self._head = self._received = 0

    def is_head_too_large(self, data: bytes) -> bool:
        """Whether the head that goes on, or begins, with ``data`` is above its bound."""
        data = data if self._head else data.lstrip(b"\r\n")
        found = (self._end + data).find(_BLANK)
        self._head += len(data) if found < 0 else max(0, found - len(self._end))
        self._end = (self._end + data)[1 - len(_BLANK) :]
        return self._head > MOST_HEAD

    def is_framing_too_large(self, data: bytes, body: int, *, began: bool) -> bool:
        """Whether ``data``, which was read, brings the request above its bound; ``body``: bytes of its body so far;
        ``began``: its head ended in ``data``."""
        if began:
            self._end, self._head, self._received = b"", 0, 0
        self._received += len(data)
        return self._received > 2 * MOST_HEAD + (1 + FRAMING_PER_BODY) * body
