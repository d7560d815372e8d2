"""Bring an SQLite schema up to date without running its migrations, where the outcome is known.

A run of Alembic costs a quarter of a second of processor time. A database at the newest revision, that of the file
whose name comes last, needs none; an empty one gets exactly the statements that a run on an empty in-memory database
produced, computed once per process for as long as the migration files stay the same. Any other database is left to the
migrations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_OBJECTS = sa.text(
    "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "ORDER BY rowid"
)
_ANY_OBJECT = sa.text("SELECT 1 FROM sqlite_master LIMIT 1")
_HAS_REVISION = sa.text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")
_REVISIONS = sa.text("SELECT version_num FROM alembic_version")

_Files = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of a run on an empty database: tables, their rows, and then everything else."""

    files: _Files
    tables: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[Any, ...], ...]], ...]
    others: tuple[str, ...]


_KNOWN: dict[Path, _Outcome] = {}


def brought_up(connection: Connection, location: Path, run: Callable[[Connection], None]) -> bool:
    """Bring the schema behind ``connection`` to the newest revision of the migrations below ``location`` if that is
    possible without running them on it; return whether it was. ``run`` runs the migrations."""
    if connection.scalar(_ANY_OBJECT) is None:
        _replay(connection, _outcome_of(location, run))
        return True
    if connection.scalar(_HAS_REVISION) is None:
        return False
    return revisions_of(connection) == [newest_revision(location)]


def revisions_of(connection: Connection) -> list[str]:
    """The revisions that the schema behind ``connection`` states, one in a service's own; its table must exist."""
    return list(connection.scalars(_REVISIONS))


def newest_revision(location: Path) -> str:
    """The revision to which the migrations below ``location`` lead: the digits that the last file's name begins
    with."""
    return max(path.name.partition("_")[0] for path in (location / "versions").glob("[0-9]*_*.py"))


def _outcome_of(location: Path, run: Callable[[Connection], None]) -> _Outcome:
    files = _files_of(location)
    known = _KNOWN.get(location)
    if known is None or known.files != files:
        known = _KNOWN[location] = _made(files, run)
    return known


def _files_of(location: Path) -> _Files:
    """A fingerprint of the migration files: it changes when one is added or changed."""
    found = ((path.name, path.stat()) for path in (location / "versions").glob("*.py"))
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in found))


def _made(files: _Files, run: Callable[[Connection], None]) -> _Outcome:
    engine = sa.create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            run(connection)
            objects = [(kind, name, sql) for kind, name, sql in connection.execute(_OBJECTS)]
            names = [name for kind, name, _ in objects if kind == "table"]
            rows = [(name, _rows(connection, name)) for name in names]
            return _Outcome(
                files,
                tuple(sql for kind, _, sql in objects if kind == "table"),
                tuple((name, found) for name, found in rows if found),
                tuple(sql for kind, _, sql in objects if kind != "table"),
            )
    finally:
        engine.dispose()


def _rows(connection: Connection, table: str) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row) for row in connection.exec_driver_sql(f'SELECT * FROM "{table}"'))  # noqa: S608 - own names


def _replay(connection: Connection, outcome: _Outcome) -> None:
    for statement in outcome.tables:
        connection.exec_driver_sql(statement)
    for table, rows in outcome.rows:
        places = ", ".join("?" * len(rows[0]))
        for row in rows:
            connection.exec_driver_sql(f'INSERT INTO "{table}" VALUES ({places})', row)  # noqa: S608 - own names
    for statement in outcome.others:
        connection.exec_driver_sql(statement)
