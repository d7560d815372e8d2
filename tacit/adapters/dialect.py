"""What one kind of database says or does in words of its own: statements, bulk rows, storage, errors.

A store writes SQLAlchemy Core where that means the same everywhere, and asks its database's ``Dialect`` for the rest. A
method that takes a connection works within the transaction that is open on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.upsert import Upsert

SLICE = 1 << 16
"""Numbers of one slice of a ``NumberedTable``."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Rows:
    """``columns`` of the rows of one table whose columns are ``equal`` to a value each, and whose ``key`` is one of any
    number of values."""

    columns: tuple[sa.Column[Any], ...]
    key: sa.Column[Any]
    equal: Mapping[sa.Column[Any], Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Scrubbed:
    """What ``NumberedTable.scrub`` did: slices dropped, and slices rewritten with the rows that are still needed."""

    dropped: int = 0
    rewritten: int = 0


class NumberedTable(ABC):
    """A table whose rows are numbered as they come (column ``seq``) and deleted soon, so that their bytes must go, too:
    at once, or with the *slice* of ``SLICE`` numbers that they lie in. Bound to one open transaction."""

    @abstractmethod
    async def take(self, count: int) -> list[int]:
        """``count`` numbers that no row has had, in order."""

    @abstractmethod
    async def slices(self) -> set[int]:
        """Numbers of the slices that there are; none where bytes go at once."""

    @abstractmethod
    async def lacks_room(self) -> bool:
        """Whether ``make_room`` has something to do."""

    @abstractmethod
    async def make_room(self) -> None:
        """Make the slices that the next rows go to. Alone: it takes the whole table's lock."""

    @abstractmethod
    async def close_slice(self) -> None:
        """Let the next row begin a new slice, unless the present one is untouched. Alone."""

    @abstractmethod
    async def scrub(self, needed: Iterable[int], *, rewrite: bool) -> Scrubbed:
        """Drop the closed slices that hold no row and none of the numbers ``needed``; with ``rewrite`` those that hold
        little are written anew without what was deleted. Alone."""


class Dialect(ABC):
    """One kind of database. ``bytes_type``: what it calls a column of bytes; ``counts_all``: whether several processes,
    each with a shard of its own, may have a database of this kind open."""

    bytes_type: ClassVar[str]
    counts_all: ClassVar[bool]

    @abstractmethod
    def typed(self) -> AbstractContextManager[None]:
        """Errors of the database's surroundings (no connection, no room, another writer) become ``Unavailable``; those
        of a statement (a violated constraint) stay what they are."""

    @abstractmethod
    def upsert(self, table: sa.Table) -> Upsert:
        """An INSERT that knows ``on_conflict_do_nothing``, ``on_conflict_do_update`` and ``excluded``."""

    @abstractmethod
    def pieces(self, values: Sequence[Value]) -> Iterator[Sequence[Value]]:
        """``values`` in as many parts as one statement each can name; none for no values."""

    @abstractmethod
    def among(self, column: sa.Column[Any], values: Sequence[Any]) -> sa.ColumnElement[bool]:
        """``column`` is one of ``values``, which are one of ``pieces``."""

    @abstractmethod
    async def select_among(self, connection: AsyncConnection, values: Sequence[Any], *sources: Rows) -> list[Any]:
        """What the ``sources``, whose columns are of the same types, have of ``values``, in the order of the sources;
        for queries that are hot, or give many rows."""

    @abstractmethod
    async def delete_among(self, connection: AsyncConnection, key: sa.Column[Any], values: Sequence[Any]) -> None:
        """Delete the rows whose ``key`` is one of any number of ``values``."""

    @abstractmethod
    async def copy_rows(
        self, connection: AsyncConnection, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert ``rows``, each with one value per name in ``columns``. Raises ``IntegrityError`` where one violates a
        constraint; the transaction is then of use only up to its last savepoint."""

    @abstractmethod
    async def insert_new(
        self,
        connection: AsyncConnection,
        table: sa.Table,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        key: str,
        *,
        mostly_new: bool = False,
    ) -> list[Any]:
        """Insert those of ``rows`` that violate no unique constraint; returns the ``key`` column of the ones that were
        inserted. Waits for other transactions that insert the same. ``mostly_new``: seldom is one of them there."""

    @abstractmethod
    def numbered(self, connection: AsyncConnection, table: sa.Table, sequence: str) -> NumberedTable:
        """``table`` as a ``NumberedTable``, its numbers from ``sequence`` where the database has such."""
