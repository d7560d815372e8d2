"""What a witness must not forget: the tree of each log that it cosigned last, and every claim in it.

``advance`` is the only write. It compares with what the caller read and writes in one transaction. So of two requests
that would lead to different trees, in one process or in two, one finds that the log has moved on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from services.witness.schema import CLAIMS, LOGS, METADATA, MIGRATIONS
from tacit.adapters.databases.stored import DatabaseStore
from tacit.adapters.databases.watermark import Watermark
from tacit.tlog.merkle import EMPTY_ROOT

_FETCH = 400


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The tree that was cosigned last; ``frontier`` holds the hashes of its right edge."""

    size: int = 0
    root: bytes = EMPTY_ROOT
    frontier: bytes = b""


@dataclass(frozen=True, slots=True)
class Moved:
    """Another request advanced the log first, to ``size``."""

    size: int


@dataclass(frozen=True, slots=True)
class Twice:
    """The leaf at ``index`` makes a ``claim`` that the leaf at ``holder`` already made."""

    claim: str
    index: int
    holder: int


class WitnessStore(DatabaseStore):
    """The tree of each log that was cosigned last, and every claim in it."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    async def witnessed(self, origin: str) -> Witnessed:
        """The tree of a log that was cosigned last; the empty tree if there is none."""
        async with self._database.read() as connection:
            return await _read_witnessed(connection, origin)

    async def advance(
        self, origin: str, known: Witnessed, new: Witnessed, claims: Mapping[str, int]
    ) -> Moved | Twice | None:
        """Go from ``known`` to ``new``, whose additional leaves make ``claims`` (claim to index of the leaf), in one
        transaction that runs alone and must not be lost.

        Returns None if it was written and is durable. Otherwise nothing is written.
        """
        digests = {hashlib.sha256(claim.encode()).digest(): claim for claim in claims}
        async with self._database.transaction() as connection:
            current = await _read_witnessed(connection, origin)
            if current != known:
                return Moved(current.size)
            held = await _holders(connection, origin, digests)
            twice = [Twice(digests[digest], claims[digests[digest]], holder) for digest, holder in held.items()]
            if twice:
                return min(twice, key=lambda one: one.index)
            await connection.execute(sa.delete(LOGS).where(LOGS.c.origin == origin))
            row = {"origin": origin, "size": new.size, "root": new.root, "frontier": new.frontier}
            await connection.execute(sa.insert(LOGS).values(**row))
            if digests:
                rows = [
                    {"origin": origin, "digest": digest, "position": claims[claim]} for digest, claim in digests.items()
                ]
                await connection.execute(sa.insert(CLAIMS), rows)
            await self._database.spend(connection)
        return None


async def _read_witnessed(connection: AsyncConnection, origin: str) -> Witnessed:
    statement = sa.select(LOGS.c.size, LOGS.c.root, LOGS.c.frontier).where(LOGS.c.origin == origin)
    row = (await connection.execute(statement)).first()
    return Witnessed() if row is None else Witnessed(row.size, row.root, row.frontier)


async def _holders(connection: AsyncConnection, origin: str, digests: Iterable[bytes]) -> dict[bytes, int]:
    """The index of the leaf that already made each claim, by the claim's digest."""
    wanted, holders = sorted(digests), {}
    for start in range(0, len(wanted), _FETCH):
        inside = CLAIMS.c.digest.in_(wanted[start : start + _FETCH])
        statement = sa.select(CLAIMS.c.digest, CLAIMS.c.position).where(CLAIMS.c.origin == origin, inside)
        holders.update({row.digest: row.position for row in await connection.execute(statement)})
    return holders
