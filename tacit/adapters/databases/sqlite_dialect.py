"""SQLite statements, each of which costs microseconds: executemany, and lists of parameters in parts, because the
number of parameters is bounded. Every writer runs alone. Deleted rows are overwritten at once (secure_delete)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.dialect import Dialect, NumberedTable, Rows, Scrubbed, Value, text_of
from tacit.adapters.databases.sqlite_file import passing
from tacit.errors import Unavailable

_DRIVER = aiosqlite.dialect()
MAX_PARAMETERS = 10_000
"""Most values in one list of parameters; SQLite allows 32,766."""


class SqliteDialect(Dialect):
    """``Dialect`` for SQLite; see there for what each method means."""

    bytes_type: ClassVar[str] = "BLOB"
    counts_all: ClassVar[bool] = False

    @contextmanager
    def typed(self) -> Iterator[None]:
        """Classifies errors by the primary result code, whether SQLAlchemy or the driver raised them."""
        try:
            yield
        except sa.exc.TimeoutError as error:
            raise Unavailable("every connection to the database is busy") from error
        except (sa.exc.DBAPIError, sqlite3.Error) as error:
            typed = passing(error.orig if isinstance(error, sa.exc.DBAPIError) else error)
            if typed is None:
                raise
            raise typed from error

    def upsert(self, table: sa.Table) -> sqlite.Insert:
        """SQLAlchemy's INSERT for SQLite."""
        return sqlite.insert(table)

    def pieces(self, values: Sequence[Value]) -> Iterator[Sequence[Value]]:
        """Yields parts of at most ``MAX_PARAMETERS`` values."""
        for start in range(0, len(values), MAX_PARAMETERS):
            yield values[start : start + MAX_PARAMETERS]

    def among(self, column: sa.Column[Any], values: Sequence[Any]) -> sa.ColumnElement[bool]:
        """Compares with a list of parameters."""
        return column.in_(values)

    async def run(self, connection: AsyncConnection, statement: sa.Executable, **values: Any) -> Sequence[Any]:
        """Compiled once, and run on the driver's connection."""
        text, names, constants = text_of(statement, _DRIVER)
        given = constants | values
        return await fetch(connection, text, [given[name] for name in names])

    async def fetch(self, connection: AsyncConnection, text: str) -> Sequence[Any]:
        """Run on the driver's connection."""
        return await fetch(connection, text)

    async def select_among(self, connection: AsyncConnection, values: Sequence[Any], *sources: Rows) -> list[Any]:
        """One SELECT on the driver's connection for each source and piece."""
        found: list[Any] = []
        for source in sources:
            columns = ", ".join(column.name for column in source.columns)
            same = "".join(f"{column.name} = ? AND " for column in source.equal)
            select = f"SELECT {columns} FROM {source.key.table} WHERE {same}{source.key.name}"  # noqa: S608 - own names
            for piece in self.pieces(values):
                wanted = [*source.equal.values(), *piece]
                found += await fetch(connection, f"{select} IN ({_places(piece)})", wanted)
        return found

    async def delete_among(self, connection: AsyncConnection, key: sa.Column[Any], values: Sequence[Any]) -> None:
        """One DELETE on the driver's connection for each piece."""
        for piece in self.pieces(values):
            await fetch(connection, f"DELETE FROM {key.table} WHERE {key.name} IN ({_places(piece)})", piece)  # noqa: S608

    async def copy_rows(
        self, connection: AsyncConnection, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert the rows with the driver's ``executemany``."""
        if rows:
            await execute_rows(connection, f"{_insert(table, columns)} VALUES ({_places(columns)})", rows)

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
        """Where the rows are mostly new, first tries ``executemany`` within a savepoint; then INSERT ... ON CONFLICT DO
        NOTHING RETURNING with several rows in a statement."""
        place = columns.index(key)
        if mostly_new and rows:
            await fetch(connection, "SAVEPOINT before_rows")
            statement = f"{_insert(table, columns)} VALUES ({_places(columns)}) ON CONFLICT DO NOTHING"
            if await execute_rows(connection, statement, rows) == len(rows):  # else RETURNING says which are new
                await fetch(connection, "RELEASE before_rows")
                return [row[place] for row in rows]
            await fetch(connection, "ROLLBACK TO before_rows")
        found: list[Any] = []
        for start in range(0, len(rows), most := MAX_PARAMETERS // len(columns)):
            piece = rows[start : start + most]
            each = ", ".join([f"({_places(columns)})"] * len(piece))
            statement = f"{_insert(table, columns)} VALUES {each} ON CONFLICT DO NOTHING RETURNING {key}"
            found += await fetch(connection, statement, [value for row in piece for value in row])
        return [row[0] for row in found]

    def numbered(self, connection: AsyncConnection, table: sa.Table, sequence: str) -> NumberedTable:
        """A numbered table without slices and without a sequence."""
        return _Numbered(connection, table)


class _Numbered(NumberedTable):
    """Numbers continue after the largest in the table: nobody else takes any before this transaction ends."""

    def __init__(self, connection: AsyncConnection, table: sa.Table) -> None:
        self._connection = connection
        self._seq = table.c.seq

    async def take(self, count: int) -> list[int]:
        """Return the numbers after the largest one."""
        last = (await self._connection.execute(sa.select(sa.func.max(self._seq)))).scalar_one() or 0
        return list(range(last + 1, last + 1 + count))

    async def slices(self) -> set[int]:
        """Always empty: there are no slices."""
        return set()

    async def lacks_room(self) -> bool:
        """Always false: there are no slices."""
        return False

    async def make_room(self) -> None:
        """Do nothing: there are no slices."""

    async def close_slice(self) -> None:
        """Do nothing: there are no slices."""

    async def scrub(self, needed: Iterable[int], *, rewrite: bool) -> Scrubbed:
        """Do nothing: deleted rows are already overwritten."""
        return Scrubbed()


def _insert(table: sa.Table, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table.name} ({', '.join(columns)})"


def _places(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


async def fetch(connection: AsyncConnection, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    """Run a statement within the transaction, which it begins if none is open, and return its rows. Raises
    ``IntegrityError`` for a violated constraint."""
    driver = await _begun(connection)
    with _constraints(statement):
        return list(await driver.execute_fetchall(statement, values))


async def execute_rows(connection: AsyncConnection, statement: str, rows: Sequence[Sequence[Any]]) -> int:
    """Run a statement once for each of ``rows``, as ``fetch`` does; returns how many rows of a table changed."""
    driver = await _begun(connection)
    with _constraints(statement):
        async with driver.executemany(statement, rows) as cursor:
            return int(cursor.rowcount)


async def _begun(connection: AsyncConnection) -> Any:
    """The aiosqlite connection on which the transaction is open."""
    if not connection.in_transaction():
        await connection.begin()
    known = connection.sync_connection
    if known is None or known.invalidated:
        return (await connection.get_raw_connection()).driver_connection
    return known.connection.driver_connection  # what takes a detour through a greenlet otherwise


@contextmanager
def _constraints(statement: str) -> Iterator[None]:
    """Turn the driver's error for a violated constraint into SQLAlchemy's, without values."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise sa.exc.IntegrityError(statement, None, error) from error
