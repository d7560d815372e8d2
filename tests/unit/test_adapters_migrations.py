"""Every service's migrations are one line of revisions, and no others lead anywhere."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from tacit.adapters.databases.migrate import migrations_of, newest_revision
from tacit.adapters.databases.sql import open_database
from tacit.errors import Fatal, UsageError

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = (
    "attester.schema",
    "recipe_server.schema",
    "services.admin.storage.schema",
    "services.analyzer.schema",
    "services.shuffler.schema",
    "services.collector.schema",
    "services.gateway.store",
    "services.helper.schema",
    "services.issuer.schema",
    "services.leader.schema",
    "services.witness.schema",
)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_last_file_is_the_newest_revision_and_every_revision_has_one_before_it(schema: str) -> None:
    folder = migrations_of(importlib.import_module(schema).MIGRATIONS)
    chain = list(ScriptDirectory(folder).walk_revisions())
    assert newest_revision(folder) == chain[0].revision
    assert len(chain) == len(list((folder / "versions").glob("[0-9]*.py"))), "one line of revisions, and no other"


@pytest.mark.parametrize(
    ("revision", "words"),
    [("9999", "a newer version of Tacit .*9999.*; start that version"),
     ("0000", "an older version of Tacit .*0000.*; start one in between first")],
)  # fmt: skip
async def test_no_version_starts_on_a_database_from_which_no_migration_leads_on(
    tmp_path: Path, revision: str, words: str
) -> None:
    file = tmp_path / "service.sqlite3"
    url = f"sqlite+aiosqlite:///{file}"
    module = importlib.import_module("services.gateway.store")
    await (await open_database(url, module.METADATA, module.MIGRATIONS)).close()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as found:
        found.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        before = found.execute("SELECT * FROM sqlite_master").fetchall()
        with pytest.raises(UsageError, match=f"made by {words}"):
            await open_database(url, module.METADATA, module.MIGRATIONS)
        assert found.execute("SELECT * FROM sqlite_master").fetchall() == before


@pytest.mark.parametrize(("change", "number"), [("DELETE FROM", 0), ("INSERT INTO", 2)])
async def test_a_database_that_states_no_revision_or_two_is_left_alone(
    tmp_path: Path, change: str, number: int
) -> None:
    file = tmp_path / "service.sqlite3"
    module = importlib.import_module("services.gateway.store")
    await (await open_database(f"sqlite+aiosqlite:///{file}", module.METADATA, module.MIGRATIONS)).close()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as found:
        found.execute(f"{change} alembic_version" + (" VALUES ('other')" if number else ""))
        with pytest.raises(Fatal, match=f"states {number} revisions"):
            await open_database(f"sqlite+aiosqlite:///{file}", module.METADATA, module.MIGRATIONS)


def test_no_migrations_are_left_out() -> None:
    packages = [path.parent for path in ROOT.glob("*/__init__.py")]
    found = {path.parent.relative_to(ROOT) for package in packages for path in package.rglob("migrations/versions")}
    assert found == {Path(*importlib.import_module(schema).MIGRATIONS.split(".")) for schema in SCHEMAS}
