"""How a database comes to have its service's tables: a new one gets those that the code declares; for another, the
modules in the folder ``versions`` of a service's migrations lead from revision to revision, with Alembic. Alembic takes
12 MB of memory and a quarter of a second, and is imported to run migrations only.
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

from tacit.errors import Fatal, UsageError

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext

MARKER_TABLE = "tacit_database"
"""The table by which ``tacit.adapters.databases.postgres`` knows which service a database belongs to; no migration
creates it."""

_REVISION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""The table in which Alembic keeps a database's revision, as Alembic would make it."""

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


def newest_revision(folder: Path) -> str:
    """The revision to which the migrations in ``folder`` lead: the digits that the last file's name begins with."""
    return max(path.name.partition("_")[0] for path in (folder / "versions").glob("[0-9]*_*.py"))


def upgrade(connection: Connection, package: str, metadata: sa.MetaData) -> None:
    """Bring the schema behind ``connection`` to the newest revision, inside the connection's transaction. Raises
    ``UsageError`` for a schema from which no migration here leads on: another version made it."""
    folder = migrations_of(package)
    newest, found = newest_revision(folder), _revision_of(connection)
    if found is None:
        metadata.create_all(connection, checkfirst=False)
        _REVISION.create(connection)
        connection.execute(sa.insert(_REVISION).values(version_num=newest))
    elif found != newest:
        _migrate(connection, folder, found, newest)


def _revision_of(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(_REVISION.name):
        return None
    revisions = connection.execute(sa.select(_REVISION.c.version_num)).scalars().all()
    if len(revisions) != 1:
        raise Fatal(f"the database states {len(revisions)} revisions of its tables, not one; restore a backup of it")
    return str(revisions[0])


def _migrate(connection: Connection, folder: Path, found: str, newest: str) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    migrations = ScriptDirectory(folder)

    def steps(revisions: Any, _context: MigrationContext) -> Any:
        return migrations._upgrade_revs("head", revisions)

    context = MigrationContext.configure(connection, opts={"fn": steps, "transactional_ddl": True})
    try:
        with Operations.context(context), context.begin_transaction():
            context.run_migrations()
    except CommandError as error:
        whose, then = ("a newer", "that version") if found > newest else ("an older", "one in between first")
        raise UsageError(
            f"the database was made by {whose} version of Tacit (revision {found}); start {then}"
        ) from error


async def upgrade_async(connection: AsyncConnection, migrations: str, metadata: sa.MetaData) -> None:
    """``upgrade`` on an async connection, one at a time."""
    async with _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await connection.run_sync(upgrade, migrations, metadata)
