"""The message with which a shuffler forwards a part of all messages of a recipe (P25)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.messages.struct import Struct

MAX_CHUNKS = 1 << 20


@dataclass(frozen=True, slots=True)
class MessageChunk(Struct):
    """Chunk ``index`` of ``total``, with its sealed ``messages`` one after another. ``total`` is 0, and there are none,
    where nothing will ever be forwarded. Integers have 4 bytes; the messages follow up to the end."""

    index: int
    total: int
    messages: bytes = field(repr=False)

    def write(self, writer: Writer) -> None:
        writer.uint(self.index, 4).uint(self.total, 4).raw(self.messages)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        index, total = reader.uint(4), reader.uint(4)
        found = cls(index, total, reader.rest())
        if total > MAX_CHUNKS or index >= max(1, total) or bool(found.messages) != bool(total):
            raise DecodeError(f"a chunk has an index below its total, up to {MAX_CHUNKS}, and messages unless it is 0")
        return found
