"""The recipe server keeps the shared ledger: never over, also when recipes come at the same moment; void leaves."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from infra.lab.kit.one_server import AnalyzerKit
from infra.lab.kit.recipes import NOW, RecipeKit, changed, with_sampling
from tacit.codec import b64url
from tacit.ledger.account import Account, ChargeState, Cost
from tacit.ledger.budget import fits
from tacit.logview.live import LiveLog, charges_of
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, Policy
from tacit.service.app import METRICS
from tacit.service.base.secret_files import write_secret
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import Void
from tests.http.test_recipe_server import COLLECTOR, Server

KIT = RecipeKit()
SLOTS = 8
RECIPES = [KIT.recipe(name=f"question-{slot}", slot=slot) for slot in range(SLOTS)]
COST = Cost(Decimal(RECIPES[0].privacy.epsilon["aggregator"]), Decimal(RECIPES[0].privacy.delta))
ROLES = ("leader", "helper")


def policy(epsilon: str, delta: str = "0.00001") -> Policy:
    limit = AccountLimit(epsilon=epsilon, delta=delta, window_seconds=30 * 86_400)
    return KIT.policy.model_copy(update={"accounts": {"default": limit}})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    yield running
    await running.network.close()


async def start(server: Server, epsilon: str, delta: str = "0.00001") -> None:
    await server.start(policy=policy(epsilon, delta))
    await server.publish(KIT.directory_leaf(slots=SLOTS))


async def activate(server: Server, recipe: Recipe) -> None:
    await server.publish(KIT.recipe_leaf(recipe), *(KIT.opt_in_leaf(recipe, role) for role in ROLES))


async def detail(server: Server, leaf: SignedLeaf) -> str:
    response = await server.post(leaf)
    assert response.status == 422
    return str(json.loads(response.body)["detail"])


async def test_a_recipe_over_budget_is_not_published(server: Server) -> None:
    await start(server, "1.5")
    await activate(server, RECIPES[0])
    assert await server.refused(KIT.recipe_leaf(RECIPES[1])) == "budget-spent"
    told = await detail(server, KIT.recipe_leaf(RECIPES[1]))
    assert "1 recipe in 30 days: epsilon 0.82" in told
    assert "of 1.5 at delta 0.00001 is spent" in told
    page = (await server.app[METRICS].page()).decode()
    (part,) = re.findall(r'tacit_ledger_spent_ratio\{account="default"\} (\S+)', page)
    assert float(part) == pytest.approx(float(COST.epsilon) / 1.5)
    assert "tacit_log_entries 4.0\n" in page
    fitting = Decimal(told.partition("at most epsilon ")[2].split()[0])
    smaller = KIT.recipe(name="smaller", slot=1, epsilon=fitting - Decimal("0.01"))
    await server.publish(KIT.recipe_leaf(smaller))


@pytest.mark.parametrize("epsilon", ["0.5", "2.1", "3.9"])
async def test_recipes_that_race_are_never_published_over_budget(server: Server, epsilon: str) -> None:
    await start(server, epsilon)
    answers = await asyncio.gather(*(server.post(KIT.recipe_leaf(recipe)) for recipe in RECIPES))
    published = [answer.status for answer in answers].count(201)
    assert {answer.status for answer in answers} <= {201, 422}
    account = Account("default", Decimal(epsilon), Decimal("0.00001"), 30 * 86_400)
    assert fits([COST] * published, account)
    assert not fits([COST] * (published + 1), account)
    assert published == int(Decimal(epsilon) / COST.epsilon)
    assert len((await server.json("/v1/recipes"))["recipes"]) == published


async def test_recipes_that_race_for_the_last_delta_are_never_published_over_it(server: Server) -> None:
    await start(server, "50", "0.0000035")
    answers = await asyncio.gather(*(server.post(KIT.recipe_leaf(recipe)) for recipe in RECIPES))
    assert [answer.status for answer in answers].count(201) == 3


async def test_an_account_that_is_not_the_operators_is_refused(server: Server) -> None:
    await start(server, "2")
    body = KIT.recipe(name="elsewhere", account="clinic")
    assert await server.refused(KIT.recipe_leaf(body)) == "account-unknown"


async def test_what_never_began_costs_nothing_once_it_is_over_and_cannot_begin_any_more(server: Server) -> None:
    await start(server, "1")
    await server.publish(KIT.recipe_leaf(RECIPES[0]), KIT.opt_in_leaf(RECIPES[0], "leader"))
    later = KIT.recipe(name="later", slot=1, start=RECIPES[0].interval.end)
    assert await server.refused(KIT.recipe_leaf(later)) == "budget-spent"
    server.clock.jump(RECIPES[0].interval.end - NOW)
    await server.publish(KIT.recipe_leaf(later))
    assert await server.refused(KIT.opt_in_leaf(RECIPES[0], "helper")) == "opt-in-late"


async def test_a_void_recipe_gives_its_budget_back_when_both_have_said_so(server: Server) -> None:
    await start(server, "1")
    recipe = RECIPES[0]
    await activate(server, recipe)
    view = LogView(KIT.log_policy)
    await server.read(view)
    server.clock.jump(recipe.interval.end - NOW)
    later = KIT.recipe_leaf(KIT.recipe(name="later", slot=1, start=recipe.interval.end))
    assert await server.refused(later) == "budget-spent"
    await server.publish(KIT.void_leaf(recipe, "leader"))
    assert await server.refused(later) == "budget-spent", "the helper may have released"
    await server.publish(KIT.void_leaf(recipe, "helper"))
    await server.publish(later)
    log = await whole(server, view)
    states = [charge.state for charge in charges_of(log, server.clock.now())]
    assert states == [ChargeState.VOID, ChargeState.PENDING]
    result = {"recipe_hash": recipe.hash_text, "batch_id": "", "buckets": []}
    answer = await server.result(json.dumps(result).encode())
    assert (answer.status, json.loads(answer.body)["type"]) == (422, "urn:tacit:refusal:result-void")


async def test_a_recipe_in_which_answers_decide_who_sends_gives_nothing_back(server: Server) -> None:
    crowd = KIT.recipe(population=20_000, epsilon=Decimal("0.6"))
    recipe = with_sampling(crowd, importance={"default": 0, "default_rate": "0.4"})
    await start(server, "1")
    await activate(server, recipe)
    server.clock.jump(recipe.interval.end - NOW)
    await server.publish(*(KIT.void_leaf(recipe, role) for role in ROLES))
    later = KIT.recipe_leaf(KIT.recipe(name="later", slot=1, start=recipe.interval.end))
    assert await server.refused(later) == "budget-spent", "or it could be asked again and again for nothing"


async def whole(server: Server, view: LogView) -> LiveLog:
    """The log as a reader sees it who keeps what it read."""
    known = [KIT.recipe_leaf(RECIPES[0])]
    return await server.read(view, LeafSigners(KIT.policy, known))


async def test_an_analyzer_cannot_void_its_way_to_a_new_account(server: Server) -> None:
    """It has opened every report; were a void leaf of its own a refund, it could ask without end."""
    kit = AnalyzerKit()
    first = kit.single_recipe()
    second = changed(changed(first, "token.slot", 1), "name", "again")
    epsilon = Decimal(first.privacy.epsilon["analyzer"])
    limit = AccountLimit(epsilon=f"{epsilon}", delta="0.00001", window_seconds=30 * 86_400)
    await server.start(policy=kit.policy.model_copy(update={"accounts": {"default": limit}}))
    await server.publish(kit.directory_leaf(slots=SLOTS), kit.recipe_leaf(first), kit.analyzer_opt_in(first))
    assert await server.refused(kit.recipe_leaf(second)) == "budget-spent"
    server.clock.jump(first.interval.end - NOW)
    await server.publish(kit.analyzer_void(first))
    later = changed(second, "interval.start", first.interval.end)
    assert await server.refused(kit.recipe_leaf(later)) == "budget-spent"


async def test_void_leaves_stay_in_the_bundle_for_a_while(server: Server) -> None:
    await start(server, "9")
    recipe = RECIPES[0]
    await activate(server, recipe)
    server.clock.jump(recipe.interval.end - NOW + 9 * 86_400)
    await server.publish(*(KIT.void_leaf(recipe, role) for role in ROLES))

    async def voids() -> int:
        leaves = [SignedLeaf.decode(entry.leaf) for entry in (await server.bundle()).entries]
        return sum(leaf.type is LeafType.VOID for leaf in leaves)

    assert await voids() == 2
    server.clock.jump(3600)
    assert await voids() == 0


async def test_void_leaves_come_from_the_recipes_aggregators_in_their_time(server: Server) -> None:
    await start(server, "9")
    recipe, released = RECIPES[:2]
    assert await server.refused(KIT.void_leaf(recipe, "leader")) == "void-recipe"
    await server.publish(KIT.recipe_leaf(recipe))
    await activate(server, released)
    assert await server.refused(KIT.void_leaf(recipe, "leader")) == "void-opt-in"
    await server.publish(*(KIT.opt_in_leaf(recipe, role) for role in ROLES))
    assert await server.refused(KIT.void_leaf(recipe, "leader")) == "void-early"
    server.clock.jump(recipe.interval.end - NOW)
    body = KIT.void_leaf(recipe, "leader").body_as(Void)
    other = body.model_copy(update={"task_id": b64url(bytes(32))})
    for leaf, rule in (
        (sign_leaf(LeafType.VOID, body, "helper.example", KIT.keys["helper"]), "void-signer"),
        (sign_leaf(LeafType.VOID, body, "leader.example", KIT.keys["helper"]), "leaf-signature"),
        (sign_leaf(LeafType.VOID, other, "leader.example", KIT.keys["leader"]), "void-mismatch"),
        (sign_leaf(LeafType.VOID, {}, "leader.example", KIT.keys["leader"]), "leaf-malformed"),
    ):
        assert await server.refused(leaf) == rule
    result = {"recipe_hash": released.hash_text, "batch_id": "", "buckets": []}
    assert (await server.result(json.dumps(result).encode())).status == 201
    assert await server.refused(KIT.void_leaf(released, "leader")) == "void-released"
    await server.publish(KIT.void_leaf(recipe, "leader"))
    again = await server.post(KIT.void_leaf(recipe, "leader"))
    assert again.status == 200
