"""The recipe server takes a series before its rounds, charges it once, and shows it as long as a round may be live."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from client_agent.series import Participation
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from recipe_server.store import RecipeStore
from tacit.codec import b64url
from tacit.ledger.account import ChargeState
from tacit.logview.live import LiveLog, charges_of
from tacit.logview.view import LogView
from tacit.recipe.charges import series_charge
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, Policy
from tacit.service.base.secret_files import write_secret
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tests.http.test_recipe_server import COLLECTOR, Server
from tests.unit.test_series_rules import altered

KIT = RecipeKit()
SERIES = KIT.series()
ROUNDS = [KIT.round(SERIES, index) for index in range(3)]
TOTAL = Decimal(SERIES.claim.epsilon["aggregator"])
ROLES = ("leader", "helper")


def policy(epsilon: Decimal | str) -> Policy:
    limit = AccountLimit(epsilon=f"{epsilon}", delta="0.00001", window_seconds=30 * 86_400)
    return KIT.policy.model_copy(update={"accounts": {"default": limit}})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start(policy=policy(TOTAL))
    await running.publish(KIT.directory_leaf())
    yield running
    await running.network.close()


def opt_ins(recipe: Recipe) -> list[SignedLeaf]:
    return [KIT.opt_in_leaf(recipe, role) for role in ROLES]


async def test_a_series_comes_before_its_rounds(server: Server) -> None:
    assert await server.refused(KIT.recipe_leaf(ROUNDS[0])) == "series-missing"
    (index,) = await server.publish(KIT.series_leaf(SERIES))
    assert json.loads((await server.post(KIT.series_leaf(SERIES))).body) == {"index": index}
    await server.publish(KIT.recipe_leaf(ROUNDS[0]), *opt_ins(ROUNDS[0]), KIT.recipe_leaf(ROUNDS[1]))
    log = await server.read(LogView(KIT.log_policy))
    assert [item.series for item in log.series] == [SERIES]
    assert [log.round_of(item.recipe) for item in log.recipes] == [SERIES, SERIES]


async def test_each_rule_of_a_round_is_checked_at_its_publication(server: Server) -> None:
    await server.publish(KIT.series_leaf(SERIES), KIT.recipe_leaf(ROUNDS[0]))
    again = KIT.round(SERIES, 0, "another input")
    assert await server.refused(KIT.recipe_leaf(again)) in {"series-round", "slot-taken"}
    odd = changed(ROUNDS[1], "question.text", "Something else?")
    assert await server.refused(KIT.recipe_leaf(odd)) == "series-mismatch"
    late = changed(ROUNDS[1], "interval.duration", 3_540)
    assert await server.refused(KIT.recipe_leaf(late)) == "series-donation"
    await server.publish(KIT.recipe_leaf(ROUNDS[1]))


async def test_the_slots_that_a_series_assigns_are_kept_for_its_rounds_until_it_is_over(server: Server) -> None:
    """Otherwise a recipe published between two rounds would end the series, which was charged in full."""
    stranger = KIT.recipe(name="stranger", slot=SERIES.token(1).slot)
    await server.publish(KIT.series_leaf(SERIES), KIT.recipe_leaf(ROUNDS[0]))
    assert stranger.token == SERIES.token(1)
    assert await server.refused(KIT.recipe_leaf(stranger)) == "slot-taken"
    await server.publish(KIT.recipe_leaf(ROUNDS[1]))


async def test_a_series_one_of_whose_slots_a_recipe_or_another_series_has_is_not_published(tmp_path: Path) -> None:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start(policy=policy(10 * TOTAL))
    await running.publish(KIT.directory_leaf(), KIT.recipe_leaf(KIT.recipe(name="first", slot=SERIES.token(2).slot)))
    assert await running.refused(KIT.series_leaf(SERIES)) == "slot-taken"
    short = KIT.series(rounds=2)
    await running.publish(KIT.series_leaf(short))
    assert await running.refused(KIT.series_leaf(KIT.series(rounds=2, name="second"))) == "slot-taken"
    await running.network.close()


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("claim.epsilon.aggregator", "0.5", "series-claim"),
        ("claim.delta", "0.000002", "series-claim"),
        ("interval.duration", 14_400, "series-donation"),
        ("template.batch.min_batch_size", 50, "batch-floor"),
        ("template.privacy.epsilon.aggregator", "0.1", "claim-understated"),
        ("template.privacy.account", "clinic", "account-unknown"),
        ("donation.window_seconds", 3_601, "interval-unaligned"),
        ("interval.start", NOW - 86_400, "interval-over"),
        ("template.parties.analyst.operator", "someone.example", "analyst-unknown"),
    ],
)
async def test_a_series_that_no_round_could_follow_is_not_published(
    server: Server, path: str, value: object, rule: str
) -> None:
    assert await server.refused(KIT.series_leaf(altered(SERIES, path, value))) == rule


async def test_a_series_must_be_signed_by_its_analyst_and_come_once(server: Server) -> None:
    forged = sign_leaf(LeafType.SERIES, SERIES.body(), "analyst.example", KIT.keys["leader"])
    assert await server.refused(forged) == "leaf-signature"
    renamed = sign_leaf(LeafType.SERIES, SERIES.body(), "someone.example", KIT.keys["analyst"])
    assert await server.refused(renamed) == "leaf-signature"
    broken = sign_leaf(LeafType.SERIES, {"version": 1}, "analyst.example", KIT.keys["analyst"])
    assert await server.refused(broken) == "leaf-malformed"


async def test_a_series_is_charged_once_and_its_rounds_fit_into_what_it_was_given(server: Server) -> None:
    await server.publish(KIT.series_leaf(SERIES))
    for recipe in ROUNDS:
        await server.publish(KIT.recipe_leaf(recipe), *opt_ins(recipe))
    alone = KIT.recipe(name="alone", slot=3)
    assert await server.refused(KIT.recipe_leaf(alone)) == "budget-spent"
    second = KIT.series(name="second")
    assert await server.refused(KIT.series_leaf(second)) == "budget-spent"
    store = RecipeStore(server.config(policy=policy(TOTAL)).database_url("recipe_server"))
    await store.open()
    async with store.read() as tx:
        charges = await tx.charges("default", server.clock.now())
    await store.close()
    assert charges == (series_charge(SERIES, ChargeState.ACTIVE),)
    log = await server.read(LogView(KIT.log_policy))
    assert tuple(charge for charge in charges_of(log, NOW) if charge.counts) == charges


@pytest.mark.parametrize("seed", range(3))
async def test_in_any_history_server_readers_and_devices_charge_the_same(tmp_path: Path, seed: int) -> None:
    """Leaves come in any order and some never, the clock goes on between them. What a device is charged for a recipe
    that it may answer is what the ledger says, for as long."""
    chance, running, logged = Random(seed), Server(tmp_path), list[SignedLeaf]()
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    await running.start(policy=policy("100"))
    await running.publish(KIT.directory_leaf(slots=8))
    single, free = KIT.recipe(name="single", slot=3), KIT.series(donation_slots=None, name="free", slot=4)
    recipes = [single, *ROUNDS, *(KIT.round(free, index) for index in range(3))]
    first = [KIT.series_leaf(one) for one in (SERIES, free)]
    ends = [KIT.series_end_leaf(one) for one in (SERIES, free)] if seed else []
    early = [leaf for recipe in recipes for leaf in (KIT.recipe_leaf(recipe), *opt_ins(recipe))]
    late = [KIT.void_leaf(recipe, role) for recipe in recipes for role in ROLES]
    played = [(leaf, 60) for leaf in first + chance.sample(early, len(early)) + chance.sample(early, 14)]
    played += [(leaf, 1_800) for leaf in chance.choices(early + 2 * late + ends, k=40)]
    store = RecipeStore(running.config(policy=policy("100")).database_url("recipe_server"))
    await store.open()
    for leaf, pause in played:
        if (await running.post(leaf)).status == 201 and leaf not in logged:
            logged.append(leaf)
        running.clock.jump(chance.choice((0, 0, pause)))
        now = running.clock.now()
        async with store.read() as tx:
            charges = await tx.charges("default", now)
        log = LiveLog.from_leaves(enumerate(logged))
        counted = {charge.recipe_hash: charge for charge in charges_of(log, now) if charge.counts}
        assert {charge.recipe_hash: charge for charge in charges if charge.counts} == counted
        for live in log.recipes:
            series = log.series_of(live.recipe)
            part = Participation(live.recipe, series)
            charge = counted.get(live.recipe.hash if part.series is None else part.series.hash)
            if live.opted_in and not live.is_void:
                assert charge is not None
                assert (part.cost, part.with_relay) == (charge.cost, charge.epsilon_with_relay)
                assert part.charged_until >= charge.end, "a device does not count on having seen every round"
    await store.close()
    await running.network.close()
    assert len(logged) > 12


async def test_a_series_of_which_nothing_was_released_gives_its_budget_back(server: Server) -> None:
    await server.publish(KIT.series_leaf(SERIES), KIT.recipe_leaf(ROUNDS[0]), *opt_ins(ROUNDS[0]))
    server.clock.jump(SERIES.interval.end - NOW)
    start = SERIES.interval.end
    later = KIT.series(name="later", start=start, slot=1)
    assert await server.refused(KIT.series_leaf(later)) == "budget-spent"
    await server.publish(KIT.void_leaf(ROUNDS[0], "leader"))
    assert await server.refused(KIT.series_leaf(later)) == "budget-spent"
    await server.publish(KIT.void_leaf(ROUNDS[0], "helper"))
    await server.publish(KIT.series_leaf(later))


async def test_bundles_show_a_series_as_long_as_a_round_may_be_live(server: Server) -> None:
    await server.publish(KIT.series_leaf(SERIES))
    grace = server.config().ended_seconds
    server.clock.jump(SERIES.interval.end + grace - 1 - NOW)
    found = await server.read(LogView(KIT.log_policy))
    assert [item.series for item in found.series] == [SERIES]
    server.clock.jump(1)
    found = await server.read(LogView(KIT.log_policy))
    assert found.series == ()
