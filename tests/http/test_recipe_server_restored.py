"""A recipe server on an older database would sign a second history of its log. It notices, and signs nothing."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from recipe_server.app import create_app
from tacit.adapters.databases.recovery import Recovery
from tacit.codec import b64url
from tacit.errors import Refusal, UsageError
from tacit.logview.view import LogView
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tests.http.test_recipe_server import COLLECTOR, KIT, URL, Server

OLDER = r"recipe_server\.mark: the database is older .* --accept-rollback"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start()
    await running.publish(KIT.directory_leaf())
    yield running
    await running.network.close()


async def stop(server: Server) -> Path:
    await server.network.unmount(URL)
    return server.folder / "recipe_server.sqlite3"


async def older(server: Server) -> tuple[Path, Path]:
    """The database of before a recipe was published, which is put in its place, and the newest one."""
    database = await stop(server)
    before, newest = server.folder / "before", server.folder / "newest"
    shutil.copy(database, before)
    await server.start()
    await server.publish(KIT.recipe_leaf(KIT.recipe()))
    shutil.copy(await stop(server), newest)
    shutil.copy(before, database)
    return before, newest


async def test_an_older_database_is_refused_and_the_newest_one_goes_on(server: Server) -> None:
    view = LogView(KIT.log_policy)
    _, newest = await older(server)
    for _ in range(2):
        with pytest.raises(UsageError, match=OLDER):
            await server.start()
    shutil.copy(newest, server.folder / "recipe_server.sqlite3")
    await server.start()
    assert [one.recipe.name for one in (await server.read(view)).recipes] == ["doctor-visits"]
    await server.publish(KIT.opt_in_leaf(KIT.recipe(), "leader"))
    assert (await server.read(view)).recipes[0].opt_ins.keys() == {"leader"}


async def test_nobody_can_accept_a_log_that_has_forgotten_entries(server: Server) -> None:
    await older(server)
    deps = ServiceEnv(server.clock, SeededEntropy(1), InProcessTransport(), background=False, recovery=Recovery.ACCEPT)
    with pytest.raises(UsageError, match="begin a new one with a new log_key"):
        create_app(server.config(), deps)


async def test_a_database_that_is_replaced_under_a_server_gets_no_leaf(server: Server) -> None:
    await server.publish(KIT.recipe_leaf(KIT.recipe()))
    with contextlib.closing(sqlite3.connect(server.folder / "recipe_server.sqlite3")) as database:
        database.execute("DELETE FROM tacit_marks WHERE shard >= 0")
        database.commit()
    before = (await server.get("/checkpoint")).body
    for _ in range(2):
        assert (await server.post(KIT.opt_in_leaf(KIT.recipe(), "leader"))).status == 503
    assert (await server.get("/checkpoint")).body == before


async def test_without_its_mark_a_reader_who_saw_more_notices_that_a_log_went_back(server: Server) -> None:
    view = LogView(KIT.log_policy)
    database = await stop(server)
    shutil.copy(database, server.folder / "before")
    await server.start()
    await server.publish(KIT.recipe_leaf(KIT.recipe()))
    await server.read(view)
    shutil.copy(server.folder / "before", await stop(server))
    (server.folder / "recipe_server.mark").unlink()
    with pytest.raises(UsageError, match="--new-mark"):
        await server.start()
    deps = ServiceEnv(server.clock, SeededEntropy(1), server.network, background=False, recovery=Recovery.NEW_MARK)
    server.app = create_app(server.config(), deps)
    await server.network.mount(URL, server.app)
    with pytest.raises(Refusal, match="log-rollback"):
        await server.read(view)
    await server.publish(KIT.recipe_leaf(KIT.recipe(name="another")))
    with pytest.raises(Refusal, match="log-split-view"):
        await server.read(view)
