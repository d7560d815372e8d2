"""The base of every message: write, read, and the two strict entry points.

Nothing here knows a particular struct. ``decode`` refuses trailing bytes; ``read`` takes one struct from the
front of a reader, so that structs nest.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterable
from typing import Self, TypeVar

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError

E = TypeVar("E", bound=enum.IntEnum)


class Struct(abc.ABC):
    """A struct of DAP in the encoding of ``tacit.codec``; each value has exactly one."""

    __slots__ = ()

    @abc.abstractmethod
    def write(self, writer: Writer) -> None:
        """Append the encoding. Raises ``ValueError`` when a field does not fit its limits."""

    @classmethod
    @abc.abstractmethod
    def read(cls, reader: Reader) -> Self:
        """Take one struct from the front of ``reader``. Raises ``DecodeError``."""

    def encode(self) -> bytes:
        """Encode the structure in its wire form."""
        writer = Writer()
        self.write(writer)
        return writer.bytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``: the whole of ``data`` is one struct. Raises ``DecodeError``."""
        reader = Reader(data, cls.__name__)
        value = cls.read(reader)
        reader.end()
        return value


def require_size(data: bytes, size: int, what: str) -> bytes:
    """Return ``data`` if it is ``size`` bytes long, else raise ``ValueError``: the caller made a wrong id itself."""
    if len(data) != size:
        raise ValueError(f"{what} has {len(data)} bytes, not {size}")
    return data


def require_nonempty(data: bytes, what: str) -> bytes:
    """Return ``data`` if it is not empty, else raise ``ValueError``: the draft requires at least one byte."""
    if not data:
        raise ValueError(f"{what} is empty")
    return data


def join(structs: Iterable[Struct]) -> bytes:
    """Encodings one after the other: the contents of a vector."""
    writer = Writer()
    for struct in structs:
        struct.write(writer)
    return writer.bytes()


def member(kind: type[E], value: int) -> E:
    """Return the enum member of a code point. Reserved and unassigned values raise ``DecodeError``."""
    try:
        return kind(value)
    except ValueError as error:
        raise DecodeError(f"{value} is not a {kind.__name__}") from error
