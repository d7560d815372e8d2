"""Every service's migrations make exactly the tables that its code declares."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import sqlite3
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from tacit.adapters.databases.migrate import migrations_of
from tacit.adapters.databases.sql import open_database
from tacit.adapters.databases.sqlite_schema import newest_revision
from tacit.errors import UsageError
from tests.kit.migrations import assert_migrations_match

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
def test_migrations_make_the_declared_tables(schema: str) -> None:
    module = importlib.import_module(schema)
    assert_migrations_match(module.METADATA, module.MIGRATIONS)


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


def test_no_migrations_are_left_out() -> None:
    packages = [path.parent for path in ROOT.glob("*/__init__.py")]
    found = {path.parent.relative_to(ROOT) for package in packages for path in package.rglob("migrations/versions")}
    assert found == {Path(*importlib.import_module(schema).MIGRATIONS.split(".")) for schema in SCHEMAS}


async def test_a_leader_keeps_the_digests_of_requests_that_an_older_version_kept_whole(tmp_path: Path) -> None:
    file = tmp_path / "leader.sqlite3"
    url = f"sqlite+aiosqlite:///{file}"
    module = importlib.import_module("services.leader.schema")
    await (await open_database(url, module.METADATA, module.MIGRATIONS)).close()
    columns = [column.name for column in module.JOBS.columns]
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as found:
        found.execute("ALTER TABLE aggregation_jobs RENAME COLUMN digest TO request")
        found.execute("UPDATE alembic_version SET version_num = '0006'")
        for job_id, request in ((b"sent", b"bytes"), (b"formed", b"")):
            row = [{"job_id": job_id, "request": request}.get(name, b"") for name in [*columns[:-1], "request"]]
            found.execute(f"INSERT INTO aggregation_jobs VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    await (await open_database(url, module.METADATA, module.MIGRATIONS)).close()
    with contextlib.closing(sqlite3.connect(file)) as found:
        rows = dict(found.execute("SELECT job_id, digest FROM aggregation_jobs"))
    assert rows == {b"sent": hashlib.sha256(b"bytes").digest(), b"formed": b""}
