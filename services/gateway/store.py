"""The replay window: which encapsulated keys were seen, kept until no request that carries them is in date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import sqlalchemy as sa

from tacit.adapters.sql import Database
from tacit.adapters.upsert import Int64, upsert
from tacit.errors import Fatal

METADATA = sa.MetaData()
MIGRATIONS = "services.gateway.migrations"

SEEN = sa.Table(
    "seen_requests",
    METADATA,
    sa.Column("enc", sa.LargeBinary, primary_key=True),
    sa.Column("date", Int64, nullable=False),
    sa.Index("seen_requests_by_date", "date"),
)


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request's encapsulated key (32 bytes) and its Date (POSIX seconds)."""

    enc: bytes = field(repr=False)
    date: int


class ReplayWindow(Protocol):
    """What the gateway asks of whoever remembers requests. ``open`` before use, ``close`` after."""

    async def open(self) -> None:
        """Be ready for ``remember``."""
        ...

    async def close(self) -> None:
        """Give up connections."""
        ...

    async def remember(self, requests: Sequence[SeenRequest]) -> list[bool]:
        """Store ``requests`` together; per request whether it is new (of two alike the first). Durable when it
        returns.
        """
        ...


class ReplayStore:
    """The window in one database. ``open`` before use, ``close`` after."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: Database | None = None

    async def open(self) -> None:
        """Open the database and bring its schema up to date."""
        self._opened = await Database.open(self._url, METADATA, MIGRATIONS)

    async def close(self) -> None:
        """Close the database."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def remember(self, requests: Sequence[SeenRequest]) -> list[bool]:
        """Store ``requests`` in one transaction; per request whether it is new. Durable when it returns."""
        rows = {request.enc: {"enc": request.enc, "date": request.date} for request in requests}
        async with self._database.transaction() as connection:
            statement = upsert(connection, SEEN).on_conflict_do_nothing().returning(SEEN.c.enc)
            fresh = set((await connection.execute(statement, list(rows.values()))).scalars())
        answers: list[bool] = []
        for request in requests:
            answers.append(request.enc in fresh)
            fresh.discard(request.enc)
        return answers

    async def forget(self, before: int) -> int:
        """Delete the requests dated earlier than ``before``; returns how many."""
        async with self._database.transaction() as connection:
            return (await connection.execute(sa.delete(SEEN).where(SEEN.c.date < before))).rowcount

    @property
    def _database(self) -> Database:
        if self._opened is None:
            raise Fatal("the replay window is not open")
        return self._opened
