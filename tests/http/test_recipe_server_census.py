"""Censuses in the log: which shares are admitted, how long the bundle holds them, how much room they may take."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.recipes import CENSUS_ATTRIBUTES, RecipeKit
from tacit.codec import b64url
from tacit.logview.live import LiveLog
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView
from tacit.ohttp import SIZE_CLASSES
from tacit.service.base.secret_files import write_secret
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.pages import Head
from tests.http.test_recipe_server import COLLECTOR, Server

KIT = RecipeKit()
POLICY = KIT.policy.model_copy(update={"attributes": dict(CENSUS_ATTRIBUTES), "min_audience": 100})
CENSUS = KIT.census()
COUNTS = (400, 20, 20, 20, 20, 20)
LEADER, HELPER = (KIT.census_share_leaf(CENSUS, role, sum(COUNTS), COUNTS) for role in ("leader", "helper"))
ROLES = ("leader", "helper")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start(policy=POLICY)
    await running.publish(KIT.directory_leaf(), KIT.recipe_leaf(CENSUS))
    yield running
    await running.network.close()


async def refused(server: Server, leaf: SignedLeaf) -> str:
    answer = await server.post(leaf)
    assert answer.status == 422, answer.body
    return str(json.loads(answer.body)["type"]).removeprefix("urn:tacit:refusal:")


async def live(server: Server) -> LiveLog:
    return await server.read(LogView(KIT.log_policy), LeafSigners(POLICY))


async def over(server: Server) -> None:
    """Both opt in, and the census's interval passes."""
    await server.publish(*(KIT.opt_in_leaf(CENSUS, role) for role in ROLES))
    server.clock.jump(CENSUS.interval.end - server.clock.now())


def changed_leaf(signer: str = "leader.example", key: str = "leader", **members: object) -> SignedLeaf:
    return sign_leaf(LeafType.CENSUS_SHARE, {**LEADER.body, **members}, signer, KIT.keys[key])


async def test_a_share_is_admitted_once_from_each_aggregator_after_the_end(server: Server) -> None:
    assert await refused(server, LEADER) == "census-share-opt-in"
    await server.publish(*(KIT.opt_in_leaf(CENSUS, role) for role in ROLES))
    assert await refused(server, LEADER) == "census-share-early"
    server.clock.jump(CENSUS.interval.end - server.clock.now())
    assert await refused(server, changed_leaf("helper.example", "helper")) == "census-share-signer"
    assert await refused(server, changed_leaf(key="helper")) == "leaf-signature"
    assert await refused(server, changed_leaf(task_id=b64url(bytes(32)))) == "census-share-mismatch"
    assert await refused(server, changed_leaf(aggregate_share="AAAA")) == "leaf-malformed"
    assert await refused(server, changed_leaf(recipe_hash=b64url(bytes(32)))) == "census-share-recipe"
    assert (await server.post(LEADER)).status == 201
    assert (await live(server)).censuses == ()
    assert (await server.post(LEADER)).status == 200, "the same bytes again"
    assert await refused(server, changed_leaf(report_count=501)) == "census-share-exists"
    assert (await server.post(HELPER)).status == 201
    assert [one.recipe.hash for one in (await live(server)).censuses] == [CENSUS.hash]
    assert await refused(server, KIT.void_leaf(CENSUS, "leader")) == "void-released"


async def test_a_share_of_what_is_no_census_or_was_closed_without_a_release_is_refused(server: Server) -> None:
    other = KIT.recipe(slot=1)
    await server.publish(KIT.recipe_leaf(other), *(KIT.opt_in_leaf(other, role) for role in ROLES))
    await over(server)
    counts = [0] * len(other.question.encoder.edges)  # type: ignore[union-attr]
    assert await refused(server, KIT.census_share_leaf(other, "leader", 500, counts)) == "census-share-recipe"
    await server.publish(KIT.void_leaf(CENSUS, "leader"))
    assert await refused(server, LEADER) == "census-share-void"


async def test_a_targeted_recipe_needs_a_census_in_the_log_that_still_counts(server: Server) -> None:
    await over(server)
    begin = int(server.clock.now()) // 60 * 60
    in_german = KIT.recipe(name="in-german", slot=1, criteria={"locale": "de"}, start=begin)
    in_french = KIT.recipe(name="in-french", slot=2, criteria={"locale": "fr"}, start=begin)
    await server.publish(LEADER)
    assert await refused(server, KIT.recipe_leaf(in_german)) == "audience-floor"
    await server.publish(HELPER)
    assert await refused(server, KIT.recipe_leaf(in_french)) == "audience-floor"
    assert (await server.post(KIT.recipe_leaf(in_german))).status == 201
    server.clock.jump(POLICY.census_max_age_seconds - 1 - (server.clock.now() - CENSUS.interval.end))
    assert len((await live(server)).censuses) == 1, "long after the recipe itself left the bundle"
    server.clock.jump(2)
    assert (await live(server)).censuses == ()


async def test_censuses_that_count_take_bounded_room_together(server: Server, tmp_path: Path) -> None:
    values = tuple(f"v{number}" for number in range(33))
    largest = {"one": values, "two": values[:31]}
    policy = POLICY.model_copy(update={"attributes": largest})
    await server.start(policy=policy)
    censuses = [KIT.census(largest, name=f"census-{slot}", slot=slot) for slot in (1, 2)]
    assert (await server.post(KIT.recipe_leaf(censuses[0]))).status == 201
    assert await refused(server, KIT.recipe_leaf(censuses[1])) == "census-room"
    answer = await server.post(KIT.recipe_leaf(censuses[1]))
    assert "at most 1017 still fits, this one has 1024" in json.loads(answer.body)["detail"]
    await server.publish(*(KIT.opt_in_leaf(censuses[0], role) for role in ROLES))
    server.clock.jump(censuses[0].interval.end - server.clock.now())
    for role in ROLES:
        await server.publish(KIT.census_share_leaf(censuses[0], role, 1024, [1] * 1024))
    (digest,) = Head.decode((await server.get("/v1/bundle")).body).pages
    fetched = len((await server.get(f"/v1/bundle/{b64url(digest)}")).body)
    assert 2 * fetched < SIZE_CLASSES[-1], "two of this size fit one page"
