"""The collector against a real Leader and Helper: reports go in, a release comes out, once."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, AggregatorPair
from infra.lab.kit.bundles import ORIGIN
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.pan_private import SharedReports
from infra.lab.kit.recipes import RecipeKit, changed
from infra.lab.kit.reports import TaskKit, issuer_key
from infra.lab.kit.watched import TWO, WatchingKit
from services.collector.app import create_app
from services.collector.config import CollectorConfig
from tacit import media_types
from tacit.aggregator.keys import HpkeKey, write_hpke_key
from tacit.messages import Role
from tacit.panprivate.elgamal import PrivateKey
from tacit.recipe.derive import task_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.tlog.checkpoint import NoteKey
from tests.http.aggregator_pair import both_aggregators
from tests.http.stubs import ShownLog

COLLECTOR = "http://127.0.0.1:8010"
LOG = "http://127.0.0.1:8011"
HEADERS = {"Authorization": "Bearer operator-secret", "Content-Type": media_types.JSON}
KIT = RecipeKit(3)


@dataclass
class Stage:
    """Aggregators with the collector's recipe, and the collector."""

    pair: AggregatorPair
    recipe: Recipe
    config: CollectorConfig
    app: web.Application

    async def start(self) -> None:
        """Start the collector, or start it again on its database."""
        deps = ServiceEnv(self.pair.clock, SeededEntropy(5), self.pair.network, background=False)
        self.app = create_app(self.config, deps)
        await self.pair.inner.mount(COLLECTOR, self.app)

    async def step(self) -> None:
        for driver in self.app[DRIVERS]:
            await driver.step()
        await self.pair.work()

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        answer = await self.pair.inner.request(method, COLLECTOR + path, headers=HEADERS, body=raw)
        return answer.status, json.loads(answer.body)


def log_app(recipe: Recipe, cast: RecipeKit) -> web.Application:
    """A log with the recipe, its directory and both opt-ins."""
    leaves = [cast.recipe_leaf(recipe), cast.directory_leaf()]
    leaves += [cast.opt_in_leaf(recipe, role) for role in ("leader", "helper")]
    log = ShownLog(cast.keys["log"])
    log.add(*leaves)
    return log.app()


@asynccontextmanager
async def running(
    tmp_path: Path, recipe: Recipe, cast: RecipeKit = KIT, policy: Policy | None = None, **state_keys: PrivateKey
) -> AsyncIterator[Stage]:
    """Leader, helper, log and collector, running in memory."""
    task = task_of(recipe, issuer_key().token_key.spki)
    own = {Role[name.upper()]: key for name, key in state_keys.items()}
    kit = TaskKit(task, cast.key_pairs, cast.verify_key_seed, issuer_key(), own)
    write_hpke_key(tmp_path / "hpke.json", HpkeKey(cast.hpke_config(Role.COLLECTOR), cast.key_pairs[Role.COLLECTOR]))
    write_secret(tmp_path / "leader.token", COLLECTOR_TOKEN.encode())
    write_secret(tmp_path / "operator.token", b"operator-secret")
    config = CollectorConfig.model_validate(
        {
            "state_dir": tmp_path,
            "hpke_keys": [tmp_path / "hpke.json"],
            "leader_token": tmp_path / "leader.token",
            "operator_token": tmp_path / "operator.token",
            "log": {"url": LOG, "key": NoteKey(ORIGIN, cast.keys["log"].public).encode()},
            "policy": (policy or cast.policy).model_dump(),
        }
    )
    async with both_aggregators(kit, tmp_path) as pair:
        await pair.inner.mount(LOG, log_app(recipe, cast))
        found = Stage(pair, recipe, config, web.Application())
        await found.start()
        yield found


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with running(tmp_path, KIT.recipe()) as found:
        yield found


@pytest.fixture
async def selected(tmp_path: Path) -> AsyncIterator[Stage]:
    recipe = changed(changed(KIT.recipe(), "batch.mode", "leader_selected"), "batch.close", "at_B")
    async with running(tmp_path, recipe) as found:
        yield found


async def released(stage: Stage) -> Any:
    """The one result of a collection that is asked for before the interval ends. Raises ``AssertionError`` for none."""
    await stage.step()
    status, asked = await stage.call("POST", "/v1/collections", {"recipe_hash": stage.recipe.hash_text})
    assert status == 201, asked
    await stage.step()
    await stage.pair.end_interval()
    for _ in range(3):
        await stage.step()
        await stage.pair.clock.advance(60)
    _, row = await stage.call("GET", f"/v1/collections/{asked['id']}")
    assert row["state"] == "released", row
    _, document = await stage.call("GET", "/v1/results")
    (result,) = document["results"]
    return result


async def test_reports_come_out_as_one_release(stage: Stage) -> None:
    reports = stage.pair.kit.reports(1)
    size = stage.recipe.batch.min_batch_size
    assert await stage.pair.upload(reports.valid(number % 16) for number in range(size)) is None
    result = await released(stage)
    assert result["report_count"] == size
    assert [bucket["count"] for bucket in result["buckets"]] == [len(range(cell, size, 16)) for cell in range(16)]


async def collected(stage: Stage) -> Any:
    """The collection's row after some steps."""
    _, asked = await stage.call("POST", "/v1/collections", {"recipe_hash": stage.recipe.hash_text})
    for _ in range(4):
        await stage.step()
        await stage.pair.clock.advance(60)
    return (await stage.call("GET", f"/v1/collections/{asked['id']}"))[1]


async def test_a_collector_on_an_older_database_gets_the_same_release_with_a_later_date(
    stage: Stage, tmp_path: Path
) -> None:
    database, backup = tmp_path / "collector.sqlite3", tmp_path / "backup.sqlite3"
    reports = stage.pair.kit.reports(1)
    size = stage.recipe.batch.min_batch_size
    assert await stage.pair.upload(reports.valid(number % 16) for number in range(size)) is None
    await stage.pair.end_interval()
    await stage.pair.inner.unmount(COLLECTOR)
    shutil.copy(database, backup)
    await stage.start()
    row = await collected(stage)
    assert row["state"] == "released"
    _, before = await stage.call("GET", "/v1/results")
    await stage.pair.inner.unmount(COLLECTOR)
    shutil.copy(backup, database)
    await stage.start()
    assert (await stage.call("GET", "/v1/results"))[1] == {"results": [], "next": None}
    again = await collected(stage)
    assert (again["id"], again["state"]) == (row["id"], "released")
    (one,), (other,) = before["results"], (await stage.call("GET", "/v1/results"))[1]["results"]
    assert {name for name in one if one[name] != other[name]} == {"released_at"}


async def test_cells_that_devices_kept_encrypted_come_out_as_one_release(tmp_path: Path) -> None:
    cast = WatchingKit(3)
    recipe = cast.watched_recipe(TWO, "histogram", min_batch_size=50, population=500)
    policy = cast.default_policy.model_copy(update={"min_batch_size": 50})
    async with running(tmp_path, recipe, cast, policy, **cast.state_keys) as stage:
        reports = SharedReports(stage.pair.kit, 4)
        size = recipe.batch.min_batch_size
        cells = [[int(cell == number % 5) for cell in range(5)] for number in range(size)]
        assert await stage.pair.upload(map(reports.valid, cells)) is None
        result = await released(stage)
    assert [(bucket["label"], bucket["count"]) for bucket in result["buckets"]] == [
        (label, size // 5) for label in ("0", "1", "2", "3", "4+")
    ]


async def test_one_report_too_few_is_refused_with_the_aggregators_reason(stage: Stage) -> None:
    reports = stage.pair.kit.reports(2)
    size = stage.recipe.batch.min_batch_size - 1
    await stage.pair.upload(reports.valid(number % 16) for number in range(size))
    await stage.step()
    _, asked = await stage.call("POST", "/v1/collections", {"recipe_hash": stage.recipe.hash_text})
    await stage.pair.end_interval()
    for _ in range(3):
        await stage.step()
        await stage.pair.clock.advance(60)
    _, row = await stage.call("GET", f"/v1/collections/{asked['id']}")
    assert row["state"] == "refused"
    assert row["rule"].endswith("invalidBatchSize")
    assert "minimum of 200" in row["detail"]
    _, document = await stage.call("GET", "/v1/results")
    assert document == {"results": [], "next": None}


async def test_batches_are_released_as_soon_as_they_are_full(selected: Stage) -> None:
    reports = selected.pair.kit.reports(3)
    size = selected.recipe.batch.min_batch_size
    for number in range(2):
        await selected.pair.upload(reports.valid(cell % 16) for cell in range(size))
        await selected.step()
        await selected.call("POST", "/v1/collections", {"recipe_hash": selected.recipe.hash_text})
        for _ in range(4):
            await selected.step()
            await selected.pair.clock.advance(2)
        _, document = await selected.call("GET", "/v1/results")
        assert [result["batch"] for result in document["results"]] == list(range(number + 1))
    assert {result["report_count"] for result in document["results"]} == {size}
