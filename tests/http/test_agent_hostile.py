"""Whatever one leaf, recipe, key or token holds, a device writes it down and goes on with the others (P30)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from client_agent.agent import Agent
from client_agent.journal import Fact, Prefetch, State, Trouble
from infra.lab.kit.recipes import EPOCH, VISITS
from tacit.errors import CryptoError, Unavailable
from tacit.ohttp import KeyConfig
from tacit.recipe.model import Question
from tacit.tlog.canonical import MAX_INTEGER
from tacit.tokens.slots import Slot
from tests.hostile import LOW_ORDER, odd_leaves, recipe_leaves
from tests.http.agent_world import ALWAYS, KIT, RARE, World, leaves_of, only, trouble

AT_ONCE = 48
"""Hostile recipes that fit into one answer of the log."""


def _categories(number: int, more: str = "") -> Question:
    labels = [f"value {position}{more}" for position in range(number)]
    return _asked({"kind": "categories", "categories": labels})


def _buckets(edges: Sequence[int]) -> Question:
    return _asked({"kind": "buckets", "edges": list(edges)})


def _asked(encoder: dict[str, Any]) -> Question:
    return Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": "histogram"})


async def _show(world: World, agent: Agent, leaves: Sequence[bytes]) -> None:
    """Have the log grow by ``leaves``, of which the device sees these alone, and the device look at it."""
    before = len(world.log.leaves)
    world.log.leaves += leaves
    world.log.hidden = set(range(before))
    world.clock.jump(1_000)
    await agent.step()


async def test_a_device_reads_past_every_hostile_leaf(world: World) -> None:
    """The one beside it in the same answer is acted upon, whether they come one by one or all at once."""
    agent, store = await world.device()
    hostile = odd_leaves(KIT)
    for number, strange in enumerate([[leaf] for leaf in hostile] + [hostile]):
        good = KIT.recipe(name=f"question-{number}", rate=RARE, min_batch_size=200)
        beside = [*strange, *(leaf.encode() for leaf in leaves_of(good))]
        if number == 0:
            beside.insert(0, KIT.directory_leaf().encode())
        await _show(world, agent, beside)
        assert {entry.name for entry in await store.entries()} >= {good.name}, strange[0][:300]
    assert (await trouble(store)).startswith("leaf-")
    assert all(not entry.detail.startswith("recipe-unusable") for entry in await store.entries())


async def test_a_device_meets_every_member_of_a_recipe_at_its_worst_and_goes_on(world: World) -> None:
    agent, store = await world.device()
    world.log.add(*leaves_of(ALWAYS))
    await agent.step()
    assert (await only(store)).state is State.SCHEDULED
    leaves = recipe_leaves(KIT, ALWAYS)
    assert len(leaves) > 300
    for begin in range(0, len(leaves), AT_ONCE):
        await _show(world, agent, leaves[begin : begin + AT_ONCE])
    entries = await store.entries()
    assert {entry.state for entry in entries} <= {State.SCHEDULED, State.REFUSED, State.SENT}
    assert not [entry.detail for entry in entries if "unexpected" in entry.detail or "recipe-unusable" in entry.detail]
    assert len(entries) > 100
    world.clock.jump(ALWAYS.interval.end - world.clock.now() - 1)
    await agent.send_due()
    assert len(world.uploads) == 1


@pytest.mark.parametrize(
    "error", [CryptoError("no"), KeyError("x"), RecursionError(), MemoryError(), ZeroDivisionError()]
)
@pytest.mark.parametrize("where", ["tacit.rules.table.check", "tacit.models.secure_aggregation.device.shard"])
async def test_what_nobody_foresaw_costs_the_one_recipe_that_holds_it(
    world: World, error: Exception, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent for it, its token is not spent, and the next one is decided about by the rules (which find that
    it is on the slot of the first)."""
    agent, store = await world.device()
    world.log.add(KIT.directory_leaf(), *leaves_of(ALWAYS))

    def broken(*_arguments: object, **_options: object) -> object:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(where, broken)
        await agent.step()
    entry = await only(store)
    assert (entry.state, entry.detail) == (State.REFUSED, f"recipe-unusable: {type(error).__name__}")
    assert bool(entry.charged_epsilon) is where.endswith("shard"), "charged once the coin was tossed"
    assert [row.usable for row in await store.prefetches() if row.slot.slot == 0] == [True]
    other = KIT.recipe(name="the-next-one", rate=1, min_batch_size=200)
    world.log.add(*leaves_of(other))
    world.clock.jump(1_000)
    await agent.step()
    assert {one.name: one.detail for one in await store.entries()}["the-next-one"].startswith("slot-taken")


async def test_a_report_that_cannot_be_sealed_for_now_is_kept_and_sent_later_with_the_same_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, store = await world.device()
    world.log.add(*leaves_of(ALWAYS))
    await agent.step()
    report = (await only(store)).report
    world.clock.jump((await only(store)).send_at - world.clock.now())

    def broken(*_arguments: object, **_options: object) -> object:
        raise CryptoError("the X25519 public key is of low order")

    with monkeypatch.context() as patch:
        patch.setattr("tacit.ohttp.encapsulate_request", broken)
        await agent.send_due()
        await agent.poll()
    entry = await only(store)
    assert (entry.state, entry.report, entry.attempts) == (State.SCHEDULED, report, 1)
    world.clock.jump(entry.send_at - world.clock.now())
    await agent.send_due()
    assert (await only(store)).state is State.SENT
    assert len(world.uploads) == 1


async def test_a_slot_whose_row_is_broken_says_so_and_holds_up_no_other(world: World) -> None:
    """Also one that was kept by an earlier run, and at the start."""
    world.log.add(KIT.directory_leaf())
    agent, store = await world.device()
    spki = KIT.directory().spki(1) or b""
    slot = Slot("issuer.example", EPOCH, 1)
    await store.put_prefetch(Prefetch(slot, 0.0, hashlib.sha256(spki).digest(), pending=b"no request"))
    await agent.step()
    found = Trouble.decode(await store.fact(Fact.TOKEN_TROUBLE))
    assert found is not None
    assert found.what.startswith(f"slot 1 of epoch {EPOCH}: ")
    for _ in range(20):
        world.clock.jump(4_000)
        await agent.prefetch()
    rows = {row.slot.slot: row for row in await store.prefetches()}
    assert rows[1].attempts > 1
    assert all(rows[number].attempts or rows[number].due_at == KIT.directory().end for number in (2, 3)), "were tried"


async def test_the_start_survives_gateway_keys_that_an_older_version_kept(world: World) -> None:
    _, store = await world.device()
    weak = KeyConfig(1, 0x20, LOW_ORDER, ((1, 1),)).encode()
    for kept in (hashlib.sha256(b"pin").digest() + b"\x00\x29" + weak, weak, b"\xff", b"{}"):
        await store.keep({Fact.GATEWAY_KEYS: kept})
        again = world.agent(store)
        await again.step()
        assert await trouble(store) == ""
    world.log.add(*leaves_of(ALWAYS))
    await world.agent(store).step()
    assert (await only(store)).state is State.SCHEDULED


async def test_a_full_disk_is_no_error_of_a_recipe(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, store = await world.device()
    world.log.add(*leaves_of(ALWAYS))

    async def full(*_arguments: object, **_options: object) -> bool:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "decide", full)
        with pytest.raises(Unavailable):
            await agent.step()
    assert await store.entries() == []
    await agent.consider()
    assert (await only(store)).state is State.SCHEDULED


AT_THE_LIMIT: dict[str, dict[str, Any]] = {
    "krr over a thousand": {"question": _categories(1_000), "randomizer": "krr"},
    "rappor over a thousand": {"question": _categories(1_000), "randomizer": "rappor", "epsilon": Decimal("0.9")},
    "long labels": {"question": _categories(24, "\u00e9" * 190)},
    "longest texts": {
        "name": "n" * 63,
        "question": VISITS.model_copy(update={"text": "\U0001f600" * 500, "metric": "\u202e" * 200}),
    },
    "widest buckets": {"question": _buckets((-MAX_INTEGER, 0, MAX_INTEGER))},
    "rare": {"rate": RARE},
    "largest B": {"population": 10**7, "min_batch_size": 10**7, "rate": Decimal(1)},
}


@pytest.mark.parametrize("what", AT_THE_LIMIT)
async def test_a_recipe_at_a_limit_goes_the_whole_way(world: World, what: str) -> None:
    recipe = KIT.recipe(**{"rate": Decimal(1), "min_batch_size": 200} | AT_THE_LIMIT[what])
    agent, store = await world.device(value="value 7" if "over" in what else 3)
    world.log.add(KIT.directory_leaf(), *leaves_of(recipe))
    await agent.step()
    entry = await only(store)
    assert entry.state is (State.NOT_SAMPLED if what == "rare" else State.SCHEDULED), entry.detail
    world.clock.jump(max(0.0, entry.send_at - world.clock.now()))
    await agent.send_due()
    assert len(world.uploads) == (what != "rare")
