"""What analysts share, none of them takes whole: slots, room, accounts, censuses. The others' part is always left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import CENSUS_ATTRIBUTES, EPOCH, EPOCH_SECONDS, KEY_PERIOD, RecipeKit, changed
from recipe_server.store import RecipeStore
from tacit.codec import b64url
from tacit.logview.live import charges_of
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView
from tacit.recipe.charges import rightful
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, Policy
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.service.base.secret_files import write_secret
from tacit.signing import generate_signing_key
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.pages import encode_pages, entry_bytes
from tests.http.test_recipe_server import COLLECTOR, Server

KIT = RecipeKit()
OTHER, OTHER_KEY = "other.example", generate_signing_key(SeededEntropy(7))
FIRST = "analyst.example"
SLOTS = 8


def policy(*analysts: str, **changes: Any) -> Policy:
    keys = {FIRST: b64url(KIT.keys["analyst"].public), OTHER: b64url(OTHER_KEY.public)}
    named = {name: keys.get(name, keys[OTHER]) for name in analysts or keys}
    return KIT.policy.model_copy(update={"analysts": named, **changes})


def of_other(recipe: Recipe, **privacy: str) -> Recipe:
    """The same question, asked by the other analyst."""
    body = recipe.body()
    body["parties"]["analyst"] = {"operator": OTHER, "signing_key": b64url(OTHER_KEY.public)}
    body["privacy"] |= privacy
    return Recipe.from_body(body)


def leaf_of(recipe: Recipe) -> SignedLeaf:
    if recipe.parties.analyst.operator == OTHER:
        return sign_leaf(LeafType.RECIPE, recipe.body(), OTHER, OTHER_KEY)
    return KIT.recipe_leaf(recipe)


def asked(epoch: int, slot: int, name: str = "asked") -> Recipe:
    start = epoch * EPOCH_SECONDS + 3_600
    return KIT.recipe(name=f"{name}-{epoch}-{slot}", epoch=epoch, slot=slot, start=start)


def long_series(
    rounds: int, per_epoch: int, *, slot: int = 0, begin: int = EPOCH + 1, seconds: int = 3_600, name: str = "training"
) -> Series:
    """A series by donation of rounds that follow each other through whole epochs."""
    start = begin * EPOCH_SECONDS
    recipe = KIT.recipe(
        name=name, population=2_000, rate=Decimal(1), epoch=begin, slot=slot, start=start, duration=seconds
    )
    pause = EPOCH_SECONDS // per_epoch - seconds
    return propose_series(recipe, Shape(rounds, 3, start, seconds, per_epoch, pause))


def series_leaf(series: Series) -> SignedLeaf:
    return KIT.series_leaf(series)


def series_of_other(series: Series) -> SignedLeaf:
    body = series.body()
    body["template"]["parties"]["analyst"] = {"operator": OTHER, "signing_key": b64url(OTHER_KEY.public)}
    return sign_leaf(LeafType.SERIES, body, OTHER, OTHER_KEY)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start(policy=policy())
    await running.publish(*(KIT.directory_leaf(EPOCH + ahead, SLOTS) for ahead in range(2)))
    yield running
    await running.network.close()


async def restart(server: Server, changed: Policy) -> None:
    await server.network.unmount("http://127.0.0.1:8084")
    await server.start(policy=changed)


async def reach(server: Server, epoch: int) -> None:
    """Go on to the epoch before ``epoch``, whose directory is then published."""
    server.clock.jump((epoch - 1) * EPOCH_SECONDS + 7_200 - server.clock.now())
    await server.publish(KIT.directory_leaf(epoch, SLOTS))


async def taken(server: Server, epoch: int, name: str = "asked") -> int:
    """How many recipes of the other analyst the log takes in an epoch."""
    leaves = [leaf_of(of_other(asked(epoch, slot, name))) for slot in range(SLOTS)]
    return [(await server.post(leaf)).status for leaf in leaves].count(201)


async def test_an_analyst_has_half_of_an_epochs_slots_beside_another(server: Server) -> None:
    for slot in range(4):
        await server.publish(leaf_of(asked(EPOCH, slot)))
    assert await server.refused(leaf_of(asked(EPOCH, 4))) == "slot-share"
    await server.publish(leaf_of(asked(EPOCH + 1, 4)))
    assert await taken(server, EPOCH) == 4


async def test_a_single_analyst_has_all_slots_and_a_weight_moves_the_border(server: Server) -> None:
    await restart(server, policy(shares={OTHER: 3}))
    assert await taken(server, EPOCH) == 5
    await restart(server, policy(OTHER))
    assert await taken(server, EPOCH) == 3


async def test_a_series_for_a_year_that_asks_for_every_slot_is_refused_and_leaves_all_to_the_others(
    server: Server,
) -> None:
    assert await server.refused(series_leaf(long_series(2_912, 8))) == "slot-share"
    assert await taken(server, EPOCH + 1) == 4


async def test_a_series_within_the_share_of_its_analyst_leaves_the_others_theirs_for_as_long_as_it_lasts(
    server: Server,
) -> None:
    await server.publish(series_leaf(long_series(1_456, 4)))
    assert await server.refused(leaf_of(asked(EPOCH + 1, 7))) == "slot-share", "what is reserved counts"
    assert await server.refused(leaf_of(of_other(asked(EPOCH + 1, 0)))) == "slot-taken"
    for epoch in (EPOCH + 1, EPOCH + 3, EPOCH + 360):
        if epoch > EPOCH + 1:
            await reach(server, epoch)
        assert await taken(server, epoch) == 4


async def test_many_small_series_together_have_no_more_than_one_large_one(server: Server) -> None:
    answers = [await server.post(series_leaf(long_series(300, 1, slot=slot, name=f"s{slot}"))) for slot in range(SLOTS)]
    assert [answer.status for answer in answers] == [201] * 4 + [422] * 4
    assert await taken(server, EPOCH + 1) == 4


async def test_a_series_has_no_slots_that_its_issuer_does_not_have(server: Server) -> None:
    assert await server.refused(series_leaf(long_series(9_984, 240, seconds=300))) == "slot-key-missing"
    assert await server.refused(series_leaf(long_series(400, 4, slot=SLOTS))) == "slot-key-missing"
    assert await server.refused(series_leaf(long_series(4, 4, slot=SLOTS - 2))) == "slot-key-missing"


async def test_a_series_keeps_slots_for_a_bounded_number_of_epochs_ahead(server: Server) -> None:
    await restart(server, policy(reserved_epochs=2))
    await server.publish(series_leaf(long_series(400, 4)))
    near, far = (long_series(8, 4, begin=EPOCH + ahead, name=f"from-{ahead}") for ahead in (2, 3))
    assert await server.refused(series_of_other(near)) == "slot-taken"
    await server.publish(series_of_other(far))
    again = long_series(8, 4, begin=EPOCH + 50, name="again")
    assert await server.refused(series_leaf(again)) == "slot-taken", "an analyst does not meet itself"


async def test_without_its_key_in_the_policy_an_analyst_reserves_nothing(server: Server) -> None:
    series = long_series(1_456, 4)
    await server.publish(series_leaf(series), leaf_of(KIT.round(series, 0)))
    await restart(server, policy(OTHER))
    assert await taken(server, EPOCH + 1) == SLOTS - 1, "the round that was published keeps its slot"
    await restart(server, policy())
    await reach(server, EPOCH + 2)
    await server.publish(leaf_of(KIT.round(series, 4)))
    assert await taken(server, EPOCH + 2) == 4


async def test_an_analyst_that_is_added_gets_its_share_of_the_epochs_to_come(server: Server) -> None:
    """The series that had half of the slots keeps the first of them, up to its new share."""
    await server.publish(series_leaf(long_series(1_456, 4)))
    everybody = policy(FIRST, OTHER, "third.example")
    await restart(server, everybody)
    recipe = of_other(asked(EPOCH + 1, 2)).body()
    recipe["parties"]["analyst"]["operator"] = "third.example"
    third = Recipe.from_body(recipe)
    await server.publish(sign_leaf(LeafType.RECIPE, third.body(), "third.example", OTHER_KEY))
    assert await server.refused(leaf_of(of_other(asked(EPOCH + 1, 1)))) == "slot-taken"
    await server.publish(leaf_of(of_other(asked(EPOCH + 1, 3))))


async def fill(server: Server, leaves: Iterable[SignedLeaf]) -> int:
    """Publish leaves until the log has no room for the next one; returns how many it took."""
    for count, leaf in enumerate(leaves):
        answer = await server.post(leaf)
        if answer.status != 201:
            assert json.loads(answer.body)["type"] == "urn:tacit:refusal:log-room"
            return count
    raise AssertionError("the room was not filled")


async def test_whoever_fills_its_share_of_the_room_leaves_others_theirs_and_the_issuer_its_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First recipes of one analyst, then of the other, then void leaves: as many of each as may be."""
    monkeypatch.setattr("recipe_server.page_capacity.CAPACITY", 200_000)
    await restart(server, policy(shares={FIRST: 3}))
    epoch, slots = EPOCH + 2, 20
    server.clock.jump((epoch - 1) * EPOCH_SECONDS + 7_200 - server.clock.now())
    await server.publish(KIT.directory_leaf(epoch, slots))
    recipes = [asked(epoch, slot) for slot in range(slots)]
    first = await fill(server, map(leaf_of, recipes))
    other = await fill(server, (leaf_of(of_other(recipe)) for recipe in recipes[first:]))
    assert 2 <= other <= first // 2
    roles = ("leader", "helper")
    await server.publish(*(KIT.opt_in_leaf(recipe, role) for recipe in recipes[:first] for role in roles))
    server.clock.jump(recipes[0].interval.end - server.clock.now())
    voids = [KIT.void_leaf(recipe, role) for recipe in recipes[:first] for role in roles]
    sent = await fill(server, voids)
    await server.publish(KIT.directory_leaf(epoch + 1, SLOTS), KIT.ohttp_leaf(), KIT.ohttp_leaf(KEY_PERIOD + 1))
    pages = await server.bundle()
    assert sum(map(len, encode_pages(pages.entries))) < 200_000
    server.clock.jump(server.config().ended_seconds)
    await server.publish(*voids[sent : sent + 2])


async def test_a_year_long_series_of_an_analyst_without_a_key_takes_no_room_any_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = entry_bytes(len(series_leaf(long_series(300, 1)).encode()))
    monkeypatch.setattr("recipe_server.page_capacity.CAPACITY", 12 * size)
    series = [long_series(300, 1, slot=slot, name=f"s{slot}") for slot in range(SLOTS)]
    await restart(server, policy(FIRST))
    await server.publish(series_leaf(series[0]), leaf_of(KIT.round(series[0], 0)))
    count = 1 + await fill(server, map(series_leaf, series[1:]))
    assert count > 1
    await restart(server, policy(OTHER))
    shown = await server.read(LogView(KIT.log_policy))
    assert [item.series for item in shown.series] == [series[0]], "one of whose rounds is not over"
    await server.publish(*map(series_of_other, series[1:count]))


async def test_censuses_are_divided_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = policy(attributes=CENSUS_ATTRIBUTES, min_audience=100)
    census = KIT.census(slot=0)
    monkeypatch.setattr("recipe_server.admission.MAX_CENSUS_CELLS", 2 * census.randomizer.categories)
    await restart(server, allowed)
    await server.publish(leaf_of(census))
    assert await server.refused(leaf_of(changed(census, "token.slot", 1))) == "census-room"
    await server.publish(leaf_of(of_other(changed(census, "token.slot", 2))))
    await restart(server, allowed.model_copy(update={"analysts": policy(FIRST).analysts}))
    assert await server.refused(leaf_of(changed(census, "token.slot", 3))) == "census-room", "what counts still counts"


def account(*analysts: str) -> AccountLimit:
    return AccountLimit(epsilon="2", delta="0.00001", window_seconds=366 * 86_400, analysts=analysts or None)


async def test_nobody_empties_an_account_for_others(server: Server) -> None:
    """Each recipe costs .82: one fits into half of the account, and the whole would hold two."""
    await restart(server, policy(accounts={"default": account()}))
    await server.publish(leaf_of(asked(EPOCH, 0)))
    assert await server.refused(leaf_of(asked(EPOCH, 1))) == "budget-spent"
    await server.publish(leaf_of(of_other(asked(EPOCH, 1))))
    assert await server.refused(series_of_other(long_series(8, 4))) == "budget-spent"


async def test_an_account_is_charged_only_by_the_analysts_that_it_names(server: Server) -> None:
    own = {"default": account(FIRST), "theirs": account()}
    await restart(server, policy(accounts=own))
    assert await server.refused(leaf_of(of_other(asked(EPOCH, 0)))) == "account-analyst"
    assert await server.refused(series_of_other(long_series(8, 4))) == "account-analyst"
    await server.publish(leaf_of(asked(EPOCH, 0)), leaf_of(asked(EPOCH, 1)))
    await server.publish(leaf_of(of_other(asked(EPOCH, 2), account="theirs")))


async def test_what_an_analyst_without_the_right_has_pending_no_longer_counts_for_any_reader(server: Server) -> None:
    """What both aggregators opted in to goes on counting: it may have been released."""
    before = policy(accounts={"default": account()})
    await restart(server, before)
    active, pending = of_other(asked(EPOCH, 0)), asked(EPOCH, 1)
    await server.publish(leaf_of(active), leaf_of(pending))
    await server.publish(*(KIT.opt_in_leaf(active, role) for role in ("leader", "helper")))
    charged = {}
    for name in (FIRST, OTHER):
        after = policy(accounts={"default": account(name)})
        log = await server.read(LogView(KIT.log_policy), LeafSigners(after))
        counted = rightful(charges_of(log, server.clock.now()), after)
        charged[name] = {charge.recipe_hash for charge in counted}
        await restart(server, after)
        store = RecipeStore(server.config().database_url("recipe_server"))
        await store.open()
        async with store.read() as tx:
            assert set(rightful(await tx.charges("default", server.clock.now()), after)) == set(counted)
        await store.close()
    assert charged == {FIRST: {active.hash, pending.hash}, OTHER: {active.hash}}
