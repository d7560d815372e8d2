"""PostgreSQL statements, each of which costs a round trip: COPY through the driver's own connection (inside the same
transaction), arrays instead of lists of parameters, and unnest with ON CONFLICT DO NOTHING."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.dialect import Dialect, NumberedTable, Rows, Value, text_of
from tacit.adapters.databases.postgres_driver import constraints, driver_of, fetch, translate_errors
from tacit.adapters.databases.postgres_slices import PostgresSlices
from tacit.fast_paths import COPIED

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_DRIVER = asyncpg.dialect()  # type: ignore[no-untyped-call]
_Columns = tuple[sa.Column[Any], ...]
_Source = tuple[_Columns, sa.Column[Any], _Columns]
"""From ``Rows``: the columns, the key, and the columns that must equal a value."""


class PostgresDialect(Dialect):
    """``Dialect`` for PostgreSQL; see there for what each method means."""

    bytes_type: ClassVar[str] = "BYTEA"
    counts_all: ClassVar[bool] = True

    def typed(self) -> AbstractContextManager[None]:
        """Classifies errors by the class of their SQLSTATE."""
        return translate_errors()

    def upsert(self, table: sa.Table) -> postgresql.Insert:
        """SQLAlchemy's INSERT for PostgreSQL."""
        return postgresql.insert(table)

    def pieces(self, values: Sequence[Value]) -> Iterator[Sequence[Value]]:
        """Yields all values as one part, because an array is one parameter."""
        if values:
            yield values

    def among(self, column: sa.Column[Any], values: Sequence[Any]) -> sa.ColumnElement[bool]:
        """Match the column against one array parameter, ``= ANY(...)``."""
        array = postgresql.ARRAY(column.type)
        return column == sa.any_(sa.bindparam(None, list(values), type_=array, unique=True))

    async def run(self, connection: AsyncConnection, statement: sa.Executable, **values: Any) -> Sequence[Any]:
        """Compiled once, and run on the driver's connection."""
        text, names, constants = text_of(statement, _DRIVER)
        given = constants | values
        return await fetch(connection, text, *[given[name] for name in names])

    async def fetch(self, connection: AsyncConnection, text: str) -> Sequence[Any]:
        """Run on the driver's connection."""
        return await fetch(connection, text)

    async def select_among(self, connection: AsyncConnection, values: Sequence[Any], *sources: Rows) -> list[Any]:
        """One SELECT on the driver's connection, with one array for all sources; none for no values."""
        if not values:
            return []
        statement = _select_among(tuple((one.columns, one.key, tuple(one.equal)) for one in sources))
        array = _array(sources[0].key, values)
        return await fetch(connection, statement, array, *(value for one in sources for value in one.equal.values()))

    async def delete_among(self, connection: AsyncConnection, key: sa.Column[Any], values: Sequence[Any]) -> None:
        """One DELETE on the driver's connection, with an array; none for no values."""
        if not values:
            return
        statement = f"DELETE FROM {key.table} WHERE {_is_among(key, 1)}"  # noqa: S608 - own names, here and below
        await fetch(connection, statement, _array(key, values))

    async def copy_rows(
        self, connection: AsyncConnection, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert the rows with ``COPY``."""
        if rows:
            COPIED.items += len(rows)
            driver = await driver_of(connection)
            with constraints(f"COPY {table.name}"):
                await driver.copy_records_to_table(table.name, records=rows, columns=columns)

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
        """Uses unnest; where the rows are mostly new, first tries COPY within a savepoint."""
        if not rows:
            return []
        if mostly_new:
            driver = await driver_of(connection)
            # COPY has no ON CONFLICT: one row that exists fails them all, and without a savepoint the transaction too.
            # The savepoint ends with the transaction; to release it would be another round trip.
            await driver.execute("SAVEPOINT before_rows")
            try:
                await self.copy_rows(connection, table, columns, rows)
            except sa.exc.IntegrityError:
                COPIED.fallbacks += len(rows)
                await driver.execute("ROLLBACK TO SAVEPOINT before_rows")
            else:
                place = columns.index(key)
                return [row[place] for row in rows]  # COPY took them all
        arrays = ", ".join(f"${place}::{_type(table.c[name])}[]" for place, name in enumerate(columns, start=1))
        statement = (
            f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT * FROM unnest({arrays}) "  # noqa: S608
            f"ON CONFLICT DO NOTHING RETURNING {key}"
        )
        found = await fetch(connection, statement, *(list(values) for values in zip(*rows, strict=True)))
        return [record[0] for record in found]

    def numbered(self, connection: AsyncConnection, table: sa.Table, sequence: str) -> NumberedTable:
        """A table of partitions by ranges of the sequence."""
        return PostgresSlices(connection, table, sequence)


@lru_cache(maxsize=64)
def _select_among(sources: tuple[_Source, ...]) -> str:
    places = count(2)
    selects: list[str] = []
    for number, (columns, key, equal) in enumerate(sources):
        where = [*(f"{column.name} = ${next(places)}" for column in equal), _is_among(key, 1)]
        wanted = [column.name for column in columns] + ([f"{number} AS source"] if len(sources) > 1 else [])
        selects.append(f"SELECT {', '.join(wanted)} FROM {key.table} WHERE {' AND '.join(where)}")  # noqa: S608
    if len(selects) == 1:
        return selects[0]
    # a union by itself has no order, and its parts may run in parallel; its columns have the first source's names
    names = ", ".join(column.name for column in sources[0][0])
    return f"SELECT {names} FROM ({' UNION ALL '.join(selects)}) AS found ORDER BY source"  # noqa: S608


def _is_among(key: sa.Column[Any], place: int) -> str:
    text = "::text" if isinstance(key.type, sa.Integer) else ""
    return f"{key.name} = ANY(${place}{text}::{_type(key)}[])"


def _array(key: sa.Column[Any], values: Sequence[Any]) -> object:
    """The array that ``_is_among`` takes: of integers its text, because the driver looks at each element of an array
    several times."""
    return f"{{{','.join(map(str, values))}}}" if isinstance(key.type, sa.Integer) else values


def _type(column: sa.Column[Any]) -> str:
    return str(column.type.compile(dialect=_DIALECT))
