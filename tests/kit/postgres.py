"""Databases on a PostgreSQL server that a test session shares."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from infra.backing.postgres import SUPERUSER, PostgresServer
from infra.base.postgres_programs import find_binaries
from tacit.adapters.databases.stored import DatabaseStore

Migrated = Callable[[str], DatabaseStore]
"""Makes the store of one service from a URL."""

MakeDatabase = Callable[..., str]
"""``Databases.make``."""

FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "256MB",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",
}
"""Settings of a server that need not survive a power cut of its machine, and whose shared memory goes with its folder
when it is killed. A worker of autovacuum that looks at a template delays its next copy by 0.1 s."""


class Databases:
    """Makes databases on ``server``."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._numbers = itertools.count()
        self._templates: dict[Migrated, str] = {}

    def make(self, store: Migrated | None = None) -> str:
        """Make a database and return its URL: an empty one, or one with the tables of ``store``, copied from a template
        that is migrated once."""
        return self._url(self._copied("template0" if store is None else self._template(store)))

    def _template(self, store: Migrated) -> str:
        if store not in self._templates:
            name = self._copied("template0")
            with ThreadPoolExecutor(1) as thread:  # the caller's has an event loop that runs
                thread.submit(asyncio.run, _migrate(store(self._url(name)))).result()
            self._templates[store] = name
        return self._templates[store]

    def _copied(self, template: str) -> str:
        """The name of a new database like ``template``."""
        name = f"t{secrets.token_hex(6)}_{next(self._numbers)}"
        program = str((find_binaries() or Path()) / "createdb")
        place = ["-h", "127.0.0.1", "-p", str(self._server.port), "-T", template, "-S", "file_copy"]
        credentials = {"PGUSER": SUPERUSER, "PGPASSWORD": self._server.password}
        subprocess.run([program, *place, name], env={**os.environ, **credentials}, check=True)
        return name

    def _url(self, name: str) -> str:
        return self._server.url_of(SUPERUSER, self._server.password, name)


async def _migrate(store: DatabaseStore) -> None:
    await store.open()
    await store.close()
