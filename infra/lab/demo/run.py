"""The demo's run: two simulated days of the whole system.

Every party is a real service on its own loopback port with its own keys and database. Every device has its own coin,
attestation identity, token and report; up to ``MOST_AGENTS`` of them are complete agents. Only time is staged: all
read one clock that the run moves from hour to hour, so that tokens are fetched through the day before, reports spread
over their interval, and the batch closes when the interval is over.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from client_agent.deciding import Deps as AgentDeps
from client_agent.journal import State
from infra.lab.demo.attacks import (
    Thief,
    helper_refusal,
    staged_refusals,
)
from infra.lab.demo.dataset import Dataset
from infra.lab.demo.fleet import Device, Fleet, loot_of, spender_of
from infra.lab.demo.outside import told_by_a_value_outside
from infra.lab.demo.patience import PatientTransport
from infra.lab.demo.result import Bucket, DemoResult, Sighting, StagedRefusal
from infra.lab.demo.staging import (
    DAY,
    DRILL_SLOT,
    HOUR,
    MAIN_SLOT,
    PRECISION,
    WITNESSES,
    Recipes,
    Staging,
    recipe_summary,
)
from infra.lab.demo.view import Stages
from infra.stacks.options import StackOptions
from tacit.adapters.network.http import HttpTransport
from tacit.aggregator.keys import read_peer_file
from tacit.errors import Refusal
from tacit.messages import UploadRequest
from tacit.ports import Transport
from tacit.recipe.builder import propose
from tacit.recipe.cautions import cautions
from tacit.recipe.derive import labels, task_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Categories
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.quantity import exact, in_words
from tacit.recipe.survey import Survey
from tacit.task import Task

if TYPE_CHECKING:
    from infra.lab.demo.crowd import Crowd

RATE = Decimal("0.5")
BATCH_FLOOR = 50
DRILL_DEVICES = BATCH_FLOOR - 1
DRILL_METRIC = "drill"
MOST_AGENTS, AGENTS_OF_A_CROWD = 500, 100
"""Up to ``MOST_AGENTS`` devices, each is a complete agent; of more, ``AGENTS_OF_A_CROWD`` are, and the others are
simulated in batches."""
CROWD_JOB, SETTLE_SECONDS = 1000, 2.0
"""Reports in a job of a crowd, and how often jobs are made of what has come."""
MOST_CONTRIBUTIONS = 5_000
"""At most about so many devices take part: the more devices, the lower the sampling rate."""
DRAWN = (State.SCHEDULED, State.SENT, State.FAILED, State.EXPIRED)
"""What a journal says of a recipe for which the device's coin said yes."""
CANDIDATES = 20
"""Devices that are followed one by one; with a rate of 1/2 one of them takes part but for one run in a million."""


class DemoRun(Staging):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    ROBBED_DEVICES: ClassVar[int] = 2
    """Devices whose tokens are stolen before they are spent."""
    _release_cap: str = ""
    """The most epsilon that policies let a batch tell, if not the usual one."""

    def __init__(
        self, dataset: Dataset, state_dir: Path, stages: Stages, servers: Sequence[str] = ("leader", "helper")
    ) -> None:
        devices = len(dataset.values)
        self._dataset = dataset
        self._agents = devices if devices <= MOST_AGENTS else AGENTS_OF_A_CROWD
        options = StackOptions(
            epoch_seconds=DAY,
            slots_per_epoch=2,
            batch_floor=BATCH_FLOOR,
            witnesses=WITNESSES,
            release_cap=self._release_cap,
        )
        if devices > self._agents:
            options = replace(options, job_size=CROWD_JOB)
        super().__init__(state_dir, options, stages, *servers)

    async def run(self) -> DemoResult:
        """Everything, from empty folders to a released histogram."""
        began = time.monotonic()
        async with self._stack.running(), HttpTransport(connections=64) as direct:
            world = AgentDeps(self._clock, self._entropy, direct)
            transport = PatientTransport(direct, self._patience)
            second = await self._begin(world)
            with self._timed("recipe"):
                recipes = Recipes(self._main_recipe(), self._drill_recipe())
                claimed = await self._publish(recipes, transport)
            fleet = await self._devices(world)
            crowd = await self._crowd(recipes.main, world)
            await self._tokens(fleet)
            await self._decide(fleet)
            followed = await self._pick_followed(fleet, recipes.main)
            others = None if crowd is None else functools.partial(self._send_crowd, crowd)
            await self._uploading(fleet, recipes, followed, others)
            with self._timed("attacks"):
                refusals = await self._attacks(fleet, recipes, transport, direct)
            drilled = self._staged(fleet)[:DRILL_DEVICES]
            values = self._outside(), next(value for value in self._dataset.values if value.strip())
            refusals.append(await told_by_a_value_outside(drilled, recipes, *values, self._entropy))
            await self._release(recipes.main, transport)
            sightings = await self._stack.sightings(followed)
            self._seconds["all"] = time.monotonic() - began
            attempts = [claimed, second, *refusals]
            return await self._result(fleet, crowd, recipes.main, sightings, attempts, transport)

    # Stages

    async def _devices(self, world: AgentDeps) -> Fleet:
        metric = self._dataset.question.metric
        data = [{metric: value} for value in self._dataset.values[: self._agents]]
        data += [{DRILL_METRIC: "yes"}] * (DRILL_DEVICES - 1) + [{DRILL_METRIC: "neither"}] + [{}] * self.ROBBED_DEVICES
        policies = [self._refusing(drill=True)] * self._agents + [self._refusing(main=True)] * DRILL_DEVICES
        policies += [self._refusing(drill=True, main=True)] * self.ROBBED_DEVICES
        with self._timed("devices"), self._stages.stage("devices: attestation identities", len(data)) as tick:
            fleet = Fleet.make(self._layout, policies, data, world, tick)
        self._jump_to((self._epoch - 1) * DAY)
        await self._settle("recipe_server")
        with self._timed("log"), self._stages.stage("devices: log fetched by relay, verified", len(data)) as tick:
            await fleet.sync(tick, self._patience)
        return fleet

    async def _crowd(self, recipe: Recipe, world: AgentDeps) -> Crowd | None:
        """The other devices of a large data set: their coins, tokens and reports, made the day before."""
        values = self._dataset.values[self._agents :]
        if not values:
            return None
        from infra.lab.demo.crowd import Crowd

        encoder = encoder_of(recipe.question)
        answers = [encoder.encode(value if value.strip() else None) for value in values]
        crowd = Crowd(self._layout, Fleet.config(self._layout), self._policy, answers)
        name, total = "other devices: coins, tokens, reports", round(recipe.rate * len(values))
        with self._timed("crowd"), self._stages.stage(name, total) as tick:
            await crowd.prepare(recipe, world, self._patience, tick)
        return crowd

    async def _tokens(self, fleet: Fleet) -> None:
        """The day before: every device fetches the token of every slot at its own random time."""
        total = self._layout.options.slots_per_epoch * len(fleet.devices)
        with self._timed("tokens"), self._stages.stage("devices: one blind token per slot", total) as tick:
            for moment in self._prefetch_moments():
                await self._wait_for(fleet, moment, self._epoch * DAY)
                self._jump_to(moment)
                for number in range(CANDIDATES):
                    async with self._stack.following(number):
                        await fleet.prefetch_due(tick, only=number)
                await fleet.prefetch_due(tick)

    async def _pick_followed(self, fleet: Fleet, recipe: Recipe) -> int:
        """The first candidate whose coin said yes; its report is followed through the aggregators too."""
        for number in range(CANDIDATES):
            entry = await fleet.devices[number].entry(recipe.hash)
            if entry is not None and entry.state is State.SCHEDULED:
                await self._stack.follow_report(self._report_id(entry.report).hex())
                return number
        return 0

    def _report_id(self, body: bytes) -> bytes:
        """The id of the report in a submission."""
        return UploadRequest.decode(body).reports[0].report_metadata.report_id

    async def _decide(self, fleet: Fleet) -> None:
        name = "devices: verify, coin, randomise, shard"
        with self._timed("coins"), self._stages.stage(name, len(fleet.devices)) as tick:
            await fleet.consider(tick)

    async def _send_crowd(self, crowd: Crowd) -> None:
        """The reports of the others, as fast as the stack takes them, while leader and helper aggregate."""
        with self._stages.stage("other devices: uploads in batches", crowd.sampled) as tick:
            sending = asyncio.ensure_future(crowd.send(self._clock, tick))
            try:
                while not sending.done():
                    await self._settle(self._servers[0])
                    await asyncio.wait((sending,), timeout=SETTLE_SECONDS)
            finally:
                sending.cancel()
            await sending

    async def _attacks(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        with self._stages.stage("attacks on a staged recipe, collection at B-1", 3) as tick:
            task = task_of(recipes.drill, fleet.devices[0].agent.live.slot_key(recipes.drill))
            staged = self._staged(fleet)
            spender = await spender_of(staged[:DRILL_DEVICES], recipes.drill)
            loot = [await loot_of(device, DRILL_SLOT) for device in (spender, *staged[DRILL_DEVICES:])]
            await Thief(task, self._client(direct), self._clock, self._entropy, self._patience).attack(*loot)
            tick()
            self._jump_to(recipes.main.interval.end + 1)
            leader = await self._aggregated(task, transport)
            tick()
            helper = await self._status("helper", task.task_id_text, transport)
            refusals = staged_refusals(leader["rejected_by_cause"], helper["rejected_by_cause"])
            collection = await self._collect(recipes.drill, transport)
            if collection.get("state") != "refused":
                raise Refusal("demo-staged", "a batch of B-1 was released")
            peer = read_peer_file(self._layout.state_dir / "leader" / "peer.json")
            problem = await helper_refusal(task, peer.token, transport)
            text = f"{collection['detail']} ({problem})"
            refusals.append(StagedRefusal(f"a collection at B-1 = {DRILL_DEVICES}", "leader, helper", text))
            return refusals

    async def _aggregated(self, task: Task, transport: Transport) -> dict[str, Any]:
        """The leader's status once it has dealt with every report; a job that failed for a moment is tried again."""
        for _ in range(20):
            await self._settle("leader")
            status = await self._status("leader", task.task_id_text, transport)
            if not status["pending"]:
                break
            self._clock.jump(5)
        return status

    async def _result(
        self,
        fleet: Fleet,
        crowd: Crowd | None,
        recipe: Recipe,
        sightings: tuple[Sighting, ...],
        refusals: list[StagedRefusal],
        transport: Transport,
    ) -> DemoResult:
        released = await self._operator_call("GET", "collector", f"/v1/results/{recipe.hash_text}", transport)
        document = released["results"][0]
        task = task_of(recipe, fleet.devices[0].agent.live.slot_key(recipe))
        leader = await self._status("leader", task.task_id_text, transport)
        causes = Counter(leader["rejected_by_cause"])
        truth = self._truth(recipe)
        return DemoResult(
            source=self._dataset.source,
            question=recipe.question.text,
            recipe=recipe_summary(recipe),
            devices=len(self._dataset.values),
            staged=len(self._staged(fleet)),
            sampled=await fleet.count(recipe.hash, *DRAWN, first=self._agents)
            + (0 if crowd is None else crowd.sampled),
            accepted=document["report_count"],
            rejected=sum(causes.values()),
            rejected_by_cause=causes,
            privacy=document["privacy"],
            buckets=tuple(
                Bucket(row["label"], truth[row["label"]], row["estimate"], row["stderr"]) for row in document["buckets"]
            ),
            sightings=sightings,
            refusals=tuple(refusals),
            seconds=self._seconds.pop("all"),
            stages=self._seconds,
            warnings=tuple(cautions(document)),
        )

    # Pieces

    def _main_recipe(self) -> Recipe:
        question = self._dataset.question.asked
        survey = Survey.from_body(
            {
                "name": "demo",
                "text": question.text,
                "metric": question.metric,
                "encoder": question.encoder,
                "missing": self._dataset.question.missing,
                "population": len(self._dataset.values),
                "epoch": self._epoch,
                "slot": MAIN_SLOT,
                "start": self._epoch * DAY + 8 * HOUR,
                "duration": HOUR,
                "rate": rate_of(len(self._dataset.values)),
                "time_precision": PRECISION,
            }
        )
        return propose(survey, self._layout.parties)

    def _drill_recipe(self) -> Recipe:
        survey = Survey(
            name="drill",
            text="Takes part in the drill?",
            metric=DRILL_METRIC,
            encoder=Categories(kind="categories", categories=("yes", "no")),
            population=BATCH_FLOOR,
            epoch=self._epoch,
            slot=DRILL_SLOT,
            start=self._epoch * DAY + 8 * HOUR,
            duration=HOUR,
            rate=Decimal(1),
            min_batch_size=BATCH_FLOOR,
            time_precision=PRECISION,
        )
        return propose(survey, self._layout.parties)

    def _truth(self, recipe: Recipe) -> Counter[str]:
        encoder, names = encoder_of(recipe.question), labels(recipe)
        answers = (encoder.encode(value) for value in self._dataset.values)
        return Counter(names[answer] for answer in answers if isinstance(answer, int))

    def _staged(self, fleet: Fleet) -> Sequence[Device]:
        """The devices that are there for the attacks: none of them has a row of the data, nor is asked for one."""
        return fleet.devices[self._agents :]

    def _refusing(self, *, drill: bool = False, main: bool = False) -> Policy:
        """The policy of a device that refuses the recipe of the attacks, or the one that is shown."""
        limits = {"min_batch_size": BATCH_FLOOR + 1} if drill else {}
        return self._policy.model_copy(update=limits | ({"max_batch_size": BATCH_FLOOR} if main else {}))

    def _outside(self) -> str:
        """A value outside the buckets, or of no category."""
        edges = self._dataset.question.edges
        return "none of the categories" if edges is None else in_words(exact(edges[0]) - 1)


def rate_of(devices: int) -> Decimal:
    """The share of the devices that is asked."""
    return min(RATE, (Decimal(MOST_CONTRIBUTIONS) / devices).quantize(Decimal("0.001"), ROUND_DOWN))
