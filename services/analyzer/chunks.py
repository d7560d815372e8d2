"""Takes the messages that a shuffler forwards, chunk by chunk, and counts them once all chunks are there (P25).

Each chunk is opened when it arrives, and taken once: the same bytes again get the same answer, other bytes under its
index are refused. Nothing of a message is kept but the number of messages about each cell of its chunk.

A stored tally is 8 bytes for each cell, for fillers and for malformed messages; or, where that is shorter, a byte of 1,
8 bytes each for fillers and malformed messages, and for each cell that has messages 4 bytes of its number and 8 of
theirs. Their lengths tell them apart: one is a multiple of 8, the other odd.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct

from services.analyzer.config import AnalyzerConfig
from services.analyzer.records import Chunk
from services.analyzer.store import AnalyzerTx
from tacit.aggregator.one_server.records import Aggregate, pack, unpack
from tacit.errors import DecodeError, Refusal
from tacit.messages.chunk import MessageChunk
from tacit.roles.analyzer import AnalyzerParty
from tacit.roles.shuffled import MessageCounter, Tally, Total
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.base.store import Transactions
from tacit.task.one_server import INVALID, OVER, REPLAYED
from tacit.task.shuffled import Bundling

MALFORMED = "message-malformed"
INCOMPLETE = "bundles-incomplete"
_HEAD = struct.Struct(">BQQ")
_CELL = struct.Struct(">IQ")


class Chunks:
    """Counts chunks of messages. What was answered is durable."""

    def __init__(self, store: Transactions[AnalyzerTx], deps: ServiceEnv, config: AnalyzerConfig) -> None:
        self._store = store
        self._deps = deps
        self._crypto = config.job_crypto()
        self._log = get_logger("analyzer")

    async def take(self, party: AnalyzerParty, body: bytes) -> None:
        """Count one chunk. Raises ``Refusal``: ``report-invalid`` for bytes that are no chunk, or a recipe without a
        shuffler; ``report-replayed`` for an index that has other bytes, or another total; ``recipe-over``."""
        if party.bundling is None:
            raise Refusal(INVALID, "the messages of this recipe are not shuffled")
        try:
            chunk = MessageChunk.decode(body)
        except DecodeError as error:
            raise Refusal(INVALID, str(error)) from error
        known = Chunk(chunk.index, chunk.total, hashlib.sha256(body).digest())
        async with self._store.read() as tx:
            if await _is_known(tx, party, known):
                return
        try:
            counter = MessageCounter(party.bundling, party.key_pair)
            tally = await asyncio.to_thread(counter.count, chunk.messages, self._crypto)
        except ValueError as error:
            raise Refusal(INVALID, str(error)) from error
        await self._keep(party, known, tally)
        self._deps.saw("analyzer", chunk=chunk.index, messages=tally.messages)

    async def _keep(self, party: AnalyzerParty, chunk: Chunk, tally: Tally) -> None:
        task_id = party.task.task_id
        async with self._store.transaction() as tx:
            # looked up again, under the lock: the same chunk may have been stored while this one was counted
            if await _is_known(tx, party, chunk):
                return
            if not await tx.is_open(party, self._deps.clock.now()) or await tx.is_closed(task_id):
                raise Refusal(OVER, "the recipe takes no more messages")
            await tx.keep_chunk(task_id, chunk, tally_bytes(tally))
            if tally.malformed:
                await tx.count_rejections(task_id, {MALFORMED: tally.malformed})


async def _is_known(tx: AnalyzerTx, party: AnalyzerParty, chunk: Chunk) -> bool:
    """Whether exactly this chunk is stored. Raises ``Refusal`` where another one has its index, or another total."""
    task_id = party.task.task_id
    stored = await tx.chunk(task_id, chunk.index)
    if stored is not None and stored.digest == chunk.digest:
        return True
    if stored is not None or await tx.chunk_total(task_id) not in {None, chunk.total}:
        raise Refusal(REPLAYED, "other messages came under this index, or with another total")
    return False


async def count_chunks(tx: AnalyzerTx, party: AnalyzerParty, bundling: Bundling) -> Aggregate | None:
    """The totals of all chunks, as of so many bundles; None until all are there. Raises ``Refusal`` for messages that
    are no whole bundles."""
    task = party.task
    total, found = await tx.chunk_total(task.task_id), Total(task.cells)
    if total is None or await tx.chunk_count(task.task_id) < total:
        return None
    async for tally in tx.tallies(task.task_id):
        found.add(read_tally(tally, task.cells))
    try:
        bundles = found.bundles(bundling.messages)
    except ValueError as error:
        raise Refusal(INCOMPLETE, str(error)) from error
    return Aggregate(bundles, found.numbers)


def tally_bytes(tally: Tally) -> bytes:
    """Encode a tally in its shorter form."""
    if _HEAD.size + _CELL.size * len(tally.held) >= 8 * (tally.cells + 2):
        return pack((*tally.numbers, tally.fillers, tally.malformed))
    return _HEAD.pack(1, tally.fillers, tally.malformed) + b"".join(_CELL.pack(*one) for one in tally.held.items())


def read_tally(data: bytes, cells: int) -> Tally:
    """Decode a tally of a recipe with so many cells."""
    if len(data) % 8 == 0:
        *numbers, fillers, malformed = unpack(data)
        return Tally(cells, {cell: count for cell, count in enumerate(numbers) if count}, fillers, malformed)
    _, fillers, malformed = _HEAD.unpack_from(data)
    return Tally(cells, dict(_CELL.iter_unpack(data[_HEAD.size :])), fillers, malformed)
