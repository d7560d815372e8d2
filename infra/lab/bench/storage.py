"""The databases under the measured aggregators, and the processor time that they use."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.engine import make_url

from infra.free_ports import free_ports
from infra.lab.bench.processes import cpu_of_tree
from infra.lab.kit.scratch import scratch_folder
from infra.postgres import PostgresServer
from infra.postgres_programs import find_binaries
from tacit.adapters.postgres import administer
from tacit.adapters.system import OsEntropy

S = TypeVar("S", bound=Hashable)
SQLITE, POSTGRES = "sqlite", "postgres"


@dataclass(frozen=True)
class Backend:
    """One kind of database by name."""

    name: str

    @contextlib.contextmanager
    def running(self) -> Iterator[Database]:
        """A server of its own while the block runs, if this kind needs one."""
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
    """A running database; SQLite runs in this very process."""

    server: PostgresServer | None = None
    _names: Iterator[int] = field(default_factory=itertools.count)

    async def fresh(self, roles: Sequence[S]) -> Mapping[S, str] | None:
        """The URL of an empty database for each of ``roles``; None if they use files of their own."""
        if self.server is None:
            return None
        urls = {}
        for role in roles:
            name = f"bench_{next(self._names)}"
            await administer(make_url(self.server.url), [f"CREATE DATABASE {name}"])
            urls[role] = self.server.url.rsplit("/", 1)[0] + f"/{name}"
        return urls

    def cpu(self) -> float:
        """CPU seconds that the server's processes have used."""
        return 0.0 if self.server is None else cpu_of_tree(_postmaster(self.server))


def _postmaster(server: PostgresServer) -> int:
    """The server's own process, by its lock file."""
    return int((server.folder / "data" / "postmaster.pid").read_text().split(maxsplit=1)[0])


def has_postgres() -> bool:
    """Whether this machine can run a PostgreSQL server for a measurement."""
    return find_binaries() is not None and importlib.util.find_spec("asyncpg") is not None


def backends() -> list[Backend]:
    """SQLite, and PostgreSQL where it is installed."""
    return [Backend(SQLITE), *([Backend(POSTGRES)] if has_postgres() else [])]
