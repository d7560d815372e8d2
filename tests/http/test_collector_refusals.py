"""What the collector refuses, of the Leader, of the log and of its operator, and the reason it keeps."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit, changed
from services.collector.app import create_app, make_transport
from tacit import media_types
from tacit.codec import b64url
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import DAP_ERROR_PREFIX, Refusal, UsageError
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.tlog.log import MemoryTree
from tests.http.collector_stage import COLLECTOR, COUNTS, JSON, KIT, OPERATOR, Stage, publish_recipe, write_secrets


@pytest.mark.parametrize(
    ("refusal", "rule"),
    [
        (
            DapAbort(DapProblem.INVALID_BATCH_SIZE, "199 reports are fewer than 200"),
            DAP_ERROR_PREFIX + "invalidBatchSize",
        ),
        (DapAbort(DapProblem.BATCH_OVERLAP, "collected before"), DAP_ERROR_PREFIX + "batchOverlap"),
        (Refusal("rate", "more reports than the recipe expects"), "urn:tacit:refusal:rate"),
    ],
)
@pytest.mark.parametrize("when", ["create", "poll"])
async def test_what_the_leader_refuses_is_kept_with_its_reason(
    stage: Stage, refusal: DapAbort | Refusal, rule: str, when: str
) -> None:
    asked = await stage.ask()
    if when == "poll":
        await stage.step()
        stage.clock.jump(7)
    stage.leader.refuse = refusal
    assert await stage.step() == 1
    row = await stage.show(asked["id"])
    assert (row["state"], row["rule"]) == ("refused", rule)
    assert row["detail"] == refusal.detail
    answer, document = await stage.call("GET", f"/v1/results/{stage.recipe.hash_text}")
    assert answer.status == 404
    assert "no batch" in document["detail"]
    assert await stage.step() == 0


async def test_a_refused_collection_can_be_asked_for_again(stage: Stage) -> None:
    asked = await stage.ask()
    stage.leader.refuse = DapAbort(DapProblem.INVALID_BATCH_SIZE, "too few")
    await stage.step()
    stage.leader.refuse, stage.leader.ready = None, True
    again = await stage.ask()
    assert (again["id"], again["state"], again["status"]) == (asked["id"], "requested", 200)
    assert "rule" not in again
    await stage.step()
    stage.clock.jump(7)
    await stage.step()
    assert (await stage.show(asked["id"]))["state"] == "released"
    assert len(set(stage.leader.requests)) == 1


async def test_a_task_that_the_leader_does_not_serve_yet_is_tried_again(stage: Stage) -> None:
    asked = await stage.ask()
    stage.leader.refuse = DapAbort(DapProblem.UNRECOGNIZED_TASK)
    for delay in (1, 2, 4):
        assert await stage.step() == 0
        assert await stage.step() == 0
        stage.clock.jump(1.5 * delay)
    assert len(stage.leader.requests) == 3
    assert (await stage.show(asked["id"]))["rule"].endswith("unrecognizedTask")
    stage.leader.refuse = None
    assert await stage.step() == 1
    assert "rule" not in await stage.show(asked["id"])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"count": 199}, "collection-size"),
        ({"values": [*COUNTS[:-1], COUNTS[-1] + 1]}, "collection-values"),
        ({"answer": b"\x00" * 40}, "collection-malformed"),
    ],
)
async def test_an_answer_that_does_not_add_up_is_refused(stage: Stage, change: dict[str, Any], rule: str) -> None:
    for name, value in change.items():
        setattr(stage.leader, name, value)
    asked = await stage.ask()
    await stage.step()
    stage.leader.ready = True
    stage.clock.jump(7)
    await stage.step()
    assert (await stage.show(asked["id"]))["rule"] == rule


async def test_shares_sealed_for_another_request_are_refused(stage: Stage) -> None:
    asked = await stage.ask()
    await stage.step()
    stage.leader.answer = stage.leader.response(b"another request")
    stage.leader.ready = True
    stage.clock.jump(7)
    await stage.step()
    row = await stage.show(asked["id"])
    assert row["rule"] == "collection-sealed"
    assert "leader" in row["detail"]


async def test_recipes_are_listed_with_what_keeps_them_from_being_collected(stage: Stage) -> None:
    other = KIT.recipe(name="not-opted-in", slot=1)
    stage.log.add(KIT.recipe_leaf(other))
    assert await stage.driver("Recipes").step() == 5
    assert await stage.driver("Recipes").step() == 0
    _, document = await stage.call("GET", "/v1/recipes")
    assert document["recipes"] == [
        {"recipe_hash": stage.recipe.hash_text, "name": "doctor-visits", "state": "active"},
        {
            "recipe_hash": other.hash_text,
            "name": "not-opted-in",
            "state": "refused",
            "rule": "opt-in-missing",
            "detail": document["recipes"][1]["detail"],
        },
    ]
    answer, problem = await stage.call("POST", "/v1/collections", {"recipe_hash": other.hash_text})
    assert (answer.status, problem["type"]) == (422, "urn:tacit:refusal:opt-in-missing")
    stage.log.add(KIT.opt_in_leaf(other, "leader"), KIT.opt_in_leaf(other, "helper"))
    assert await stage.driver("Recipes").step() == 2
    assert (await stage.ask(other))["status"] == 201


async def test_what_came_last_in_an_account_that_is_over_is_not_collected(tmp_path: Path) -> None:
    """An account holds what came first in the log, whatever leader, helper and recipe server let in after it."""
    first, second, third = (KIT.recipe(name=name, slot=slot) for slot, name in enumerate(("one", "two", "three")))
    claim = Decimal(first.privacy.epsilon["aggregator"])
    limit = {"epsilon": f"{claim * 2:f}", "delta": "0.00001", "window_seconds": 30 * 86_400}
    write_secrets(tmp_path)
    stage = Stage(tmp_path, first, policy={**KIT.policy.model_dump(), "accounts": {"default": limit}})
    for recipe in (first, second):
        publish_recipe(stage, recipe)
    await stage.start()
    try:
        assert await judged(stage) == [("one", None), ("two", None)]
        publish_recipe(stage, third)
        await stage.driver("Recipes").step()
        assert await judged(stage) == [("one", None), ("two", None), ("three", "budget-spent")]
    finally:
        await stage.inner.close()


async def judged(stage: Stage) -> list[tuple[str, str | None]]:
    """The recipes of the log, each with the rule that refuses it."""
    await stage.driver("Recipes").step()
    _, document = await stage.call("GET", "/v1/recipes")
    return [(one["name"], one.get("rule")) for one in document["recipes"]]


async def test_a_recipe_for_another_collector_is_refused(stage: Stage) -> None:
    foreign = RecipeKit(7).parties().collector.hpke_config
    recipe = changed(KIT.recipe(slot=2), "parties.collector.hpke_config", foreign)
    publish_recipe(stage, recipe)
    answer, problem = await stage.call("POST", "/v1/collections", {"recipe_hash": recipe.hash_text})
    assert (answer.status, problem["type"]) == (422, "urn:tacit:refusal:own-hpke-key")


async def test_a_recipe_that_the_log_does_not_show_is_not_found(stage: Stage) -> None:
    answer, problem = await stage.call("POST", "/v1/collections", {"recipe_hash": b64url(bytes(32))})
    assert (answer.status, problem["status"]) == (404, 404)


async def test_a_log_that_rewrites_its_history_is_never_believed_again(stage: Stage) -> None:
    await stage.driver("Recipes").step()
    stage.log.tree = MemoryTree([leaf + b" " for leaf in stage.log.tree.entries])
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            await stage.driver("Recipes").step()
        assert refused.value.rule == "log-split-view"
        await stage.start()
    assert (await stage.ask())["status"] == 201


@pytest.mark.parametrize(
    "headers",
    [JSON, {**JSON, "Authorization": "Bearer wrong"}, {**JSON, "Authorization": "Basic operator-secret"}],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/collections"),
        ("GET", "/v1/collections"),
        ("GET", "/v1/collections/x"),
        ("GET", "/v1/results"),
        ("GET", "/v1/results/x"),
        ("GET", "/v1/recipes"),
    ],
)
async def test_every_resource_wants_the_operators_token(
    stage: Stage, method: str, path: str, headers: dict[str, str]
) -> None:
    answer, _ = await stage.call(method, path, headers=headers)
    assert answer.status == 401


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"recipe_hash": 1}',
        b'{"recipe_hash": "AA"}',
        b'{"recipe_hash": "!"}',
        b'{"recipe_hash": "AA", "x": 1}',
        b"\xff",
        b"[" * 20_000,
    ],
)
async def test_a_malformed_request_is_a_problem_document(stage: Stage, body: bytes) -> None:
    headers = {**JSON, **OPERATOR}
    answer = await stage.inner.request("POST", COLLECTOR + "/v1/collections", headers=headers, body=body)
    assert answer.status == 400
    assert answer.headers["content-type"] == media_types.PROBLEM_JSON


async def test_unknown_collections_and_large_bodies_are_refused(stage: Stage) -> None:
    answer, _ = await stage.call("GET", "/v1/collections/nothing")
    assert answer.status == 404
    answer, _ = await stage.call("POST", "/v1/collections", {"recipe_hash": "A" * 70_000})
    assert answer.status == 413


async def test_configuration_errors_are_found_at_start(stage: Stage) -> None:
    deps = ServiceEnv(stage.clock, SeededEntropy(3), stage.network, background=False)
    log = stage.config().log.model_dump()
    with pytest.raises(UsageError, match="https"):
        create_app(stage.config(log={**log, "url": "http://log.example"}), deps)
    with pytest.raises(UsageError, match="token"):
        create_app(stage.config(leader_token=stage.folder / "no.token"), deps)
    write_secret(stage.folder / "bad.token", b"\xff\xfe")
    with pytest.raises(UsageError, match="ASCII"):
        create_app(stage.config(leader_token=stage.folder / "bad.token"), deps)
    unpinned = {**KIT.policy.model_dump(), "aggregators": None}
    with pytest.raises(UsageError, match=r"policy\.aggregators is missing: add"):
        create_app(stage.config(policy=unpinned), deps)
    await make_transport(stage.config()).close()
