"""Databases of commit 18a8d34a are opened, and become like new ones. Each is in ``databases_of_18a8d34a`` as that
commit left one of 2dcfcb7, with a row in every table. A table that changes without a migration differs here."""

from __future__ import annotations

import contextlib
import importlib
import re
import secrets
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from client_agent.store import SqlAgentStore
from tacit.adapters.databases.migrate import MARKER_TABLE, PROBE_TABLE
from tacit.adapters.databases.sql import engine_of, open_database
from tacit.adapters.databases.watermark import TABLE as MARKS_TABLE
from tests.unit.test_adapters_migrations import SCHEMAS

FOLDER = Path(__file__).with_name("databases_of_18a8d34a")
OWN = {MARKER_TABLE, PROBE_TABLE, "alembic_version"}
SLICE_NAME = re.compile(r"[a-z_]+_slice_[0-9]+")
"""The name of a partition, which is made and dropped without migrations."""
ANALYSTS = ("acme", "", "")
ADDED: dict[tuple[str, str], list[dict[str, object]]] = {
    ("recipe_server", "recipes"): [{"analyst": one} for one in ANALYSTS],
    ("recipe_server", "series"): [
        {"analyst": "beta", "signing_key": "s" * 43, "end_position": None, "shown_until": None}
    ],
    ("recipe_server", "results"): [{"number": number} for number in (0, 2, 1, 3)],
}
"""The columns that were added since, by service and table, and their values in the rows that were there, in the order
of ``contents``: the analysts that the leaves name, and results in the order of their publication."""
FUNCTIONS = """
    SELECT proname, prosrc, proconfig::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY proname
"""
STORED = """
    SELECT relname, attname, attstorage::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
    ORDER BY relname, attname
"""


def service_of(schema: str) -> str:
    return schema.removeprefix("services.").split(".")[0]


@pytest.fixture
def make_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], Awaitable[str]]:
    """Makes a database of a kind, runs a script in it, and returns its URL."""

    async def make(kind: str, script: str) -> str:
        if kind == "sqlite":
            path = tmp_path / f"{secrets.token_hex(4)}.sqlite3"
            path.touch(0o600)
            with contextlib.closing(sqlite3.connect(path)) as found:
                found.executescript(script)
            return f"sqlite+aiosqlite:///{path}"
        url: str = request.getfixturevalue("make_postgres_url")()
        engine = engine_of(url)
        async with engine.begin() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            await raw.execute(script or "SELECT")
        await engine.dispose()
        return url

    return make


def described(connection: sa.Connection) -> dict[str, Any]:
    """The whole schema: tables with columns in order, keys, indexes; and what only PostgreSQL has."""
    found = sa.inspect(connection)
    tables = {
        name: (
            [(column["name"], repr(column["type"]), column["nullable"], column["default"]) for column in columns],
            found.get_pk_constraint(name)["constrained_columns"],
            sorted(tuple(one["column_names"]) for one in found.get_unique_constraints(name)),
            sorted((str(one["name"]), one["column_names"], one["unique"]) for one in found.get_indexes(name)),
            sorted((one["constrained_columns"], one["referred_table"]) for one in found.get_foreign_keys(name)),
        )
        for name in found.get_table_names()
        if not SLICE_NAME.fullmatch(name) and (columns := found.get_columns(name))
    }
    if connection.dialect.name == "sqlite":
        return tables
    stored = [tuple(row) for row in connection.execute(sa.text(STORED)) if not SLICE_NAME.fullmatch(row.relname)]
    functions = [tuple(row) for row in connection.execute(sa.text(FUNCTIONS))]
    return tables | {"sequences": sorted(found.get_sequence_names()), "stored": stored, "functions": functions}


def contents(connection: sa.Connection) -> dict[str, list[dict[str, Any]]]:
    """The rows of every table, by column, in the order of their values."""
    found = {}
    for name in set(sa.inspect(connection).get_table_names()) - OWN:
        rows = connection.execute(sa.text(f'SELECT * FROM "{name}"')).mappings()  # noqa: S608 - its own name
        found[name] = sorted((dict(row) for row in rows), key=lambda row: [*map(repr, row.values())])
    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_database_of_18a8d34a_is_opened_with_its_rows_and_becomes_like_a_new_one(
    make_database: Callable[[str, str], Awaitable[str]], schema: str, kind: str
) -> None:
    module, service = importlib.import_module(schema), service_of(schema)
    url = await make_database(kind, (FOLDER / f"{service}.{kind}.sql").read_text())
    engine = engine_of(url)
    async with engine.connect() as connection:
        before = await connection.run_sync(contents)
    await engine.dispose()
    assert [name for name in module.METADATA.tables if before.get(name) == []] == [], "a row in each"
    for (owner, table), columns in ADDED.items():
        if owner == service:
            before[table] = [row | new for row, new in zip(before[table], columns, strict=True)]
    schemas, rows = [], []
    for one in (url, await make_database(kind, "")):
        database = await open_database(one, module.METADATA, module.MIGRATIONS)
        async with database.read() as connection:
            schemas.append(await connection.run_sync(described))
            rows.append(await connection.run_sync(contents))
        await database.close()
    assert schemas[0] == schemas[1]
    assert {name: rows[0][name] for name in before} == before


async def test_a_devices_file_of_18a8d34a_is_opened_with_its_rows_and_becomes_like_a_new_one(tmp_path: Path) -> None:
    def seen(path: Path) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
        engine = sa.create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:
            found = described(connection), contents(connection)
        engine.dispose()
        return found

    old, new = tmp_path / "old.sqlite3", tmp_path / "new.sqlite3"
    with contextlib.closing(sqlite3.connect(old)) as connection:
        connection.executescript((FOLDER / "client_agent.sqlite.sql").read_text())
    before = seen(old)
    for path in (old, new):
        await (await SqlAgentStore.open(path)).close()
    (tables, kept), without = seen(old), (PROBE_TABLE, MARKS_TABLE)
    assert seen(new)[0] == {name: table for name, table in tables.items() if name not in without}
    assert all(row.pop("analyst") == "" for row in kept["entries"]), "nobody recorded whose they were"
    assert kept == before[1]
    assert [name for name, rows in before[1].items() if not rows and name != MARKS_TABLE] == [], "a row in each"
    assert [row["token"] for row in before[1]["prefetches"]] == [
        row.token for row in await SqlAgentStore.look(old).prefetches()
    ]
