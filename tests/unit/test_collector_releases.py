"""The order in which a collector released, of a database that did not keep it."""

from __future__ import annotations

import json
from pathlib import Path

import sqlalchemy as sa
from alembic import command

from services.collector.records import Result
from services.collector.releases import Releases
from services.collector.schema import METADATA, MIGRATIONS
from services.collector.store import CollectorStore
from tacit.adapters.migrate import migration_config


async def test_releases_of_an_older_database_stand_in_the_order_of_their_times(tmp_path: Path) -> None:
    path = tmp_path / "collector.sqlite3"
    times = {"a": 30.5, "b": 10.0, "c": 20}
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = migration_config(MIGRATIONS)
        config.attributes |= {"connection": connection, "metadata": METADATA}
        command.upgrade(config, "0001")
        for name, at in times.items():
            row = {"collection": name, "hash": name.encode(), "document": json.dumps({"released_at": at})}
            text = "INSERT INTO results VALUES (:collection, :hash, 0, :document, 0)"
            connection.execute(sa.text(text), row)
    engine.dispose()
    path.chmod(0o600)
    store = CollectorStore(f"sqlite+aiosqlite:///{path}")
    await store.open()
    async with store.transaction() as tx:
        await tx.add_result(Result("0", b"0", 0, '{"released_at": 5}'))
    found, following = await Releases(store).page(0, 9)
    assert ([one["released_at"] for one in found], following) == ([10.0, 20, 30.5, 5], None)
    await store.close()
