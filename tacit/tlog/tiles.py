"""Resource layout of C2SP tlog-tiles: paths of hash tiles and entry bundles, full and partial.

A tile at level L holds up to 256 hashes of tree level 8 L; the n-th tile starts at hash 256 n. An entry
bundle holds the entries of a level-0 tile, each behind a uint16 length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.tlog.merkle import NodeReader

TILE_WIDTH = 256
TILE_HEIGHT = 8
MAX_LEVEL = 63
MAX_INDEX = 1 << 62

_PATH = re.compile(
    r"tile/(?P<level>entries|0|[1-9][0-9]?)/(?P<index>(?:x[0-9]{3}/)*[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?"
)


def encode_index(index: int) -> str:
    """1234067 -> ``x001/x234/067``."""
    if index < 0:
        raise ValueError("a tile index must not be negative")
    parts = [f"{index % 1000:03d}"]
    while index := index // 1000:
        parts.append(f"x{index % 1000:03d}")
    return "/".join(reversed(parts))


def decode_index(text: str) -> int:
    """Inverse of ``encode_index``; other encodings (extra leading ``x000``) are a DecodeError."""
    try:
        index = int("".join(part.removeprefix("x") for part in text.split("/")))
    except ValueError as error:
        raise DecodeError("tile index is not a number") from error
    if encode_index(index) != text or index > MAX_INDEX:
        raise DecodeError("tile index is not in its canonical form")
    return index


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile or, where ``level`` is None, an entry bundle. ``width`` 256 is the full one."""

    level: int | None
    index: int
    width: int = TILE_WIDTH

    def path(self) -> str:
        """Path below the log's prefix, without a leading slash."""
        level = "entries" if self.level is None else str(self.level)
        suffix = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        return f"tile/{level}/{encode_index(self.index)}{suffix}"

    @classmethod
    def parse(cls, path: str) -> Tile:
        """Strict inverse of ``path``. Raises DecodeError."""
        match = _PATH.fullmatch(path)
        if match is None:
            raise DecodeError("not the path of a tile")
        level = None if match["level"] == "entries" else int(match["level"])
        width = TILE_WIDTH if match["width"] is None else int(match["width"])
        if (level is not None and level > MAX_LEVEL) or (match["width"] is not None and width >= TILE_WIDTH):
            raise DecodeError("no tile has this level or width")
        return cls(level, decode_index(match["index"]), width)

    def exists_at(self, size: int) -> bool:
        """Whether the tree of ``size`` entries has every hash of this tile."""
        hashes = size >> (TILE_HEIGHT * (self.level or 0))
        return self.index * TILE_WIDTH + self.width <= hashes


def tiles_of(size: int) -> list[Tile]:
    """Every hash tile that describes the tree of ``size`` entries, lowest level first."""
    tiles: list[Tile] = []
    level = 0
    while (hashes := size >> (TILE_HEIGHT * level)) > 0:
        full, rest = divmod(hashes, TILE_WIDTH)
        tiles.extend(Tile(level, index) for index in range(full))
        if rest:
            tiles.append(Tile(level, full, rest))
        level += 1
    return tiles


def tile_bytes(tile: Tile, read: NodeReader) -> bytes:
    """Content of a hash tile: its hashes, one after another."""
    if tile.level is None:
        raise ValueError("an entry bundle holds entries, not hashes")
    first = tile.index * TILE_WIDTH
    return b"".join(read(TILE_HEIGHT * tile.level, first + offset) for offset in range(tile.width))


def encode_bundle(entries: Sequence[bytes]) -> bytes:
    """Entry bundle: each entry after its uint16 length."""
    writer = Writer()
    for entry in entries:
        writer.opaque(entry, 2)
    return writer.bytes()


def decode_bundle(data: bytes) -> list[bytes]:
    """Entries of a bundle. Raises DecodeError."""
    return Reader(data, "entry bundle").items(lambda reader: reader.opaque(2))
