"""Many rows at a time, in the words of whichever database a transaction is open on.

On PostgreSQL: COPY through the driver's own connection (inside the same transaction), arrays instead of lists of
parameters, and unnest with ON CONFLICT DO NOTHING. On SQLite, where a statement costs microseconds and parameters are
bounded: executemany, and lists of parameters in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

MAX_PARAMETERS = 10_000
"""Values in one list of parameters; SQLite takes 32,766."""

_FIRST = sa.text("SELECT 1")
_VIOLATION = "23"
"""The class of SQLSTATE of a violated constraint, a missing partition among them."""

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]

Value = TypeVar("Value")


def is_postgres(connection: AsyncConnection) -> bool:
    """Whether the transaction is open on PostgreSQL."""
    return connection.dialect.name == "postgresql"


def pieces(connection: AsyncConnection, values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """``values`` in as many parts as one statement each can name; none for no values."""
    size = len(values) if is_postgres(connection) else MAX_PARAMETERS
    for start in range(0, len(values), max(1, size)):
        yield values[start : start + size]


def among(connection: AsyncConnection, column: sa.Column[Any], values: Sequence[Any]) -> sa.ColumnElement[bool]:
    """``column`` is one of ``values``, which are one of ``pieces``."""
    if is_postgres(connection):
        array = postgresql.ARRAY(column.type)
        return column == sa.any_(sa.bindparam(None, list(values), type_=array, unique=True))
    return column.in_(values)


async def driver_of(connection: AsyncConnection) -> Any:
    """The asyncpg connection on which the transaction is open."""
    return (await connection.get_raw_connection()).driver_connection


async def fetch(connection: AsyncConnection, statement: str, *values: Any) -> list[Any]:
    """The rows of a statement in PostgreSQL's own words, with $1 for the first of ``values``: for statements that are
    run so often, or give so many rows, that what SQLAlchemy adds would show. Raises ``IntegrityError`` for a violated
    constraint."""
    driver = await driver_of(connection)
    if not driver.is_in_transaction():  # SQLAlchemy begins with the first statement of its own
        await connection.execute(_FIRST)
    with _constraints(statement):
        found: list[Any] = await driver.fetch(statement, *values)
    return found


async def fetch_alone(driver: Any, statement: str, *values: Any) -> list[Any]:
    """``fetch`` on an asyncpg connection that is in no transaction."""
    with _constraints(statement):
        found: list[Any] = await driver.fetch(statement, *values)
    return found


@contextmanager
def _constraints(statement: str) -> Iterator[None]:
    """What the driver says of a violated constraint, as SQLAlchemy says it; no values."""
    try:
        yield
    except Exception as error:
        if str(getattr(error, "sqlstate", None) or "").startswith(_VIOLATION):
            raise sa.exc.IntegrityError(statement, None, error) from error
        raise


async def copy_rows(
    connection: AsyncConnection, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Insert ``rows``, each with one value per name in ``columns``. Raises ``IntegrityError`` where one violates a
    constraint; on PostgreSQL the transaction is then of use only up to its last savepoint.
    """
    if not rows:
        return
    if not is_postgres(connection):
        await connection.execute(sa.insert(table), [dict(zip(columns, row, strict=True)) for row in rows])
        return
    driver = await driver_of(connection)
    with _constraints(f"COPY {table.name}"):
        await driver.copy_records_to_table(table.name, records=rows, columns=columns)


async def insert_new(
    connection: AsyncConnection, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]], key: str
) -> list[Any]:
    """Insert those of ``rows`` that violate no unique constraint (PostgreSQL only); returns the ``key`` column of the
    ones that were inserted. Waits for other transactions that insert the same."""
    if not rows:
        return []
    kinds = [table.c[name].type.compile(dialect=_DIALECT) for name in columns]
    arrays = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(kinds, start=1))
    statement = (
        f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT * FROM unnest({arrays}) "  # noqa: S608 - own names
        f"ON CONFLICT DO NOTHING RETURNING {key}"
    )
    found = await fetch(connection, statement, *(list(values) for values in zip(*rows, strict=True)))
    return [record[0] for record in found]
