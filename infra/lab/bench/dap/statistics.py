"""PostgreSQL's statistics of the measured databases: what a plan costs depends on them, and without help on when
autovacuum last came by, a minute ago or never. So a measurement keeps them fresh, or says that it did not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil
from sqlalchemy import make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from infra.lab.bench.loading.processes import cpu_of
from tacit.adapters.databases.postgres_tls import protection_of
from tacit.adapters.network.origins import is_loopback
from tacit.errors import UsageError
from tacit.service.base.secret_files import read_database_url

FRESH, AS_FOUND = "fresh", "as found"
EVERY_SECONDS = 10.0


class Statistics:
    """The statistics of the databases whose URLs are in ``files`` (0600), on this machine. ``seconds``: the CPU time
    that making them has taken, in the server's processes."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        """Raises ``UsageError`` for a file without a URL, and for a database elsewhere."""
        self._engines = {file: _engine(file) for file in files}
        self.seconds = 0.0

    @property
    def state(self) -> str:
        """``fresh``, or ``as found`` where no database is named."""
        return FRESH if self._engines else AS_FOUND

    @contextlib.asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Make them at once, and again every ten seconds until the block ends. Raises ``UsageError`` where that
        fails."""
        await self.make()
        again = asyncio.ensure_future(self._again())
        try:
            yield
        finally:
            again.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await again

    async def make(self) -> None:
        """Have every database look through its tables. Raises ``UsageError``."""
        for file, engine in self._engines.items():
            try:
                async with engine.connect() as connection:
                    backend = psutil.Process((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())
                    await connection.execute(text("ANALYZE"))
                    self.seconds += cpu_of(backend)
            except (OSError, SQLAlchemyError, psutil.Error) as error:
                raise UsageError(f"{file}: ANALYZE failed there ({type(error).__name__})") from error

    async def _again(self) -> None:
        while self._engines:
            await asyncio.sleep(EVERY_SECONDS)
            await self.make()


def _engine(file: Path) -> AsyncEngine:
    url, protection = protection_of(make_url(read_database_url(file)))
    if protection.socket is None and not is_loopback(url.host or ""):
        raise UsageError(f"{file}: the database must be on this machine, where its processes are counted")
    return create_async_engine(
        url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=protection.arguments()
    )
