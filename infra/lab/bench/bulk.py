"""Writes rows into the database of a service that is not running, in batches, through the driver's bulk interface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from tacit.adapters.databases.sql import engine_of
from tacit.adapters.databases.stored import DatabaseStore

BATCH: Final = 20_000
_FAST: Final = ("synchronous = OFF", "cache_size = -262144", "temp_store = MEMORY")
"""SQLite settings for a file that nobody else has open, and that may be lost in a power cut."""


@dataclass
class Bulk:
    """An open database. ``put`` any number of rows, ``flush`` after the last."""

    driver: Any
    waiting: dict[sa.Table, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = field(default_factory=dict)

    async def put(self, table: sa.Table, row: Mapping[str, Any]) -> None:
        """Add one row, with the same columns as the table's other rows."""
        _, rows = self.waiting.setdefault(table, (tuple(row), []))
        rows.append(tuple(row.values()))
        if len(rows) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        """Write the waiting rows, tables in the order in which they were first named."""
        for table, (names, rows) in self.waiting.items():
            if rows:
                await self._write(table.name, names, rows)
                rows.clear()

    async def _write(self, table: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        if hasattr(self.driver, "copy_records_to_table"):
            await self.driver.copy_records_to_table(table, records=rows, columns=names)
            return
        places = ", ".join("?" * len(names))
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"  # noqa: S608 - names of our own
        await self.driver.executemany(statement, rows)
        await self.driver.commit()


@asynccontextmanager
async def filling(store: DatabaseStore, url: str) -> AsyncIterator[Bulk]:
    """Yield the database at ``url`` for writing, after ``store`` has created, migrated and closed it."""
    await store.open()
    await store.close()
    engine = engine_of(url)
    try:
        async with engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            if make_url(url).get_backend_name() == "sqlite":
                for pragma in _FAST:
                    await driver.execute(f"PRAGMA {pragma}")
            bulk = Bulk(driver)
            yield bulk
            await bulk.flush()
    finally:
        await engine.dispose()
