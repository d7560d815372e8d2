"""Alembic without its command line: upgrade at open, and the drift check that tests use. A service's migrations are the
modules in the folder ``versions`` of a package. Alembic takes 12 MB of memory, and is imported to run migrations only.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.sqlite_schema import brought_up, newest_revision, revisions_of
from tacit.adapters.databases.watermark import TABLE as MARKS_TABLE
from tacit.errors import Fatal, UsageError

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext

MARKER_TABLE = "tacit_database"
"""The table by which ``tacit.adapters.databases.postgres`` knows which service a database belongs to; no migration
creates it."""

PROBE_TABLE = "tacit_probe"
"""The table with which a process tests that it can write, with a row for each process; no migration creates it."""

SLICE_NAME = re.compile(r"[a-z_]+_slice_[0-9]+")
"""The name of a partition of a declared table; partitions are created and dropped without migrations."""

# Alembic keeps the running migration in module globals, and an upgrade yields to the event loop between
# statements, so only one upgrade runs at a time per loop, and only one loop per process opens databases.
_LOCKS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()


def migrations_of(package: str) -> Path:
    """The folder of the migrations in ``package`` (for example "services.leader.migrations"). Raises ``Fatal`` if there
    is none."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Fatal(f"there is no migrations package {package}")
    return Path(next(iter(spec.submodule_search_locations)))


def migrate(connection: Connection, folder: Path, metadata: sa.MetaData) -> None:
    """Run those migrations of ``folder`` that the schema behind ``connection`` has not had, inside the connection's
    transaction. Raises ``CommandError`` for a schema from which none leads on."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    migrations = ScriptDirectory(folder)

    def steps(revisions: Any, _context: MigrationContext) -> Any:
        return migrations._upgrade_revs("head", revisions)

    options = {"fn": steps, "target_metadata": metadata, "transactional_ddl": True}
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context), context.begin_transaction():
        context.run_migrations()


def upgrade(connection: Connection, package: str, metadata: sa.MetaData) -> None:
    """Bring the schema behind ``connection`` to the newest revision, inside the connection's transaction. Raises
    ``UsageError`` for a schema from which no migration here leads on: another version made it."""
    folder = migrations_of(package)

    def run(connection: Connection) -> None:
        from alembic.util import CommandError

        try:
            migrate(connection, folder, metadata)
        except CommandError as error:
            raise UsageError(_of_another_version(connection, folder)) from error

    if connection.dialect.name != "sqlite" or not brought_up(connection, folder, run):
        run(connection)


def _of_another_version(connection: Connection, folder: Path) -> str:
    found = max(revisions_of(connection))
    is_newer = found > newest_revision(folder)
    whose, then = ("a newer", "that version") if is_newer else ("an older", "one in between first")
    return f"the database was made by {whose} version of Tacit (revision {found}); start {then}"


async def upgrade_async(connection: AsyncConnection, migrations: str, metadata: sa.MetaData) -> None:
    """``upgrade`` on an async connection, one at a time."""
    async with _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await connection.run_sync(upgrade, migrations, metadata)


def keep_out_of_line(connection: Connection, table: str, *columns: str) -> None:
    """On PostgreSQL, never compress ``columns`` (random bytes do not shrink); does nothing on SQLite. For
    migrations."""
    if connection.dialect.name != "postgresql":
        return
    for column in columns:
        connection.exec_driver_sql(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL")


def differences(connection: Connection, metadata: sa.MetaData) -> list[Any]:
    """The differences between the schema behind ``connection`` and ``metadata``, in both directions."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    options = {"compare_type": True, "include_name": _is_compared}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def _is_compared(name: str | None, kind: str, _parents: object) -> bool:
    own = {MARKER_TABLE, MARKS_TABLE, PROBE_TABLE}
    return not (kind == "table" and name is not None and (name in own or SLICE_NAME.fullmatch(name)))
