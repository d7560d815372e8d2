"""Reading a log's entries over HTTP (C2SP tlog-tiles), for those that read all of them: witnesses and monitors."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tacit.errors import DecodeError
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.tlog.tiles import MAX_ENTRY_SIZE, TILE_WIDTH, Tile, decode_bundle

MAX_BUNDLE = TILE_WIDTH * (2 + MAX_ENTRY_SIZE)
"""Bytes of the longest entry bundle: a little more than the 16 MiB limit of most transports."""


async def read_entries(transport: Transport, url: str, start: int, end: int) -> AsyncIterator[list[bytes]]:
    """Yield the entries ``[start, end)`` of the log at ``url``, in order, one tile at a time; nothing is verified.

    Raises ``TransportError`` where the log does not deliver them, ``DecodeError`` where a bundle is malformed.
    """
    for index in range(start // TILE_WIDTH, -(-end // TILE_WIDTH) if start < end else 0):
        first = index * TILE_WIDTH
        width = min(TILE_WIDTH, end - first)
        answer = await _get(transport, url, Tile(None, index, width))
        if answer.status == 404 and width < TILE_WIDTH:  # a log may drop a partial tile once it is full
            answer = await _get(transport, url, Tile(None, index))
        if answer.status != 200:
            raise TransportError(f"the log answered with status {answer.status}")
        entries = decode_bundle(answer.body)
        if len(entries) < width:
            raise DecodeError(f"an entry bundle of the log holds {len(entries)} entries, not {width}")
        yield entries[max(0, start - first) : width]


async def _get(transport: Transport, url: str, tile: Tile) -> HttpResponse:
    return await transport.request("GET", f"{url}/{tile.path()}")
