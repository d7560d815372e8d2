"""The demo of local pan-privacy: devices that many people use watch an event for T steps, and an intruder looks on.

Every party and every device is as in ``infra.lab.demo.run``. The recipe is published before the first step; the run
then moves the clock from the end of one step to the end of the next, records on every device what happens in the step,
and lets its agent replace what it keeps, as the agent's clock would. One device keeps its state in a file, which is
read before and after every step.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from client_agent.agent import Agent
from client_agent.deciding import AgentEnv
from client_agent.journal import State
from client_agent.panprivate.recipes import plan_of
from client_agent.panprivate.slots import newest
from client_agent.panprivate.watch import Schedule
from infra.lab.demo.drill import Drilled, buckets_of, report_id_of
from infra.lab.demo.event_counts import Visits, capped, steps_of
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.game_process import Game, played_beside
from infra.lab.demo.results.result import Sighting, StagedRefusal
from infra.lab.demo.results.view import Stages
from infra.lab.demo.results.watched_result import WatchedResult, looks_of
from infra.lab.demo.staging import DAY, DRILL_SLOT, HOUR, MAIN_SLOT, WITNESSES, Recipes
from infra.lab.intruder.game import GameResult
from infra.lab.kit.patience import PatientTransport
from infra.stacks.options import StackOptions
from tacit.adapters.network.http import HttpTransport
from tacit.errors import Refusal
from tacit.models.one_server import ANALYZER, RELEASE
from tacit.models.pan_private_single.form import PanPrivateSingle
from tacit.ports import Transport
from tacit.recipe.model import Recipe

PERIOD = 30 * HOUR
"""Of all steps together; it ends an hour before the interval."""
DRILL_EVENT = "tacit-demo.drill"
SINGLE_EPSILONS = {"count": (2, 1), "histogram": (4, 3, 2, 1), "mean": (4, 2, 1)}
"""What one report may tell the analyzer, which sees single ones: the first with which the result of B reports tells no
more than policies allow."""
GAME_STEPS, LEARNING, GUESSING = 3, 200, 800
"""Of the intruder's game: steps of each device, devices with known truth, and fresh ones, at most."""
AS_MANY = 3
"""Fresh devices of the game for each device of the demo, at most."""
LARGE, LESS = 512, 8
"""Bytes of a state from which on the game has only one in so many devices."""
SHOWN = 16
THREADS = 2
"""Threads in which devices live through a step."""
FOLLOWED = 0
"""Every device is asked, so that the first can be followed."""


@dataclass(frozen=True)
class Watching:
    """The question to ask. ``most``: k, 1 for a count."""

    model: str
    statistic: str
    steps: int
    most: int

    @property
    def is_single(self) -> bool:
        """Whether there is one server."""
        return self.model == PanPrivateSingle.name


class WatchedRun(Drilled):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    DRILL_BATCH: ClassVar[int] = 20
    DRILLED: ClassVar[int] = 19
    ROBBED: ClassVar[int] = 5

    def __init__(self, visits: Visits, watching: Watching, state_dir: Path, stages: Stages) -> None:
        options = StackOptions(epoch_seconds=DAY, slots_per_epoch=2, batch_floor=self.DRILL_BATCH, witnesses=WITNESSES)
        options = replace(options, unbounded_local=watching.statistic == "mean")
        servers = (ANALYZER,) if watching.is_single else ("leader", "helper")
        super().__init__(state_dir, options, stages, *servers)
        self._visits = visits
        self._watching = watching
        self._events = [steps_of(count, watching.steps, self._entropy) for count in visits.counts]
        self._shown = next((at for at, own in enumerate(self._events) if any(own) and not all(own)), 0)
        self._folder = state_dir / "watched"
        self._files: list[tuple[int, bytes]] = []

    async def run(self) -> WatchedResult:
        """Everything, from empty folders to a released result."""
        began = time.monotonic()
        async with self._stack.running(), HttpTransport(connections=64) as direct:
            world = AgentEnv(self._clock, self._entropy, direct)
            transport = PatientTransport(direct, self._patience)
            second = await self._begin(world)
            with self._timed("recipe"):
                recipes = Recipes(self._main_recipe(), self._drill_recipe())
                claimed = await self._publish(recipes, transport)
            playing = asyncio.ensure_future(self._game(recipes.main))
            try:
                fleet = await self._devices(recipes, world)
                refusals = await self._lived_through(fleet, recipes, transport, direct)
                intruder, guessed = await playing
            finally:
                playing.cancel()
            self._seconds["all"] = time.monotonic() - began
            attempts = (claimed, second, *refusals)
            return await self._result(fleet, recipes.main, attempts, (intruder, guessed), transport)

    # Stages

    async def _lived_through(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        """From the first step to the released result; what was refused on the way."""
        await self._steps(fleet, recipes)
        await self._decide(fleet, recipes.main)
        await self._uploading(fleet, recipes.both, FOLLOWED)
        with self._timed("attacks"):
            refusals = await self._attacks(fleet, recipes, transport, direct)
        await self._release(recipes.main, transport)
        return refusals

    async def _devices(self, recipes: Recipes, world: AgentEnv) -> Fleet:
        """All of them know the recipe, and watch, before its first step."""
        stricter = self._policy.model_copy(update={"min_batch_size": self.DRILL_BATCH + 1})
        number = len(self._events)
        policies = [self._policy if device < self.DRILLED else stricter for device in range(number)]
        with self._timed("devices"), self._stages.stage("devices: attestation identities", number) as tick:
            fleet = Fleet.make(self._layout, policies, [{}] * number, world, tick, {self._shown: self._folder})
        self._jump_to((self._epoch - 1) * DAY)
        await self._settle("recipe_server")
        with self._timed("log"), self._stages.stage("devices: log fetched by relay, verified", number) as tick:
            await fleet.sync(tick, self._patience)
        with self._timed("log"), self._stages.stage("devices: verify the recipe, begin to watch", number) as tick:
            await fleet.consider(tick)
        if any(len(device.agent.watches) == 0 for device in fleet.devices):
            entry = await fleet.devices[-1].entry(recipes.main.hash)
            raise Refusal("demo-watch", f"a device does not watch: {'' if entry is None else entry.detail}")
        return fleet

    async def _steps(self, fleet: Fleet, recipes: Recipes) -> None:
        """From the first step to the last; at some times of the day before, devices fetch their tokens besides."""
        schedule, slices = plan_of(recipes.main).schedule, self._prefetch_moments()
        ends = [schedule.start + step * schedule.step_seconds for step in range(schedule.steps + 1)]
        tokens = self._layout.options.slots_per_epoch * len(fleet.devices)
        self._look(recipes.main)
        with (
            self._stages.stage(f"{schedule.steps} steps of {_span(schedule)}, on every device", schedule.steps) as step,
            self._stages.stage("devices: one blind token per slot", tokens) as tick,
        ):
            for moment in sorted({*slices, *ends}):
                await self._wait_for(fleet, moment, self._epoch * DAY)
                self._jump_to(moment)
                if moment in slices:
                    await self._prefetch(fleet, tick)
                if moment in ends:
                    with self._timed("steps"):
                        await self._step(fleet, recipes.main, ends.index(moment))
                    step(int(moment > schedule.start))

    async def _step(self, fleet: Fleet, recipe: Recipe, step: int) -> None:
        """The end of the step before ``step``, and what happens in this one. The devices of each thread live one after
        the other; their arithmetic holds no lock of the interpreter."""

        def live(first: int) -> None:
            for number in range(first, len(fleet.devices), THREADS):
                self._live(fleet.devices[number].agent, number, step)

        await asyncio.gather(*(asyncio.to_thread(live, first) for first in range(THREADS)))
        if step:
            self._look(recipe)

    def _live(self, agent: Agent, number: int, step: int) -> None:
        agent.tick()
        if step == 0 and number < self.DRILLED:
            agent.record(DRILL_EVENT)
        if step < self._watching.steps and (times := self._events[number][step]):
            agent.record(self._visits.event, times)

    def _look(self, recipe: Recipe) -> None:
        """Note the size of the device's file and the beginning of its newest state, as an intruder would read it."""
        plan = plan_of(recipe)
        path = plan.path(self._folder)
        state = newest(path).payload[-plan.stored.size :]
        self._files.append((path.stat().st_size, state[:SHOWN]))

    async def _prefetch(self, fleet: Fleet, tick: Any) -> None:
        with self._timed("tokens"):
            async with self._stack.following(FOLLOWED):
                await fleet.prefetch_due(tick, only=FOLLOWED)
            await fleet.prefetch_due(tick)

    async def _decide(self, fleet: Fleet, recipe: Recipe) -> None:
        """At the interval's beginning: the states become reports, and are erased."""
        self._jump_to(recipe.interval.start)
        name = "devices: randomise what they kept, erase it"
        with self._timed("answers"), self._stages.stage(name, len(fleet.devices)) as tick:
            await fleet.consider(tick)
        if self._folder.exists() and any(self._folder.iterdir()):
            raise Refusal("demo-watch", "a device kept its state after it had answered")
        entry = await fleet.devices[FOLLOWED].entry(recipe.hash)
        if entry is None or entry.state is not State.SCHEDULED:
            raise Refusal("demo-watch", f"a device has no answer: {'' if entry is None else entry.detail}")
        await self._stack.follow_report(report_id_of(recipe.model, entry.report).hex())

    async def _game(self, recipe: Recipe) -> tuple[GameResult, int]:
        """Attackers against fresh devices of this recipe, half of them with events."""
        plan = plan_of(recipe)
        steps = min(GAME_STEPS, plan.schedule.steps)
        plan = replace(plan, schedule=replace(plan.schedule, steps=steps))
        fewer, number = LESS if plan.stored.size > LARGE else 1, len(self._events)
        learning, guessing = min(LEARNING // fewer, number), min(GUESSING // fewer, AS_MANY * number)
        game = Game(plan, learning, guessing, self._entropy(32))
        name = "an intruder looks at fresh devices, and guesses"
        with self._timed("intruder"), self._stages.stage(name, 2 * (learning + guessing)) as tick:
            return await played_beside(game, tick), guessing

    async def _result(
        self,
        fleet: Fleet,
        recipe: Recipe,
        refusals: tuple[StagedRefusal, ...],
        game: tuple[GameResult, int],
        transport: Transport,
    ) -> WatchedResult:
        document = await self._released(recipe, transport)
        intruder, guessed = game
        schedule = plan_of(recipe).schedule
        return WatchedResult(
            **await self._members(fleet, recipe, document, transport),
            source=self._visits.source,
            devices=len(self._events),
            staged=0,
            sampled=await fleet.count(recipe.hash, State.SCHEDULED, State.SENT, State.FAILED, State.EXPIRED),
            buckets=buckets_of(document, truths(self._visits.counts, self._watching)),
            sightings=(*await self._stack.sightings(FOLLOWED, MAIN_SLOT), self._intruders_sight()),
            refusals=refusals,
            steps=schedule.steps,
            step_seconds=schedule.step_seconds,
            events=sum(self._visits.counts),
            intruder=intruder,
            guessed=guessed,
            game_steps=min(GAME_STEPS, schedule.steps),
            looks=looks_of(self._files, self._visits.event, self._events[self._shown]),
        )

    def _intruders_sight(self) -> Sighting:
        size, state = self._files[-1]
        read: dict[str, str | int] = {"file_bytes": size, "writes": len(self._files) - 1, "first_bytes": state.hex()}
        return Sighting("intruder", "whoever reads the disk", read, "whether, when or how often")

    # Pieces

    def _main_recipe(self) -> Recipe:
        step_seconds = PERIOD // self._watching.steps
        return self._recipe("demo", self._visits.event, MAIN_SLOT, step_seconds, self._watching.steps)

    def _drill_recipe(self) -> Recipe:
        """It watches in the first step alone, and asks one device fewer than B."""
        return self._recipe("drill", DRILL_EVENT, DRILL_SLOT, PERIOD // self._watching.steps, 1)

    def _recipe(self, name: str, event: str, slot: int, step_seconds: int, steps: int) -> Recipe:
        watched = self._watched(name, event, slot, step_seconds, steps)
        if not self._watching.is_single:
            return self._proposed(**watched)
        *larger, least = SINGLE_EPSILONS[self._watching.statistic]
        most = Decimal(self._policy.max_epsilon_aggregator)
        for epsilon in larger:
            recipe = self._proposed(**watched, epsilon=Decimal(epsilon))
            if Decimal(recipe.body()["privacy"]["epsilon"][RELEASE]) <= most:
                return recipe
        return self._proposed(**watched, epsilon=Decimal(least))

    def _watched(self, name: str, event: str, slot: int, step_seconds: int, steps: int) -> dict[str, Any]:
        """The members of a survey of ``steps`` steps; the last ends an hour before the interval begins."""
        watching, is_drill = self._watching, slot == DRILL_SLOT
        start = self._epoch * DAY + 7 * HOUR - watching.steps * step_seconds
        most = {} if watching.statistic == "count" else {"most": watching.most}
        return {
            "model": watching.model,
            "name": name,
            "metric": event,
            "text": None if is_drill else _text_of(event, watching),
            "statistic": watching.statistic,
            "encoder": {"kind": "occurrences", "start": start, "step_seconds": step_seconds, "steps": steps, **most},
            "population": self.DRILL_BATCH if is_drill else len(self._events),
            "rate": Decimal(1),
            "slot": slot,
            **({"min_batch_size": self.DRILL_BATCH} if is_drill else {}),
        }


def _text_of(event: str, watching: Watching) -> str:
    if watching.statistic == "count":
        return f"On how many devices did {event} happen?"
    beyond = f" (more than {watching.most} times count as {watching.most})" if watching.statistic == "mean" else ""
    return f"How often did {event} happen on a device{beyond}?"


def truths(counts: Sequence[int], watching: Watching) -> dict[str, int | float]:
    """What the result would be without any protection, by label."""
    if watching.statistic == "count":
        return {"nonzero": sum(count > 0 for count in counts)}
    held = capped(counts, watching.most)
    if watching.statistic == "mean":
        return {"mean": sum(held) / len(held)}
    found = Counter(held)
    labels = [*map(str, range(watching.most)), f"{watching.most}+"]
    return {label: found[times] for times, label in enumerate(labels)}


def _span(schedule: Schedule) -> str:
    minutes = schedule.step_seconds / 60
    return f"{minutes / 60:.3g} h" if minutes >= 60 else f"{minutes:.3g} min"
