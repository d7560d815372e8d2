"""TLS presentation language (RFC 8446 section 3) as DAP, Privacy Pass and OHTTP use it.

``Writer`` encodes, ``Reader`` decodes; both are strict: a length that does not fit its prefix, a short buffer and
trailing bytes raise ``DecodeError`` (reading) or ``ValueError`` (writing, the caller's mistake).
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Self, TypeVar

from tacit.errors import DecodeError

T = TypeVar("T")


class Writer:
    """Appends fields to a buffer; every method returns the writer."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def uint(self, value: int, size: int) -> Self:
        """Big-endian unsigned integer of ``size`` bytes."""
        if not 0 <= value < 1 << (8 * size):
            raise ValueError(f"{value} does not fit {size} bytes")
        self._parts.append(value.to_bytes(size, "big"))
        return self

    def raw(self, data: bytes) -> Self:
        """Bytes unchanged, without a prefix."""
        self._parts.append(data)
        return self

    def opaque(self, data: bytes, prefix: int) -> Self:
        """Bytes after their length in ``prefix`` bytes. ``ValueError`` for more bytes than such a length can state."""
        return self.uint(len(data), prefix).raw(data)

    def bytes(self) -> bytes:
        """Everything written so far."""
        return b"".join(self._parts)


class Reader:
    """Takes fields from ``data``, from offset ``start`` on; ``what`` names the message in errors."""

    def __init__(self, data: bytes, what: str, start: int = 0) -> None:
        self._data = data
        self._at = start
        self._what = what

    @property
    def remaining(self) -> int:
        """Number of bytes that are not yet read."""
        return len(self._data) - self._at

    def raw(self, length: int) -> bytes:
        """Read exactly ``length`` bytes. Raises ``DecodeError`` if fewer are left."""
        start = self._at
        end = start + length
        if end > len(self._data):
            raise DecodeError(f"{self._what} is truncated")
        self._at = end
        return self._data[start:end]

    def uint(self, size: int) -> int:
        """Big-endian unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.raw(size), "big")

    def opaque(self, prefix: int, *, minimum: int = 0, maximum: int | None = None) -> bytes:
        """Bytes after a length prefix of ``prefix`` bytes, between ``minimum`` and ``maximum`` long."""
        length = self.uint(prefix)
        if length < minimum or (maximum is not None and length > maximum):
            raise DecodeError(f"{self._what} has a field of {length} bytes")
        return self.raw(length)

    def varint(self) -> int:
        """Variable-length integer of 1, 2, 4 or 8 bytes (RFC 9000 section 16), not necessarily the shortest form."""
        start = self._at
        if start >= len(self._data):
            raise DecodeError(f"{self._what} is truncated")
        first = self._data[start]
        if first < 0x40:
            self._at = start + 1
            return first
        size = 1 << (first >> 6)
        return int.from_bytes(self.raw(size), "big") & ((1 << (8 * size - 2)) - 1)

    def rest(self) -> bytes:
        """Read all bytes that are left."""
        return self.raw(self.remaining)

    def items(self, read: Callable[[Reader], T]) -> list[T]:
        """Elements up to the end of the buffer (a vector without a prefix)."""
        found: list[T] = []
        while self.remaining:
            before = self._at
            found.append(read(self))
            if self._at == before:
                raise DecodeError(f"{self._what} holds an empty element")
        return found

    def vector(self, prefix: int, read: Callable[[Reader], T], *, minimum: int = 0) -> list[T]:
        """Elements after a byte-length prefix of ``prefix`` bytes."""
        return Reader(self.opaque(prefix, minimum=minimum), self._what).items(read)

    def end(self) -> None:
        """Raise ``DecodeError`` if any bytes are left."""
        if self.remaining:
            raise DecodeError(f"{self._what} has {self.remaining} trailing bytes")


_TO_URL, _FROM_URL = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")
_PADDING = (b"", b"=", b"==", b"===")


def b64url(data: bytes) -> str:
    """URL-safe base64 without padding (RFC 4648 section 5), as DAP writes ids."""
    return _written(data).decode("ascii")


def _written(data: bytes) -> bytes:
    return binascii.b2a_base64(data, newline=False).rstrip(b"=").translate(_TO_URL)


def unb64url(text: str, *, length: int | None = None, what: str = "value") -> bytes:
    """Strict inverse of ``b64url``: no padding, no foreign characters, one encoding per value."""
    try:
        written = text.encode("ascii")
        data = binascii.a2b_base64(written.translate(_FROM_URL) + _PADDING[-len(text) % 4], strict_mode=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise DecodeError(f"{what} is not unpadded URL-safe base64") from error
    if _written(data) != written:
        raise DecodeError(f"{what} is not in canonical base64")
    if length is not None and len(data) != length:
        raise DecodeError(f"{what} has {len(data)} bytes, not {length}")
    return data
