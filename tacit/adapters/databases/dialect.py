"""What differs between the kinds of database: statements, bulk rows, storage, errors.

A store writes SQLAlchemy Core where that means the same everywhere, and uses its database's ``Dialect`` for the rest. A
method that takes a connection works within the transaction that is open on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Dialect as SqlDialect
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.upsert import Upsert

SLICE = 1 << 16
"""Sequence numbers in one slice of a ``NumberedTable``."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Rows:
    """A selection of rows of one table: those in which the columns of ``equal`` have the given values and ``key`` is
    one of any number of values; ``columns`` are the columns to return."""

    columns: tuple[sa.Column[Any], ...]
    key: sa.Column[Any]
    equal: Mapping[sa.Column[Any], Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Scrubbed:
    """The result of ``NumberedTable.scrub``: the slices dropped, and the slices rewritten with only the rows still
    needed."""

    dropped: int = 0
    rewritten: int = 0


class NumberedTable(ABC):
    """A table whose rows are numbered in insertion order (column ``seq``) and deleted soon, with their bytes: at once,
    or with the *slice* of ``SLICE`` numbers in which they lie. Bound to one open transaction."""

    @abstractmethod
    async def take(self, count: int) -> list[int]:
        """Reserve ``count`` numbers that no row has had, in order."""

    @abstractmethod
    async def slices(self) -> set[int]:
        """Numbers of the existing slices; empty where bytes are erased at once."""

    @abstractmethod
    async def lacks_room(self) -> bool:
        """Whether ``make_room`` would do anything now."""

    @abstractmethod
    async def make_room(self) -> None:
        """Create the slices for the next rows. Needs a transaction that runs alone: it locks the whole table."""

    @abstractmethod
    async def close_slice(self) -> None:
        """Let the next row begin a new slice, unless the present one is unused. Needs a transaction that runs alone."""

    @abstractmethod
    async def scrub(self, needed: Iterable[int], *, rewrite: bool) -> Scrubbed:
        """Drop the closed slices that hold no row and none of the numbers ``needed``; with ``rewrite``, also rewrite
        those that hold few rows, without what was deleted. Needs a transaction that runs alone."""


class Dialect(ABC):
    """One kind of database. ``bytes_type``: the name of its column type for bytes; ``counts_all``: whether several
    processes, each with its own shard, may have a database of this kind open."""

    bytes_type: ClassVar[str]
    counts_all: ClassVar[bool]

    @abstractmethod
    def typed(self) -> AbstractContextManager[None]:
        """Turn errors of the database's environment (no connection, no room, another writer) into ``Unavailable``;
        errors of a statement (a violated constraint) pass unchanged."""

    @abstractmethod
    def upsert(self, table: sa.Table) -> Upsert:
        """An INSERT that supports ``on_conflict_do_nothing``, ``on_conflict_do_update`` and ``excluded``."""

    @abstractmethod
    def pieces(self, values: Sequence[Value]) -> Iterator[Sequence[Value]]:
        """Split ``values`` into parts small enough for one statement each; yields nothing for no values."""

    @abstractmethod
    def among(self, column: sa.Column[Any], values: Sequence[Any]) -> sa.ColumnElement[bool]:
        """The condition that ``column`` is one of ``values``; these are one part from ``pieces``."""

    @abstractmethod
    async def run(self, connection: AsyncConnection, statement: sa.Executable, **values: Any) -> Sequence[Any]:
        """Run a frequent statement that is made once, without lists of parameters, and return its rows. ``values``: its
        bound parameters by name."""

    @abstractmethod
    async def fetch(self, connection: AsyncConnection, text: str) -> Sequence[Any]:
        """Run a frequent statement that is the same in every kind of database and has no parameters, and return its
        rows."""

    @abstractmethod
    async def select_among(self, connection: AsyncConnection, values: Sequence[Any], *sources: Rows) -> list[Any]:
        """Select the rows of ``sources`` (whose columns have the same types) that match ``values``, in the order of the
        sources; for frequent queries or those with many rows."""

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
        """Insert those of ``rows`` that violate no unique constraint; returns the ``key`` column of the inserted ones.
        Waits for other transactions that insert the same rows. ``mostly_new``: few of the rows are expected to exist.
        """

    @abstractmethod
    def numbered(self, connection: AsyncConnection, table: sa.Table, sequence: str) -> NumberedTable:
        """``table`` as a ``NumberedTable``; its numbers come from ``sequence`` where the database has sequences."""


@lru_cache(maxsize=256)
def text_of(statement: sa.Executable, dialect: SqlDialect) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """The text of a statement, its parameters in order, and the values of those that it has itself."""
    compiled: Any = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
    constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
    return str(compiled), tuple(compiled.positiontup), constants
