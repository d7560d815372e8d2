"""How a crowd that is drawn and counted comes into the services of a run: its number to the shuffler, its messages to
the analyzer.

Both go into the services' own tables, as what devices send would: the shuffler counts as many bundles more, and the
analyzer has one more chunk of messages, opened and tallied. From there on everything is the services' work.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from aiohttp import web

from services.analyzer.app import STORE as ANALYZER_STORE
from services.analyzer.chunks import tally_bytes
from services.analyzer.records import Chunk
from services.shuffler.app import STORE as SHUFFLER_STORE
from tacit.aggregator.one_server.records import Aggregate
from tacit.roles.shuffled import Tally


async def count_bundles(shuffler: web.Application, task_id: bytes, devices: int) -> None:
    """Let the shuffler count so many bundles more. Before the interval is over."""
    async with shuffler[SHUFFLER_STORE].transaction() as tx:
        await tx.add(task_id, Aggregate(devices, (devices,)))


async def count_messages(analyzer: web.Application, task_id: bytes, messages: int, file: Path) -> None:
    """Let the analyzer count ``messages`` messages more, which are about the cells as the array in ``file`` says; the
    rest of them are fillers. Once the shuffler has forwarded its own."""
    totals = np.load(file)
    held = {int(cell): int(totals[cell]) for cell in np.flatnonzero(totals)}
    tally = Tally(len(totals), held, messages - int(totals.sum()), 0)
    digest = hashlib.sha256(totals.tobytes()).digest()
    async with analyzer[ANALYZER_STORE].transaction() as tx:
        total = await tx.chunk_total(task_id)
        await tx.keep_chunk(task_id, Chunk(total or 0, total or 1, digest), tally_bytes(tally))
