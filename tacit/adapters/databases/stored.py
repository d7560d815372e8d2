"""A service's store over one database: opening, closing, and access to the open database."""

from __future__ import annotations

import sqlalchemy as sa

from tacit.adapters.databases.database import Database
from tacit.adapters.databases.signals import Signals
from tacit.adapters.databases.sql import open_database
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal


class DatabaseStore:
    """Call ``open`` before use and ``close`` at the end."""

    def __init__(
        self, url: str, metadata: sa.MetaData, migrations: str, mark: Watermark | None = None, *, shared: bool = False
    ) -> None:
        """Takes the arguments of ``open_database``."""
        self._url = url
        self._metadata = metadata
        self._migrations = migrations
        self._mark = mark
        self._shared = shared
        self._opened: Database | None = None
        self.signals = Signals()

    async def open(self) -> None:
        """Open and migrate. Raises what ``open_database`` raises."""
        self._opened = await open_database(
            self._url,
            self._metadata,
            self._migrations,
            shared=self._shared,
            mark=self._mark,
            signals=self.signals,
        )

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    @property
    def durable(self) -> Database | None:
        """The database while it is open."""
        return self._opened

    @property
    def closed_until(self) -> int:
        """``Database.closed_until``; the database must be open."""
        return self._database.closed_until

    @property
    def _database(self) -> Database:
        if self._opened is None:
            raise Fatal("the database is not open")
        return self._opened
