"""The demo of a training run: devices that each hold handwritten digits train one model, in the rounds of a series.

All parties are the real ones. ``AGENTS`` of the devices are agents of their own, which fetch the round's model through
the relay and train it; the others are those of ``tacit fleet``. Each has its own digits, coins, attestation identity,
tokens and sealed reports with a proof of their length. What follows from a round's release is worked out as by
everybody who reads the log (``tacit.operations.learning.rounds``). One more agent is there for its token.

Some devices may lie. What is at work on them ignores the coin, takes part in every round with the device's own token,
and adds the longest vector that the proof lets through, in the direction in which the next model's loss grows fastest
(``infra.lab.learning.rounds``, whose liars have seen the sum of the others; these have seen what all would send).
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from client_agent.deciding import AgentEnv
from client_agent.journal import State
from infra.lab.demo.attacks.common import refusals_of
from infra.lab.demo.attacks.learning import Poisoner, bad_models, refused_file, refused_histories
from infra.lab.demo.crowd import Others
from infra.lab.demo.fleet import Fleet, loot_of
from infra.lab.demo.results.learn_result import CENTRAL, HONEST, NONE, LearnResult, Lies, Line, Step
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.demo.results.view import Stages
from infra.lab.demo.series_run import SeriesRun
from infra.lab.demo.staging import DAY, HOUR, WITNESSES, recipe_summary
from infra.lab.kit.patience import PatientTransport
from infra.lab.learning.bench import central_noise, own_noise
from infra.lab.learning.learners import Learners, people_of
from infra.lab.learning.rounds import Central, Flips, tested, trained, vectors_of, worst_direction
from infra.stacks.options import StackOptions
from tacit.errors import Refusal, UsageError
from tacit.learning import model_file
from tacit.learning.plan import Plan
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.models.devices import device_side
from tacit.models.secure_aggregation.device import DapChannel
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.operations.learning.plans import flips_of, planned_series
from tacit.operations.learning.rounds import NextRound, next_round, run_of
from tacit.operations.publishing import send_model
from tacit.ports import Transport
from tacit.recipe.claims import independent_claim
from tacit.recipe.model import Recipe, TokenSlot
from tacit.recipe.quantity import exact
from tacit.recipe.training import read_round_model
from tacit.rules import series_table

SOURCE = "8 x 8 handwritten digits (UCI), dealt out unevenly"
JOB_SIZE = 64
"""Reports in a job: few enough that leader and helper verify while devices still send."""
AGENTS, STAGED = 20, 1
SEED = 1
"""Which devices hold which digits: always the same, so that runs can be compared."""
FIRST_HOUR = 1
"""Of the day, when the first round begins."""
CAPS = 16
"""Times the epsilon of the run that policies let a batch, and budgets let all rounds, tell: few devices hide little in
each other."""


class LearnRun(SeriesRun):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    _upload_slices = 2

    def __init__(self, plan: Plan, state_dir: Path, stages: Stages, liars: int = 0) -> None:
        """``liars``: how many of the plan's devices lie. Raises ``FieldError`` for a plan without a series, with what
        would have one, and ``UsageError`` where the run takes longer than a day, or where devices refuse it."""
        if FIRST_HOUR * HOUR + plan.seconds > DAY:
            raise UsageError(f"{plan.rounds} rounds take longer than a day; give fewer --rounds")
        most = f"{CAPS * plan.epsilon:f}"
        options = StackOptions(
            epoch_seconds=DAY,
            slots_per_epoch=plan.rounds + 1,
            batch_floor=self.DRILL_BATCH,
            witnesses=WITNESSES,
            release_cap=most,
            account_epsilon=most,
            unbounded_local=True,
            job_size=JOB_SIZE,
        )
        super().__init__(state_dir, options, stages, "leader", "helper")
        parties, start = self._layout.parties_of(self.MODEL), self._epoch * DAY + FIRST_HOUR * HOUR
        token = TokenSlot(issuer=parties.issuer.name, epoch=self._epoch, slot=0)
        self._plan = plan
        self._agents = AGENTS
        self._liars = liars
        self.series = planned_series(plan, parties, start, token, per_epoch=plan.rounds)
        refusals = series_table.check(self.series, self._policy, self._clock.now())
        if refusals:
            raise UsageError(f"no device takes part in such a run: {refusals[0].detail}")
        self._people = people_of(plan.devices, SEED)
        self._model, self._clip = b"", plan.clip
        self._steps: list[Step] = []

    async def run(self) -> LearnResult:
        """Everything, from empty folders to the trained model."""
        began = time.monotonic()
        async with self._running() as direct:
            world = AgentEnv(self._clock, self._entropy, direct)
            transport = PatientTransport(direct, self._patience)
            beside = asyncio.ensure_future(asyncio.to_thread(self._beside))
            refused = [await self._begin(world)]
            with self._timed("recipe"):
                refused.insert(0, await self._publish_series(self.series, transport))
            fleet: Fleet | None = None
            while (following := self._following()) is not None:
                refused += await self._refused_rounds(following, transport)
                with self._stages.stage(self._title(), 4) as tick, self._stages.passing():
                    refused += await self._publish_model(following, transport)
                    tick()
                    fleet = fleet or await self._devices(world)
                    await self._contribute(fleet, [following.recipe], world)
                    tick()
                    await self._lie(fleet, following.recipe, direct)
                    refused += await self._attacked(fleet, following.recipe, transport, direct)
                    await self._closed(fleet, following.recipe, transport)
                    self._measure()
                    tick(2)
            self._seconds["all"] = time.monotonic() - began
            return await self._found(await beside, refused)

    # Stages

    def _following(self) -> NextRound | None:
        """What the log and the releases say comes next; None once the run is over, or while it waits for a release.
        Raises ``UsageError`` if it is too late for every round that is left."""
        run = run_of(self._plan, self.series, self._asked)
        return next_round(self._plan, self.series, run, self._clock.now())

    def _title(self) -> str:
        """The name of the stage of the next round."""
        name = f"round {len(self._steps) + 1} of {self._plan.rounds}"
        return f"{name}; loss so far {self._steps[-1].loss:.2f}" if self._steps else name

    async def _publish_model(self, following: NextRound, transport: Transport) -> list[StagedRefusal]:
        """The round into the log, and its model to where devices fetch it; and what became of another file there, which
        is tried once."""
        recipe, server = following.recipe, self._layout.urls["recipe_server"]
        await self._publish_recipes([recipe], transport)
        stated = read_round_model(recipe.question.round_input or "", self._plan.training)
        refused = [] if self._asked else [await refused_file(transport, server, stated, following.model)]
        await send_model(transport, server, stated, following.model)
        self._model, self._clip = following.model, stated.clip
        return refused

    async def _devices(self, world: AgentEnv) -> Fleet:
        """The agents with their digits, and those that refuse every round: one, and the devices of liars, whose tokens
        something else uses."""
        others = self._plan.devices - AGENTS
        data = [{self._plan.metric: self._people.text(others + number)} for number in range(AGENTS)]
        refusing = self._policy.model_copy(update={"max_batch_size": 1})
        policies = [self._policy] * AGENTS + [refusing] * (STAGED + self._liars)
        with self._timed("devices"), self._stages.stage("agents: attestation identities", len(policies)) as tick:
            fleet = Fleet.make(self._layout, policies, [*data, *[{}] * (STAGED + self._liars)], world, tick)
        self._jump_to((self._epoch - 1) * DAY)
        await self._settle("recipe_server")
        with self._timed("log"), self._stages.stage("agents: log and model by relay, verified", len(policies)) as tick:
            await fleet.sync(tick, self._patience)
        return fleet

    async def _crowd(self, recipe: Recipe, world: AgentEnv) -> Others | None:
        plan = self._plan
        learners = Learners(plan.encoder, self._clip, self._model, plan.devices, SEED)
        return await self._crowd_of(recipe, world, plan.devices - AGENTS - self._liars, learners)

    async def _lie(self, fleet: Fleet, recipe: Recipe, direct: Transport) -> None:
        """What liars add to the round."""
        liars = fleet.devices[AGENTS + STAGED :]
        if not liars:
            return
        with self._timed("liars"), self._stages.stage("liars: the worst that a proof lets through", 1) as tick:
            channel = device_side(recipe.model).channel(recipe, liars[0].agent.live.slot_key(recipe))
            if not isinstance(channel, DapChannel):
                raise Refusal("demo-staged", "the rounds are not for two servers")
            direction, poisoner = await asyncio.to_thread(self._worst), Poisoner(channel, self._entropy)
            tokens = [await loot_of(device, recipe.token.slot) for device in liars]
            bodies = await asyncio.to_thread(lambda: [poisoner.longest(direction, token) for token in tokens])
            await self._offer_all(channel.url, recipe.model, bodies, direct)
            tick()

    def _worst(self) -> list[float]:
        """The direction that does the round's model most harm, as far as the others' updates can be foreseen."""
        plan, parameters = self._plan, model_file.decode(self._model)
        everybody = np.arange(plan.devices - self._liars, dtype=np.int64)
        mean = vectors_of(self._people, everybody, parameters, plan.encoder, self._clip).mean(axis=0)
        found: list[float] = worst_direction(self._people, plan, parameters, mean, self._clip).tolist()
        return found

    async def _attacked(
        self, fleet: Fleet, recipe: Recipe, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        """What became of contributions that must not count, beside that of the device that is followed; tried in the
        round in which it takes part."""
        if self._followed is None or self._followed[1] != recipe.token.slot:
            return []
        victim, staged = fleet.devices[self._followed[0]], fleet.devices[AGENTS]
        channel = device_side(recipe.model).channel(recipe, victim.agent.live.slot_key(recipe))
        entry = await victim.entry(recipe.hash)
        if entry is None or entry.state is not State.SENT or not isinstance(channel, DapChannel):
            raise Refusal("demo-staged", "the device that is followed has not sent its report")
        spent, unspent = [await loot_of(device, recipe.token.slot) for device in (victim, staged)]
        poisoner = Poisoner(channel, self._entropy)
        with self._timed("attacks"), self._stages.stage("updates that must not count", 2) as tick:
            again = poisoner.again(device_randomiser_of(flips_of(self.series)).dummy(self._entropy), spent)
            attempts = [again, await asyncio.to_thread(poisoner.too_long, unspent)]
            bodies = [attempt.body for attempt in attempts]
            await self._offer_all(channel.url, recipe.model, bodies, direct)
            tick()
            self._jump_to(recipe.interval.end + 1)
            statuses = {name: await self._settled(name, recipe, fleet, transport) for name in self._servers}
            return refusals_of(attempts, {name: one["rejected_by_cause"] for name, one in statuses.items()})

    async def _refused_rounds(self, following: NextRound, transport: Transport) -> list[StagedRefusal]:
        """What becomes of rounds with other models than those of the run; tried once."""
        if self._tried or not self._asked:
            return []
        before, plan = self._asked[-1][0], self._plan
        found = await self._tried_rounds(bad_models(self.series, before, following, plan.clip), self.series, transport)
        follow = functools.partial(run_of, plan, self.series)
        return found + refused_histories(follow, self.series, self._asked, following, plan.clip)

    def _measure(self) -> None:
        """Test the model that the last round gave."""
        plan, rounds = self._plan, len(self._asked)
        run = run_of(plan, self.series, self._asked)
        one = tested(run.rounds[-1].contributions or 0, model_file.decode(run.model), self._people.test, plan.training)
        claim = independent_claim(self.series.probe, rounds, float(plan.delta))
        self._steps.append(Step(one.contributions, one.loss, one.accuracy, claim[SecureAggregation.charged]))

    def _beside(self) -> tuple[Line, ...]:
        """The same training with a trusted server, without privacy and, where devices lie, without liars."""
        plan, epsilon = self._plan, float(self._plan.epsilon)

        def line(name: str, noise: Central | Flips | None, epsilon: float | None) -> Line:
            rounds = trained(self._people, plan, noise, SEED)
            return Line(name, tuple(one.loss for one in rounds), rounds[-1].accuracy, epsilon)

        honest = [line(HONEST, own_noise(plan), epsilon)] if self._liars else []
        return line(CENTRAL, central_noise(plan), epsilon), line(NONE, None, None), *honest

    async def _found(self, beside: tuple[Line, ...], refused: Iterable[StagedRefusal]) -> LearnResult:
        plan, series = self._plan, self.series
        return LearnResult(
            source=SOURCE,
            question=plan.text,
            recipe={**recipe_summary(series.probe), "name": series.name, "hash": series.hash_text},
            devices=plan.devices,
            staged=STAGED,
            sampled=self._sampled,
            accepted=sum(step.contributions for step in self._steps),
            rejected=self._causes.total(),
            rejected_by_cause=self._causes,
            privacy=self._privacy(series),
            buckets=(),
            sightings=await self._sightings(),
            refusals=tuple(refused),
            seconds=self._seconds.pop("all"),
            stages=self._seconds,
            warnings=(),
            steps=tuple(self._steps),
            beside=beside,
            clip=float(exact(plan.clip)),
            lies=Lies(self._liars, own_noise(plan).longest) if self._liars else None,
        )
