"""What is offered to the log is refused by a rule, whatever it holds, and never an internal error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tacit.codec import b64url
from tacit.logview.view import LogView
from tacit.recipe.policy import AccountLimit
from tacit.service.base.secret_files import write_secret
from tests.hostile import odd_leaves, recipe_leaves
from tests.http.test_recipe_server import COLLECTOR, GOOD, KIT, Server

ACCOUNT = AccountLimit(epsilon="100", delta="0.0001", window_seconds=86_400)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start(policy=KIT.policy.model_copy(update={"accounts": {"default": ACCOUNT}}))
    yield running
    await running.network.close()


async def test_whatever_is_offered_to_the_log_is_refused_by_a_rule(server: Server) -> None:
    await server.publish(KIT.directory_leaf())
    leaves = recipe_leaves(KIT, GOOD)
    huge = [leaf for leaf in leaves if b'"999999999"' in leaf]
    assert huge, "claims that are no claims"
    for leaf in [*odd_leaves(KIT), *huge, *leaves[::5]]:
        response = await server.post(leaf)
        assert response.status in {201, 422}, (response.status, response.body, leaf[:300])
    found = await server.read(LogView(KIT.log_policy))
    assert found.unreadable == ()
