"""A whole agent that watches an event for recipes: it counts from the recipe on, answers once, and keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import AgentStore, Entry, Fact, MemoryAgentStore, State, Trouble
from client_agent.panprivate import watches as watches_module
from client_agent.panprivate.recipes import plan_of
from client_agent.panprivate.watch import kept_step, states_in
from client_agent.panprivate.watches import Watches
from client_agent.store import SqlAgentStore
from infra.lab.kit.recipes import EPOCH
from tacit.logview.live import LiveLog
from tacit.messages import Interval
from tacit.methods.flips import Flips
from tacit.models.collectors import COLLECTORS
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tacit.tlog.leaves import SignedLeaf
from tacit.tokens.slots import Slot
from tests.http.agent_world import ENTROPY, RARE, Device, World, give_token, only
from tests.kit.watched import BEGIN, CELLS, MOST, NOW, SHARED, SINGLE, STEP_SECONDS, STEPS, WatchedKit

KIT = WatchedKit()
COUNT, HISTOGRAM = KIT.watched(), KIT.watched(statistic="histogram")
END = 0.25 * COUNT.interval.duration


@dataclass
class Stage:
    """A device on the world's clock, which begins with the first step, and its folder."""

    world: World
    folder: Path
    store: AgentStore = field(default_factory=MemoryAgentStore)
    watches: Watches | None = None
    number: int = 0

    def agent(self, **config: Any) -> Agent:
        """The device's agent, started (again)."""
        if self.watches is not None:
            self.watches.close()
        self.number += 1
        entropy = ENTROPY.child(f"watching {self.folder} {self.number}"[-40:])
        deps = AgentEnv(self.world.clock, entropy, self.world.network)
        self.watches = Watches(self.folder, deps.clock, deps.entropy)
        source = CallableSource(lambda _metric: None)
        return Agent(self.world.config(**config), KIT.policy, deps, self.store, source, Device(), self.watches)

    def publish(self, *recipes: Recipe) -> None:
        """Log the recipes with their opt-ins."""
        for recipe in recipes:
            self.world.log.add(*KIT.leaves(recipe))

    async def live(self, agent: Agent, *events: int) -> None:
        """Steps in which the event happens so often; the agent looks at the log in each."""
        for times in events:
            agent.record("visit", times)
            self.world.clock.jump(STEP_SECONDS)
            await agent.step()

    @property
    def left(self) -> list[str]:
        """What is in the folder of states."""
        return sorted(path.name for path in self.folder.iterdir()) if self.folder.exists() else []

    async def entry(self, recipe: Recipe) -> Entry:
        """What the journal says of a recipe."""
        (entry,) = [entry for entry in await self.store.entries() if entry.recipe_hash == recipe.hash]
        return entry


@pytest.fixture
async def stage(world: World, tmp_path: Path) -> Stage:
    world.clock.set_back(NOW - BEGIN)
    stage = Stage(world, tmp_path / "device" / "watched")
    await give_token(stage.store)
    return stage


def within(recipe: Recipe, times: int, numbers: tuple[int, ...]) -> bool:
    """Whether ``numbers`` can be the answer of a device with so many events."""
    method = randomizer_of(recipe)
    if isinstance(method, Flips):
        low = method.scale * min(times, MOST)
        return low <= numbers[0] <= low + method.flips
    return set(numbers) <= {0, 1}


# The whole path


@pytest.mark.parametrize(("model", "statistic"), CELLS)
async def test_a_device_watches_from_the_recipe_on_and_sends_what_it_kept(
    stage: Stage, model: str, statistic: str
) -> None:
    recipe = KIT.watched(model, statistic)
    stage.publish(recipe)
    agent = stage.agent()
    await agent.step()
    path = plan_of(recipe).path(stage.folder)
    size = path.stat().st_size
    await stage.live(agent, 0, 2, 0, 1)
    assert (kept_step(path), path.stat().st_size) == (4, size)
    assert await stage.store.entries() == []
    await stage.live(agent, *[0] * (STEPS - 4))
    entry = await only(stage.store)
    assert (entry.state, entry.model) == (State.SCHEDULED, model)
    assert entry.charged_epsilon
    assert stage.left == []
    numbers = KIT.opened(recipe, entry.report)
    assert within(recipe, 3, numbers)
    assert len(numbers) == randomizer_of(recipe).cells
    stage.world.clock.jump(entry.send_at - stage.world.clock.now())
    await agent.send_due()
    assert stage.world.uploads == [entry.report]
    assert (await only(stage.store)).state is State.SENT


def unrandomised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bit is kept, so that a report says what the state held."""
    for module in ("single_server", "two_servers"):
        monkeypatch.setattr(f"tacit.panprivate.{module}.keep_threshold", lambda *_: 1 << 128)


async def answered(stage: Stage, agent: Agent, recipe: Recipe) -> tuple[int, ...]:
    """What the device says in the recipe's interval."""
    stage.world.clock.jump(max(0.0, NOW - stage.world.clock.now()))
    await agent.step()
    entry = await stage.entry(recipe)
    assert entry.state is State.SCHEDULED, entry.detail
    return KIT.opened(recipe, entry.report)


@pytest.mark.parametrize("model", [SINGLE, SHARED])
@pytest.mark.parametrize(("events", "cell"), [((), 0), ((1,), 1), ((0, 2), 2), ((2, 5), 3)])
async def test_what_is_sent_is_what_happened(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, model: str, events: tuple[int, ...], cell: int
) -> None:
    unrandomised(monkeypatch)
    recipe = KIT.watched(model, "histogram")
    stage.publish(recipe)
    agent = stage.agent()
    await agent.step()
    await stage.live(agent, *events)
    assert await answered(stage, agent, recipe) == tuple(int(cell == at) for at in range(MOST + 1))


async def test_two_recipes_about_one_event_are_watched_side_by_side(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrandomised(monkeypatch)
    other = KIT.watched(statistic="histogram", token={**HISTOGRAM.body()["token"], "slot": 1}, name="other")
    stage.publish(HISTOGRAM, other)
    agent = stage.agent()
    await agent.step()
    assert len(states_in(stage.folder)) == 2
    await stage.live(agent, 1, 1)
    assert await answered(stage, agent, HISTOGRAM) == (0, 0, 1, 0)
    assert (await stage.entry(other)).detail == "no token for the recipe's slot"
    assert stage.left == []


# Time


async def test_nothing_counts_before_the_recipe_is_met_and_after_its_last_step(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrandomised(monkeypatch)
    agent = stage.agent()
    assert not agent.record("visit", 3)
    stage.publish(HISTOGRAM)
    stage.world.clock.jump(5 * STEP_SECONDS)
    await agent.sync()
    await agent.consider()
    assert agent.record("visit")
    stage.world.clock.jump(5 * STEP_SECONDS)
    agent.record("visit", 2)
    assert await answered(stage, agent, HISTOGRAM) == (0, 1, 0, 0)


async def test_a_device_that_was_off_goes_on_where_it_was(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    unrandomised(monkeypatch)
    stage.publish(HISTOGRAM)
    agent = stage.agent()
    await agent.step()
    await stage.live(agent, 2)
    agent.record("visit")  # lost: its step does not end before the power goes
    stage.world.clock.jump(4 * STEP_SECONDS)
    agent = stage.agent()
    await agent.sync()
    await agent.consider()
    await stage.live(agent, 0)
    (row,) = states_in(stage.folder)
    assert row["step"] == 6
    stage.world.clock.jump(NOW - stage.world.clock.now())
    agent = stage.agent()
    assert await answered(stage, agent, HISTOGRAM) == (0, 0, 1, 0)


async def test_a_clock_that_goes_back_counts_on_and_decides_nothing_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrandomised(monkeypatch)
    stage.publish(HISTOGRAM)
    agent = stage.agent()
    await agent.step()
    await stage.live(agent, 1, 0, 0, 0)
    stage.world.clock.set_back(2 * STEP_SECONDS)
    await stage.live(agent, 1)
    assert [row["step"] for row in states_in(stage.folder)] == [4]
    assert await answered(stage, agent, HISTOGRAM) == (0, 0, 1, 0)
    sent = (await stage.entry(HISTOGRAM)).report
    stage.world.clock.set_back(5 * STEP_SECONDS)
    await stage.live(agent, 1, 1)
    assert (await stage.entry(HISTOGRAM)).report == sent
    assert stage.left == []


async def test_a_device_that_watched_nothing_takes_part_like_one_on_which_nothing_happened(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrandomised(monkeypatch)
    stage.publish(HISTOGRAM)
    stage.world.clock.jump(NOW - BEGIN + 1)
    agent = stage.agent()
    assert await answered(stage, agent, HISTOGRAM) == (1, 0, 0, 0)
    assert stage.left == []


async def test_after_the_deciding_quarter_nobody_is_asked_and_nothing_is_kept(stage: Stage) -> None:
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    assert stage.left
    stage.world.clock.jump(NOW - BEGIN + END + 1)
    await agent.step()
    entry = await only(stage.store)
    assert (entry.state, entry.charged_epsilon) == (State.INELIGIBLE, "")
    assert stage.left == []


# No state is left, and none of it is answered from twice


async def test_a_coin_that_says_no_erases_the_state_and_is_charged(stage: Stage) -> None:
    rare = KIT.watched(sampling={"rate": f"{RARE:f}"})
    stage.publish(rare)
    agent = stage.agent()
    await agent.step()
    assert stage.left, "every eligible device keeps state, whatever its coin is going to say"
    await stage.live(agent, *[1] * STEPS)
    entry = await only(stage.store)
    assert (entry.state, entry.report, stage.left) == (State.NOT_SAMPLED, b"", [])
    assert entry.charged_epsilon


async def test_a_recipe_that_is_refused_in_the_middle_of_its_steps_leaves_no_state(stage: Stage) -> None:
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    await stage.live(agent, 1, 0)
    assert stage.left
    await stage.store.decide(
        Entry(b"x" * 32, "dear", State.NOT_SAMPLED, stage.world.clock.now(), "", "9.99", charged_until=NOW + 9e6)
    )
    await stage.live(agent, 1)
    entry = await stage.entry(COUNT)
    assert (entry.state, entry.detail.split(":")[0]) == (State.REFUSED, "budget-spent")
    assert stage.left == []


async def test_a_recipe_that_its_server_closed_leaves_no_state(stage: Stage) -> None:
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    stage.world.log.add(KIT.analyzer_void(COUNT))
    await stage.live(agent, 1)
    entry = await stage.entry(COUNT)
    assert (entry.state, entry.detail.split(":")[0]) == (State.REFUSED, "recipe-void")
    assert stage.left == []


async def test_a_recipe_that_the_log_shows_no_more_leaves_no_state(stage: Stage) -> None:
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    assert stage.left
    stage.world.log.hidden = set(range(1, len(stage.world.log.leaves)))
    await agent.sync()
    await agent.consider()
    assert stage.left == []


async def test_a_log_that_showed_two_histories_leaves_no_state(stage: Stage) -> None:
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    assert stage.left
    stage.world.log.leaves[-1] = KIT.analyzer_opt_in(HISTOGRAM).encode()
    await stage.live(agent, 0)
    assert stage.left == []


async def test_a_state_is_erased_when_its_interval_is_over_although_the_log_is_away(stage: Stage) -> None:
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    stage.world.log.status = 503
    stage.world.clock.jump(COUNT.interval.end - stage.world.clock.now())
    agent.tick()
    assert stage.left == []


@pytest.mark.parametrize("dies_in", ["decide", "forget", "overwrite", "unlink"])
async def test_a_process_that_dies_around_its_decision_makes_one_report_and_leaves_no_state(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    path = tmp_path / "agent.sqlite3"
    stage.store = store = await SqlAgentStore.open(path)
    await give_token(store)
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    await stage.live(agent, 1)
    stage.world.clock.jump(NOW - stage.world.clock.now())
    await agent.sync()

    def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if dies_in == "decide":
            patch.setattr(SqlAgentStore, "decide", dies)
        elif dies_in == "forget":
            patch.setattr(Watches, "_erase", dies)
        elif dies_in == "overwrite":
            patch.setattr("client_agent.panprivate.slots.os.fsync", dies)
        else:
            patch.setattr("client_agent.panprivate.slots.Path.unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            await agent.consider()
    await store.close()
    stage.store = store = await SqlAgentStore.open(path)
    before = [entry.report for entry in await store.entries()]
    assert len(before) == (dies_in != "decide")
    assert stage.left
    agent = stage.agent()
    await agent.step()
    after = (await only(store)).report
    assert before in ([], [after])
    assert stage.left == []
    stage.world.clock.jump((await only(store)).send_at - stage.world.clock.now())
    await agent.send_due()
    assert stage.world.uploads == [after]
    await store.close()


# Files that are none


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(8192)])
async def test_a_damaged_state_is_put_aside_told_and_begun_anew_and_nothing_of_it_is_sent_or_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    unrandomised(monkeypatch)
    stage.publish(HISTOGRAM)
    agent = stage.agent()
    await agent.step()
    await stage.live(agent, 2)
    plan_of(HISTOGRAM).path(stage.folder).write_bytes(content)
    agent = stage.agent()
    await agent.step()
    told = Trouble.decode(await stage.store.fact(Fact.STATE_TROUBLE))
    assert told is not None
    assert "put aside" in told.what
    assert len(stage.left) == 2
    await stage.live(agent, 1)
    assert await answered(stage, agent, HISTOGRAM) == (0, 1, 0, 0)
    assert stage.left == []
    assert await stage.store.fact(Fact.STATE_TROUBLE) == b""


async def test_a_recipe_with_other_keys_is_another_one_with_a_state_of_its_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrandomised(monkeypatch)
    parties = HISTOGRAM.body()["parties"]
    other_key = WatchedKit(b"other").single_recipe("histogram").body()["parties"]["analyzer"]["state_key"]
    parties["analyzer"]["state_key"] = other_key
    other = KIT.watched(statistic="histogram", parties=parties, token={**HISTOGRAM.body()["token"], "slot": 1})
    stage.publish(HISTOGRAM)
    agent = stage.agent()
    await agent.step()
    await stage.live(agent, 2)
    stage.publish(other)
    await stage.live(agent, 1)
    assert [row["step"] for row in states_in(stage.folder)] == [2, 2]
    assert await answered(stage, agent, HISTOGRAM) == (0, 0, 0, 1)


async def test_a_state_that_cannot_be_kept_is_told_and_keeps_the_device_from_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrandomised(monkeypatch)
    stage.folder.parent.mkdir()
    stage.folder.write_bytes(b"no folder")
    stage.publish(HISTOGRAM)
    agent = stage.agent()
    await agent.step()
    told = Trouble.decode(await stage.store.fact(Fact.STATE_TROUBLE))
    assert told is not None
    assert str(stage.folder) in told.what
    assert await answered(stage, agent, HISTOGRAM) == (1, 0, 0, 0)


async def test_more_recipes_than_a_device_keeps_states_for_are_told_and_answered_all_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches_module, "MOST", 0)
    stage.publish(COUNT)
    agent = stage.agent()
    await agent.step()
    told = Trouble.decode(await stage.store.fact(Fact.STATE_TROUBLE))
    assert told is not None
    assert "watched here already" in told.what
    await stage.live(agent, *[0] * STEPS)
    assert (await only(stage.store)).state is State.SCHEDULED
    assert await stage.store.fact(Fact.STATE_TROUBLE) == b""


# Who begins a watch


async def test_a_recipe_of_an_epoch_without_a_directory_is_watched_before_its_tokens_can_be_had(stage: Stage) -> None:
    later = EPOCH + 2
    start = later * 86_400 + 3_600
    recipe = KIT.watched(
        interval={"start": start, "duration": 3_600}, token={**COUNT.body()["token"], "epoch": later, "slot": 0}
    )
    stage.publish(recipe)
    agent = stage.agent()
    await agent.step()
    assert await stage.store.entries() == []
    assert stage.left == [f"{recipe.hash.hex()}.state"]


@pytest.mark.parametrize("without", ["opt-in", "audience", "budget"])
async def test_a_device_watches_for_no_recipe_that_it_would_not_answer(stage: Stage, without: str) -> None:
    recipe, config = COUNT, {}
    leaves: list[SignedLeaf] = KIT.leaves(recipe)
    if without == "opt-in":
        leaves.pop()
    elif without == "audience":
        recipe = KIT.watched(audience={"population": "all", "criteria": {"os": "linux"}})
        leaves = KIT.leaves(recipe)
    else:
        config = {"budget": {"epsilon": "0.1"}}
    stage.world.log.add(*leaves)
    agent = stage.agent(**config)
    await agent.step()
    await stage.live(agent, 1)
    assert stage.left == []
    if without == "opt-in":
        stage.world.log.add(KIT.analyzer_opt_in(recipe))
        await stage.live(agent, 0)
        assert len(stage.left) == 1
    else:
        assert (await only(stage.store)).state in {State.REFUSED, State.INELIGIBLE}


async def test_what_the_journal_says_does_not_depend_on_events(world: World, tmp_path: Path) -> None:
    world.clock.set_back(NOW - BEGIN)
    world.log.add(*KIT.leaves(COUNT))
    seen = []
    for name, events in (("none", [0] * STEPS), ("some", [0, 3, 0, 1, *[0] * (STEPS - 4)])):
        stage = Stage(world, tmp_path / name / "watched")
        await give_token(stage.store, Slot("issuer.example", EPOCH, 0))
        agent = stage.agent()
        journal = []
        await agent.step()
        for times in events:
            await stage.live(agent, times)
            rows = [
                (one.state, one.detail, one.charged_epsilon, len(one.report)) for one in await stage.store.entries()
            ]
            facts = [await stage.store.fact(fact) for fact in Fact.troubles()]
            journal.append((rows, facts, [path.split(".")[-1] for path in stage.left]))
        seen.append(journal)
        world.clock.set_back(world.clock.now() - BEGIN)
    assert seen[0] == seen[1]


def test_a_log_without_watched_recipes_costs_an_agent_nothing() -> None:
    watches = Watches(None, None, ENTROPY)  # type: ignore[arg-type]
    assert (len(watches), watches.trouble, watches.record("visit")) == (0, "", False)
    watches.tick()
    watches.forget({b"x" * 32})
    watches.keep_only(set())
    assert LiveLog().recipes == ()


@pytest.mark.parametrize(("model", "statistic"), CELLS)
def test_a_result_says_that_devices_without_a_state_count_as_having_seen_nothing(model: str, statistic: str) -> None:
    recipe = KIT.watched(model, statistic)
    method = randomizer_of(recipe)
    middle = 100 * (method.flips if isinstance(method, Flips) else 1)
    interval = Interval(recipe.interval.start // 60, recipe.interval.duration // 60)
    aggregate = AggregateResult(200, interval, (middle,) * method.cells)
    missing = COLLECTORS[model].release(recipe, "batch", 0, aggregate, float(recipe.interval.end))["missing"]
    wanted = {"label": "0"} if statistic == "histogram" else {"adds": [0.0], "biases": False}
    assert missing == {"outside": "clipped", **wanted}
