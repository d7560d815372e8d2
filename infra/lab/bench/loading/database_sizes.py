"""How large the databases of a running stack's aggregators are, and how much they have counted."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from infra.stacks.layout import Layout
from services.helper.config import HelperConfig
from services.leader.config import LeaderConfig
from tacit.adapters.databases.sql import engine_of
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import load_config

CONFIGS: dict[str, type[ServiceConfig]] = {"leader": LeaderConfig, "helper": HelperConfig}
"""The services whose databases grow with contributions."""
KEPT = "outcomes"
"""The table of spent tokens, which must be kept until they expire: a row for each contribution."""
COUNTED = "SELECT coalesce(sum(count), 0) FROM buckets"
_POSTGRES = (
    "SELECT pg_database_size(current_database()), pg_total_relation_size('outcomes'),"
    " (SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables), (SELECT count(*) FROM pg_inherits)"
)
_SQLITE = (
    "SELECT (SELECT page_count * page_size FROM pragma_page_count, pragma_page_size),"
    " (SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN"
    "  (SELECT name FROM sqlite_schema WHERE tbl_name = 'outcomes')),"
    " (SELECT freelist_count FROM pragma_freelist_count), 0"
)


@dataclass(frozen=True)
class DatabaseSize:
    """A database in bytes, those of its spent tokens (``kept``), its dead rows (SQLite: free pages), its partitions,
    and the contributions that it has counted."""

    size: int
    kept: int
    dead: int
    partitions: int
    counted: int

    @property
    def rest(self) -> int:
        """Bytes of everything but the spent tokens: what a release should bring back to where it was."""
        return self.size - self.kept


async def weigh(layout: Layout, service: str) -> DatabaseSize:
    """Measure the database of a service while it runs, over a connection of its own."""
    engine = engine_of(load_config(layout.configs[service], CONFIGS[service]).database_url(service))
    try:
        async with engine.connect() as connection:
            statement = _POSTGRES if engine.dialect.name == "postgresql" else _SQLITE
            found = (await connection.execute(sa.text(statement))).one()
            counted = (await connection.execute(sa.text(COUNTED))).scalar_one()
    finally:
        await engine.dispose()
    size, kept, dead, partitions = map(int, found)
    return DatabaseSize(size, kept, dead, partitions, int(counted))
