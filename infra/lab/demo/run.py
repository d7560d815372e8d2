"""The demo's run: two simulated days of the whole system.

Every party is a real service on its own loopback port with its own keys and database. Every device has its own coin,
attestation identity, token and report; up to ``MOST_AGENTS`` of them are complete agents. Only time is staged: all
read one clock that the run moves from hour to hour, so that tokens are fetched through the day before, reports spread
over their interval, and the batch closes when the interval is over.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from client_agent.deciding import AgentEnv
from infra.lab.demo.crowded import DRAWN, Crowded
from infra.lab.demo.dataset import Dataset
from infra.lab.demo.drill import DRILL_METRIC, Drilled, buckets_of
from infra.lab.demo.fleet import Device, Fleet
from infra.lab.demo.outside import told_by_a_value_outside
from infra.lab.demo.results.result import DemoResult, Sighting, StagedRefusal
from infra.lab.demo.results.view import Stages
from infra.lab.demo.staging import DAY, MAIN_SLOT, WITNESSES, Recipes
from infra.lab.kit.patience import PatientTransport
from infra.stacks.options import StackOptions
from infra.stacks.service_configs import RELEASE_GRACE
from tacit.messages.one_server import OneServerReport
from tacit.models.parties import SHUFFLER
from tacit.ports import Transport
from tacit.recipe.encoder import encoder_of, labels
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.quantity import exact, in_words

if TYPE_CHECKING:
    from infra.lab.demo.crowd import Others

RATE = Decimal("0.5")
MOST_AGENTS, AGENTS_OF_A_CROWD = 500, 100
"""Up to ``MOST_AGENTS`` devices, each is a complete agent; of more, ``AGENTS_OF_A_CROWD`` are, and the others are
simulated in batches."""
CROWD_JOB = 1000
"""Reports in a job of a crowd."""
MOST_CONTRIBUTIONS = 5_000
"""At most about so many devices take part: the more devices, the lower the sampling rate."""


class DemoRun(Crowded):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    RESULT: ClassVar[type[DemoResult]] = DemoResult
    _top: int | None = None
    """How many answers are shown at most, if not all."""
    _rounds: int = 1
    """Recipes that are shown, each with a slot of tokens."""
    _release_cap: str = ""
    """The most epsilon that policies let a batch tell, if not the usual one."""
    _counted: ClassVar[bool] = False
    """Whether devices have more messages than could be sent, which are counted."""

    def __init__(
        self,
        dataset: Dataset,
        state_dir: Path,
        stages: Stages,
        servers: Sequence[str] = ("leader", "helper"),
        through: str = "gateway",
    ) -> None:
        """``through``: ``shuffler`` if the reports of the recipe that is shown pass one before the leader."""
        self._through = through
        if through == SHUFFLER:
            servers = (*servers, SHUFFLER)
        devices = len(dataset.values)
        self._dataset = dataset
        self._agents = devices if devices <= MOST_AGENTS else AGENTS_OF_A_CROWD
        options = StackOptions(
            epoch_seconds=DAY,
            slots_per_epoch=1 + self._rounds,
            batch_floor=Drilled.DRILL_BATCH,
            witnesses=WITNESSES,
            release_cap=self._release_cap,
            counted=self._counted,
        )
        if devices > self._agents:
            options = replace(options, job_size=CROWD_JOB)
        super().__init__(state_dir, options, stages, *servers)

    async def run(self) -> DemoResult:
        """Everything, from empty folders to a released histogram."""
        began = time.monotonic()
        async with self._running() as direct:
            world = AgentEnv(self._clock, self._entropy, direct)
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
            await self._uploading(fleet, recipes.both, followed, others)
            with self._timed("attacks"):
                refusals = await self._attacks(fleet, recipes, transport, direct)
            refusals.append(await self._told_outside(fleet, recipes))
            if self._through == SHUFFLER:
                await self._flush(recipes.main)
            await self._release(recipes.main, transport)
            sightings = await self._stack.sightings(followed or 0, MAIN_SLOT)
            self._seconds["all"] = time.monotonic() - began
            attempts = [claimed, second, *refusals]
            return await self._result(fleet, crowd, recipes.main, sightings, attempts, transport)

    @property
    def _has_crowd(self) -> bool:
        """Whether devices beyond the agents make reports, in batches."""
        return len(self._dataset.values) > self._agents

    # Stages

    async def _devices(self, world: AgentEnv) -> Fleet:
        metric = self._dataset.question.metric
        data = [{metric: value} for value in self._dataset.values[: self._agents]]
        data += [{DRILL_METRIC: "yes"}] * (self.DRILLED - 1) + [{DRILL_METRIC: "neither"}] + [{}] * self.ROBBED
        policies = [self._refusing(drill=True)] * self._agents + [self._refusing(main=True)] * self.DRILLED
        policies += [self._refusing(drill=True, main=True)] * self.ROBBED
        with self._timed("devices"), self._stages.stage("devices: attestation identities", len(data)) as tick:
            fleet = Fleet.make(self._layout, policies, data, world, tick)
        self._jump_to((self._epoch - 1) * DAY)
        await self._settle("recipe_server")
        with self._timed("log"), self._stages.stage("devices: log fetched by relay, verified", len(data)) as tick:
            await fleet.sync(tick, self._patience)
        return fleet

    async def _crowd(self, recipe: Recipe, world: AgentEnv) -> Others | None:
        """The other devices of a large data set: their coins, tokens and reports, made the day before."""
        if not self._has_crowd:
            return None
        from infra.lab.devices.population import listed_population

        encoder = encoder_of(recipe.question)
        answers = [encoder.encode(value if value.strip() else None) for value in self._dataset.values[self._agents :]]
        return await self._crowd_of(recipe, world, len(answers), listed_population("the data", answers))

    def _report_id(self, model: str, body: bytes) -> bytes:
        """The id of the report in a submission; of one to a shuffler the outer id, by which nobody else knows it."""
        if self._through == SHUFFLER:
            return OneServerReport.decode(body).report_id
        return super()._report_id(model, body)

    async def _flush(self, recipe: Recipe) -> None:
        """The shuffler passes on the reports of a recipe whose interval is over."""
        with self._timed("shuffle"), self._stages.stage("shuffler: reports in one random order to the leader", 1):
            self._jump_to(recipe.interval.end + RELEASE_GRACE + 1)
            await self._settle(SHUFFLER, "leader")

    async def _told_outside(self, fleet: Fleet, recipes: Recipes) -> StagedRefusal:
        """What became of telling by participation that a device's value is outside the answers."""
        drilled = self._staged(fleet)[: self.DRILLED]
        return await told_by_a_value_outside(drilled, recipes, self._outside(), self._inside(), self._entropy)

    async def _result(
        self,
        fleet: Fleet,
        crowd: Others | None,
        recipe: Recipe,
        sightings: tuple[Sighting, ...],
        refusals: list[StagedRefusal],
        transport: Transport,
    ) -> DemoResult:
        document, truth = await self._released(recipe, transport), self._truth(recipe)
        drawn = await fleet.count(recipe.hash, *DRAWN, first=self._agents)
        return self.RESULT(
            **await self._members(fleet, recipe, document, transport),
            source=self._dataset.source,
            devices=len(self._dataset.values),
            staged=len(self._staged(fleet)),
            sampled=drawn + (0 if crowd is None else crowd.sampled),
            buckets=buckets_of(document, truth, self._top),
            sightings=sightings,
            refusals=tuple(refusals),
            **self._shown_besides(recipe, document, truth),
        )

    def _shown_besides(self, recipe: Recipe, document: Mapping[str, Any], truth: Counter[str]) -> dict[str, Any]:
        """The further members of ``RESULT``."""
        del recipe, document, truth
        return {}

    # Pieces

    def _main_recipe(self) -> Recipe:
        question = self._dataset.question.asked
        return self._proposed(
            name="demo",
            text=question.text,
            metric=question.metric,
            encoder=question.encoder,
            missing=self._dataset.question.missing,
            population=len(self._dataset.values),
            slot=MAIN_SLOT,
            **self._main_members(),
        )

    def _main_members(self) -> dict[str, Any]:
        """What the recipe that is shown asks besides."""
        return {"rate": rate_of(len(self._dataset.values)), "through": self._through}

    def _truth(self, recipe: Recipe) -> Counter[str]:
        encoder, names = encoder_of(recipe.question), labels(recipe)
        answers = (encoder.encode(value) for value in self._dataset.values)
        return Counter(names[answer] for answer in answers if isinstance(answer, int))

    def _staged(self, fleet: Fleet) -> Sequence[Device]:
        """The devices that are there for the attacks: none of them has a row of the data, nor is asked for one."""
        return fleet.devices[self._agents :]

    def _refusing(self, *, drill: bool = False, main: bool = False) -> Policy:
        """The policy of a device that refuses the recipe of the attacks, or the one that is shown."""
        size = self.DRILL_BATCH
        limits = {"min_batch_size": size + 1} if drill else {}
        return self._policy.model_copy(update=limits | ({"max_batch_size": size} if main else {}))

    def _inside(self) -> str:
        """The first value of the data set that is not blank."""
        return next(value for value in self._dataset.values if value.strip())

    def _outside(self) -> str:
        """A value outside the buckets, or of no category."""
        edges = self._dataset.question.edges
        return "none of the categories" if edges is None else in_words(exact(edges[0]) - 1)


def rate_of(devices: int, most: int = MOST_CONTRIBUTIONS, highest: Decimal = RATE) -> Decimal:
    """The share of the devices that is asked, so that about ``most`` of them take part; of few devices so many that
    their coins leave the batch below B, which is 0.8 of the expected contributions, in one run of three million: five
    standard deviations."""
    surely = Decimal(625) / (devices + 625)  # 0.2 q n >= 5 sqrt(n q (1 - q))
    share = min(max(highest, surely), Decimal(most) / devices)
    return share.quantize(Decimal("0.001"), ROUND_UP if share == surely else ROUND_DOWN)
