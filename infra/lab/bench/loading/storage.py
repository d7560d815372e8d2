"""The databases under the measured aggregators, and the processor time that they use."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.engine import make_url

from infra.backing.postgres import PostgresServer
from infra.base.free_ports import free_ports
from infra.base.postgres_programs import find_binaries
from infra.lab.bench.loading.processes import cpu_of_tree
from infra.lab.kit.scratch import scratch_folder
from tacit.adapters.databases.postgres import administer
from tacit.adapters.system import OsEntropy

S = TypeVar("S", bound=Hashable)
SQLITE, POSTGRES = "sqlite", "postgres"


@dataclass(frozen=True)
class Backend:
    """One kind of database, by name: SQLite or PostgreSQL."""

    name: str

    @contextlib.contextmanager
    def running(self) -> Iterator[Database]:
        """Yield a database; while the block runs, it has its own server if this kind needs one."""
        if self.name == SQLITE:
            yield Database()
            return
        with scratch_folder("tacit-bench-", 0o711) as folder:
            server = PostgresServer.create(folder / "server", free_ports(1)[0], OsEntropy()(16).hex())
            try:
                server.start()
                yield Database(server)
            finally:
                server.stop()


@dataclass
class Database:
    """A running database; without ``server`` it is SQLite, which runs in this process."""

    server: PostgresServer | None = None
    _names: Iterator[int] = field(default_factory=itertools.count)

    async def fresh(self, roles: Sequence[S]) -> Mapping[S, str] | None:
        """Create an empty database for each of ``roles``; returns their URLs, None if roles use files of their own."""
        if self.server is None:
            return None
        urls = {}
        for role in roles:
            name = f"bench_{next(self._names)}"
            await administer(make_url(self.server.url), [f"CREATE DATABASE {name}"])
            urls[role] = self.server.url.rsplit("/", 1)[0] + f"/{name}"
        return urls

    def cpu(self) -> float:
        """Return the CPU seconds that the server's processes have used."""
        return 0.0 if self.server is None else cpu_of_tree(_postmaster(self.server))


def _postmaster(server: PostgresServer) -> int:
    """Read the id of the server's main process from its lock file."""
    return int((server.folder / "data" / "postmaster.pid").read_text("utf-8").split(maxsplit=1)[0])


def has_postgres() -> bool:
    """Return whether this machine can run a PostgreSQL server for a measurement."""
    return find_binaries() is not None and importlib.util.find_spec("asyncpg") is not None


def lacks_driver() -> bool:
    """Return whether PostgreSQL cannot be measured because only its driver is missing."""
    return find_binaries() is not None and importlib.util.find_spec("asyncpg") is None


def backends() -> list[Backend]:
    """List the kinds of databases of this machine: SQLite, and PostgreSQL where it is installed."""
    return [Backend(SQLITE), *([Backend(POSTGRES)] if has_postgres() else [])]
