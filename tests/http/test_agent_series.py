"""A device and a series: charged once, drawn for once, and with donation in one round at most."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from scipy import stats

from client_agent.agent import Agent
from client_agent.config import Budget
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.device_rules import spent_epsilon
from client_agent.journal import AgentStore, Entry, MemoryAgentStore, Prefetch, SeriesDraw, State
from client_agent.series import Participation
from client_agent.store import SqlAgentStore
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW
from infra.lab.kit.reports import issuer_key, token_source
from tacit.dp.donation import slot_share, yield_of
from tacit.recipe.model import Recipe, TokenSlot
from tacit.recipe.series import Series
from tacit.tokens.slots import Slot
from tests.http.agent_world import ENTROPY, KIT, Device, World, leaves_of

DEVICES = 24
TOKEN = token_source(issuer_key(), ENTROPY)(Slot("issuer.example", 0, 0))


@functools.cache
def donated() -> Series:
    return KIT.series()


@functools.cache
def independent() -> Series:
    return KIT.series(donation_slots=None, name="survey")


async def hold_tokens(store: AgentStore, series: Series) -> None:
    """Prefetched tokens of every round, under the keys of the log's directory."""
    for index in range(series.rounds):
        await hold_token(store, series.token(index))


async def hold_token(store: AgentStore, token: TokenSlot) -> None:
    """A prefetched token of a slot."""
    key_id = hashlib.sha256(KIT.directory().spki(token.slot) or b"").digest()
    secrets = TOKEN.preimages.r_leader + TOKEN.preimages.r_helper
    slot = Slot(token.issuer, token.epoch, token.slot)
    await store.put_prefetch(Prefetch(slot, float(NOW), key_id, preimages=secrets, token=TOKEN.token))


async def device(world: World, series: Series, **options: Any) -> tuple[Agent, MemoryAgentStore]:
    store = MemoryAgentStore()
    await hold_tokens(store, series)
    return world.agent(store, **options), store


def charged(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(entry.charged_epsilon, entry.charged_delta) for entry in entries if entry.charged_epsilon]


async def run_rounds(world: World, series: Series, agents: list[Agent]) -> list[Recipe]:
    """Every round is published in turn, when the one before it is over, and every agent does what is due."""
    world.log.add(KIT.series_leaf(series))
    rounds = [KIT.round(series, index) for index in range(series.rounds)]
    for recipe in rounds:
        world.clock.jump(recipe.interval.start - world.clock.now())
        world.publish_keys()
        world.log.add(*leaves_of(recipe))
        for agent in agents:
            await agent.sync()
            await agent.consider()
        world.clock.jump(recipe.interval.end - 1 - world.clock.now())
        for agent in agents:
            await agent.send_due()
    return rounds


async def test_devices_take_part_in_one_round_at_most_and_are_charged_once(world: World) -> None:
    made = [await device(world, donated()) for _ in range(DEVICES)]
    rounds = await run_rounds(world, donated(), [agent for agent, _ in made])
    sent = 0
    for _, store in made:
        entries = await store.entries()
        assert [entry.recipe_hash for entry in entries] == [recipe.hash for recipe in rounds]
        states = Counter(entry.state for entry in entries)
        assert states[State.SENT] <= 1
        assert states[State.SENT] + states[State.NOT_SAMPLED] == 3
        assert charged(entries) == [(donated().claim.epsilon["aggregator"], donated().claim.delta)]
        assert [one.charged_until for one in entries if one.charged_epsilon] == [donated().interval.end]
        draw = await store.draw(donated().hash)
        assert draw is not None
        assert draw.first_round == 0
        assert [entry.series_index for entry in entries if entry.state is State.SENT] == [
            index for index in (draw.chosen_round,) if index is not None
        ]
        named = "no round" if draw.chosen_round is None else f"round {draw.chosen_round}"
        said = {entry.detail for entry in entries if entry.state is State.NOT_SAMPLED}
        assert said == {f"the draw for this series named {named}"}
        sent += states[State.SENT]
    assert 0 < sent < DEVICES
    assert len(world.uploads) == sent


@pytest.mark.slow
async def test_without_donation_every_round_has_a_coin_of_its_own_and_one_charge(world: World) -> None:
    made = [await device(world, independent()) for _ in range(DEVICES)]
    await run_rounds(world, independent(), [agent for agent, _ in made])
    numbers: Counter[int] = Counter()
    for _, store in made:
        entries = await store.entries()
        numbers[sum(entry.state is State.SENT for entry in entries)] += 1
        assert charged(entries) == [(independent().claim.epsilon["aggregator"], independent().claim.delta)]
    assert sum(numbers[several] for several in (2, 3)) > 0, "0.5 in each of 3 rounds: more than once is usual"


def draws(series: Series, count: int, first: int = 0, seed: int = 1) -> Counter[int | None]:
    """Which round devices draw that are first eligible in round ``first``."""
    entropy = SeededEntropy(seed).child("draws")
    recipe = KIT.round(series, first)
    found: Counter[int | None] = Counter()
    for _ in range(count):
        chosen, draw = Participation(recipe, series).choice(entropy, 0.0)
        assert draw is not None
        assert chosen == (draw.chosen_round == first)
        found[draw.chosen_round] += 1
    return found


@pytest.mark.false_alarm(1e-7, "chi-square")
@pytest.mark.parametrize(("slots", "rate"), [(3, Decimal(1)), (5, Decimal("0.6"))])
def test_the_chosen_slot_has_the_distribution_of_appendix_a(slots: int, rate: Decimal) -> None:
    """Chi-square over the slots and none of them, seed fixed: a false alarm has probability 1e-7 per case."""
    series = KIT.series(rounds=slots, donation_slots=slots, rate=rate)
    count, each = 4_000, float(series.probe.rate)
    assert each == pytest.approx(float(rate) / slots)
    found = draws(series, count)
    seen = [found[slot] for slot in range(slots)] + [found[None]]
    expected = [count * slot_share(each, slot) for slot in range(slots)] + [count * (1 - yield_of(each, slots))]
    assert sum(seen) == count
    assert stats.chisquare(seen, expected).pvalue > 1e-7


def test_a_device_that_comes_late_has_the_next_window_of_all_and_none_that_overlaps_another() -> None:
    series = KIT.series(rounds=8, donation_slots=3, name="longer")
    for first, window in ((0, {0, 1, 2}), (1, {3, 4, 5}), (3, {3, 4, 5}), (4, {6, 7}), (7, set())):
        found = draws(series, 400, first=first)
        assert found.keys() == {*window, None}
        assert [found[at] for at in sorted(window)] == sorted((found[at] for at in window), reverse=True)


async def test_a_device_that_is_not_eligible_in_its_round_takes_part_in_no_other(world: World) -> None:
    """The draw is made with a token for each round; the chosen one's is then gone."""
    store = MemoryAgentStore()
    await hold_tokens(store, donated())
    agent = world.agent(store)
    recipe = KIT.round(donated(), 0)
    drawn = SeriesDraw(donated().hash, donated().name, float(NOW), 0, 1)
    first = Entry(recipe.hash, recipe.name, State.NOT_SAMPLED, float(NOW), series_hash=donated().hash, series_index=0)
    await store.decide(first, None, drawn)
    token = donated().token(1)
    await store.put_prefetch(Prefetch(Slot(token.issuer, token.epoch, token.slot), float(NOW), spent=True))
    world.log.add(KIT.series_leaf(donated()), *leaves_of(KIT.round(donated(), 1)), *leaves_of(KIT.round(donated(), 2)))
    await agent.step()
    states = {entry.series_index: entry.state for entry in await store.entries()}
    assert states[1] is not State.SCHEDULED
    assert states[2] is State.NOT_SAMPLED


async def test_the_draw_survives_a_crash_and_the_device_is_not_charged_again(world: World, tmp_path: Path) -> None:
    """Many devices stop after the first round and start again from their files: what each drew is what it does."""
    world.log.add(KIT.series_leaf(donated()), *leaves_of(KIT.round(donated(), 0)))
    chosen: list[int | None] = []
    for number in range(12):
        path = tmp_path / f"agent-{number}.sqlite3"
        store = await SqlAgentStore.open(path)
        await hold_tokens(store, donated())
        await world.agent(store).step()
        draw = await store.draw(donated().hash)
        assert draw is not None
        chosen.append(draw.chosen_round)
        await store.close()
    world.log.add(*leaves_of(KIT.round(donated(), 1)), *leaves_of(KIT.round(donated(), 2)))
    for number, wanted in enumerate(chosen):
        store = await SqlAgentStore.open(tmp_path / f"agent-{number}.sqlite3")
        await world.agent(store).step()
        entries = await store.entries()
        taken = [entry.series_index for entry in entries if entry.state is State.SCHEDULED]
        assert taken == ([] if wanted is None else [wanted])
        assert len(entries) == 3
        assert len(charged(entries)) == 1
        await store.close()
    assert len(set(chosen)) > 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_no_order_of_leaves_restarts_and_missing_tokens_makes_two_of_one(world: World, seed: int) -> None:
    """Leaves come in any order and several at once, the clock jumps, every step is that of a restarted agent: one draw
    and one charge, which come together, and one contribution at most, in the round that was drawn."""
    chance = Random(seed)
    stores = [MemoryAgentStore() for _ in range(10)]
    for store in stores:
        await hold_tokens(store, donated())
        if chance.random() < 0.3:
            token = donated().token(chance.randrange(donated().rounds))
            await store.put_prefetch(Prefetch(Slot(token.issuer, token.epoch, token.slot), float(NOW)))
    batches = [
        [KIT.series_leaf(donated())],
        *(list(leaves_of(KIT.round(donated(), at))) for at in range(donated().rounds)),
    ]
    chance.shuffle(batches)
    for leaves in batches:
        world.log.add(*leaves)
        world.clock.jump(chance.choice((0, 60, 1_500, 3_600)))
        world.publish_keys()
        for store in chance.sample(stores, 7):
            await world.agent(store).step()
    for store in stores:
        await world.agent(store).step()
        entries, drawn = await store.entries(), await store.draw(donated().hash)
        taken = [entry.series_index for entry in entries if entry.report or entry.state is State.SENT]
        assert len(charged(entries)) == (0 if drawn is None else 1)
        assert len(taken) <= 1
        assert not taken or (drawn is not None and drawn.chosen_round == taken[0])
    world.log.add(*(leaf for at in range(donated().rounds) for leaf in leaves_of(KIT.round(donated(), at, "again"))))
    charges = 0
    for store in stores:
        await world.agent(store).step()
        entries = await store.entries()
        assert sum(bool(entry.report) or entry.state is State.SENT for entry in entries) <= 1
        assert len(charged(entries)) <= 1
        charges += len(charged(entries))
    assert charges > 0


class Stopped(BaseException):
    """The end of a process."""


class Stopping:
    """A store before and after each of whose calls the process may end: at the one of this number."""

    errors = SqlAgentStore.errors

    def __init__(self, kept: AgentStore, at: int) -> None:
        self.kept, self.left = kept, at

    def __getattr__(self, name: str) -> Any:
        async def call(*given: Any) -> Any:
            self.count()
            found = await getattr(self.kept, name)(*given)
            self.count()
            return found

        return call

    def count(self) -> None:
        self.left -= 1
        if not self.left:
            raise Stopped


async def test_wherever_a_device_stops_its_series_is_drawn_for_and_charged_once(world: World) -> None:
    rounds = range(independent().rounds)
    world.log.add(
        KIT.series_leaf(independent()), *(leaf for at in rounds for leaf in leaves_of(KIT.round(independent(), at)))
    )
    stopped, at = True, 0
    while stopped:
        store, stopped, at = MemoryAgentStore(), False, at + 1
        await hold_tokens(store, independent())
        try:
            await world.agent(cast(AgentStore, Stopping(store, at))).step()
        except Stopped:
            stopped = True
        await world.agent(store).step()
        entries = await store.entries()
        assert sorted(entry.series_index or 0 for entry in entries) == [*rounds]
        assert {entry.state for entry in entries} <= {State.NOT_SAMPLED, State.SCHEDULED}
        assert len(charged(entries)) == 1
        assert await store.draw(independent().hash) is not None
    assert at > 20


class Losing(MemoryAgentStore):
    """The token of a series' first round is gone when the decision is written."""

    async def decide(self, entry: Entry, spend: Slot | None = None, draw: SeriesDraw | None = None) -> bool:
        if entry.series_index == 0 and spend is not None:
            await self.put_prefetch(Prefetch(spend, float(NOW)))
        return await super().decide(entry, spend, draw)


async def test_a_first_round_whose_token_goes_leaves_later_rounds_to_another_draw(world: World) -> None:
    store = Losing()
    series = KIT.series(donation_slots=None, name="certain", rate=Decimal(1))
    await hold_tokens(store, series)
    world.log.add(KIT.series_leaf(series), *(leaf for at in (0, 1) for leaf in leaves_of(KIT.round(series, at))))
    await world.agent(store).step()
    (first,) = await store.entries()
    assert first.state is State.REFUSED
    assert (charged([first]), await store.draw(series.hash)) == ([], None)
    world.log.add(*leaves_of(KIT.round(series, 2)))
    await world.agent(store).step()
    entries = await store.entries()
    assert [entry.state for entry in entries] == [State.REFUSED, State.SCHEDULED, State.SCHEDULED]
    assert len(charged(entries)) == 1


async def test_a_round_waits_for_its_series(world: World) -> None:
    agent, store = await device(world, donated())
    world.log.add(*leaves_of(KIT.round(donated())))
    await agent.step()
    assert await store.entries() == []
    world.log.add(KIT.series_leaf(donated()))
    await agent.sync()
    await agent.consider()
    assert len(await store.entries()) == 1


async def test_a_device_whose_budget_the_series_exceeds_takes_no_part_in_any_round(world: World) -> None:
    total = Decimal(donated().claim.epsilon["aggregator"])
    poor, store = await device(world, donated(), budget={"epsilon": f"{total - Decimal('0.0001'):f}"})
    rich, other = await device(world, donated(), budget={"epsilon": f"{total:f}"})
    assert Decimal(donated().probe.privacy.epsilon["aggregator"]) < total - Decimal("0.0001"), "one round would fit"
    await run_rounds(world, donated(), [poor, rich])
    entries = await store.entries()
    assert {entry.state for entry in entries} == {State.REFUSED}
    assert all("budget-spent" in entry.detail for entry in entries)
    assert await store.draw(donated().hash) is None
    assert State.REFUSED not in {entry.state for entry in await other.entries()}, "later rounds cost nothing more"


async def test_a_series_stays_in_a_devices_ledger_until_it_is_over(world: World, tmp_path: Path) -> None:
    """It may answer until then: a day of the budget that begins before the end holds the whole charge."""
    store = await SqlAgentStore.open(tmp_path / "agent.sqlite3")
    await hold_tokens(store, donated())
    await run_rounds(world, donated(), [world.agent(store)])
    entries, end = await store.entries(), float(donated().interval.end)
    total = Decimal(donated().claim.epsilon["aggregator"])
    assert len(entries) == donated().rounds
    budget = Budget(days=1)
    assert spent_epsilon(entries, budget, end + budget.seconds - 1) == total
    assert spent_epsilon(entries, budget, end + budget.seconds) == 0
    await store.close()


async def test_a_recipe_that_is_shown_later_as_a_round_met_before_is_refused(world: World) -> None:
    agent, store = await device(world, independent())
    first, second = KIT.round(independent()), KIT.round(independent(), 0, "another input")
    world.log.add(KIT.series_leaf(independent()), *leaves_of(first))
    await agent.step()
    world.log.hidden.update(range(len(world.log.leaves) - 3, len(world.log.leaves)))
    world.log.add(*leaves_of(second))
    await agent.sync()
    await agent.consider()
    entry = next(entry for entry in await store.entries() if entry.recipe_hash == second.hash)
    assert entry.state is State.REFUSED
    assert f"slot-taken: this device met recipe {first.name} on" in entry.detail


async def test_a_source_is_given_what_the_round_asks_about(world: World) -> None:
    asked: list[tuple[str, str]] = []

    def answer(metric: str, round_input: str) -> int:
        asked.append((metric, round_input))
        return 3

    store = MemoryAgentStore()
    await hold_tokens(store, donated())
    deps = AgentEnv(world.clock, ENTROPY.child("round input"), world.network)
    source = CallableSource(lambda _metric: None, answer)
    agent = Agent(world.config(), KIT.policy, deps, store, source, Device())
    world.log.add(KIT.series_leaf(donated()), *leaves_of(KIT.round(donated(), 0, "prefix ab")))
    await agent.step()
    assert asked == [("mdvis", "prefix ab")]
    (entry,) = await store.entries()
    assert entry.state in {State.SCHEDULED, State.NOT_SAMPLED}
