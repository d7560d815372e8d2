"""The demo of frequent texts over secure aggregation: a search by prefixes, in the rounds of a series.

Every party and every device is as in ``infra.lab.demo.run``. A round is a histogram of its candidates, and each asks
for the extensions of the prefixes that stood out in the one before (``tacit.operations.prefix_rounds``). A device takes
part in one round at most. The rounds follow each other in one simulated day, with a pause after each for its release.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import Any

from client_agent.deciding import Deps as AgentDeps
from client_agent.journal import State
from infra.lab.demo.attacks.common import refused_publication
from infra.lab.demo.attacks.search import UNDERSTATED_SERIES, BadRound, bad_rounds, second, understated_series
from infra.lab.demo.drill import buckets_of, subject_of
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.outside import told_by_a_value_outside
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.demo.results.search_result import Round, SearchResult
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import DRAWN, MOST_AGENTS
from infra.lab.demo.staging import DAY, HOUR, Recipes, recipe_summary
from infra.lab.demo.texts_run import TextsRun
from infra.lab.demo.words import Texts
from infra.lab.kit.patience import PatientTransport
from tacit.errors import Refusal, UsageError
from tacit.operations.prefix_rounds import Progress, progress, searched
from tacit.operations.series_rounds import Asked
from tacit.ports import Transport
from tacit.recipe.candidates import asked_prefixes, candidates_of
from tacit.recipe.cautions import cautions
from tacit.recipe.context import Context, Stage
from tacit.recipe.encoder_specs import PrefixSearch
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.recipe.writing.survey import NO_VALUE
from tacit.rules import series_table
from tacit.rules import table as rules

MOST_CONTRIBUTIONS = 8_000
"""At most about so many devices take part in some round: the more devices, the lower the sampling rate."""
AGENTS_OF_A_CROWD = 60
PAUSE = HOUR // 2
"""Between two rounds."""


class SearchRun(TextsRun):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    _release_cap = "8"
    """Few devices hide little in each other, and half of them less."""

    def __init__(self, texts: Texts, epsilon: Decimal, top: int, state_dir: Path, stages: Stages) -> None:
        """``epsilon``: what a release may tell an aggregator that works with the relay. Raises ``UsageError`` for a
        domain that no search can take, and for too few devices."""
        domain = {name: value for name, value in texts.encoder.items() if name != "kind"}
        self._spec = asked_prefixes(PrefixSearch.model_validate({"kind": "prefixes", **domain}), NO_VALUE)
        self._rounds = len(self._spec.levels)
        if 8 * HOUR + self._rounds * HOUR + (self._rounds - 1) * PAUSE > DAY:
            raise UsageError(f"{self._spec.bits} bits take {self._rounds} rounds, more than fit into a day")
        super().__init__(texts, epsilon, top, state_dir, stages, ("leader", "helper"))
        self._agents = min(self._agents, AGENTS_OF_A_CROWD if len(texts.values) > MOST_AGENTS else MOST_AGENTS)
        self.series = self._planned()
        self._asked: list[Asked] = []
        self._tried: set[str] = set()
        self._sampled = 0
        self._causes: Counter[str] = Counter()
        self._followed: tuple[int, int] | None = None
        """The device that is followed, and the slot of its token."""

    async def run(self) -> SearchResult:
        """Everything, from empty folders to the ranking."""
        began = time.monotonic()
        async with self._running() as direct:
            world = AgentDeps(self._clock, self._entropy, direct)
            transport = PatientTransport(direct, self._patience)
            refused = [await self._begin(world)]
            with self._timed("recipe"):
                series, drill = self.series, self._drill_recipe()
                refused.insert(0, await self._publish_series(series, transport))
            fleet: Fleet | None = None
            while (found := progress(series, self._asked)).following is not None:
                index, text = len(self._asked), found.following.text()
                recipe = series.round(index, series.window(index), text)
                refused += await self._refused_rounds(series, found, transport) if index else []
                name = f"round {index + 1} of {self._rounds}: {found.following.bits} bits"
                with self._stages.stage(name, 4) as tick, self._stages.passing():
                    await self._publish_recipes([recipe] if index else [recipe, drill], transport)
                    tick()
                    fleet = fleet or await self._devices(world)
                    await self._contribute(fleet, Recipes(recipe, drill), world)
                    tick()
                    if not index:
                        refused += await self._drill(fleet, Recipes(recipe, drill), transport, direct)
                    await self._closed(fleet, recipe, transport)
                    tick(2)
            if fleet is None:
                raise Refusal("demo-search", "the first round has no candidates")
            refused.append(await self._refused_by_devices(fleet))
            self._seconds["all"] = time.monotonic() - began
            return await self._found(fleet, series, found, refused)

    # Stages

    async def _publish_series(self, series: Series, transport: Transport) -> StagedRefusal:
        """The series into the log, and what became of one that understates its claim."""
        claim = understated_series(series)
        found = series_table.check(claim, self._policy, self._clock.now())
        refusal = self._refused_by_all(UNDERSTATED_SERIES, "series-claim", found)
        await refused_publication(self._signed(claim), self._layout.urls["recipe_server"], transport)
        await self._post_leaf(self._signed(series), transport)
        return refusal

    async def _contribute(self, fleet: Fleet, recipes: Recipes, world: AgentDeps) -> None:
        """One round: the devices decide, and those whose draw named it send their reports."""
        recipe, is_first = recipes.main, not self._asked
        if not is_first:
            await self._settle("gateway", "recipe_server", "relay")
            with self._stages.stage("devices: log fetched by relay, verified", len(fleet.devices)) as tick:
                await fleet.sync(tick, self._patience)
        crowd = await self._crowd(recipe, world)
        if is_first:
            await self._tokens(fleet)
        await self._decide(fleet)
        number = await self._pick_followed(fleet, recipe) if self._followed is None else None
        if number is not None:
            self._followed = number, recipe.token.slot
        others = None if crowd is None else functools.partial(self._send_crowd, crowd)
        await self._uploading(fleet, recipes, number, others)
        drawn = await fleet.count(recipe.hash, *DRAWN, first=self._agents)
        self._sampled += drawn + (0 if crowd is None else crowd.sampled)

    async def _drill(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        """The attacks on the staged recipe, which is asked beside the first round."""
        with self._timed("attacks"):
            refusals = await self._attacks(fleet, recipes, transport, direct)
        drilled = self._staged(fleet)[: self.DRILLED]
        values = self._outside(), next(value for value in self._dataset.values if value.strip())
        return [*refusals, await told_by_a_value_outside(drilled, recipes, *values, self._entropy)]

    async def _closed(self, fleet: Fleet, recipe: Recipe, transport: Transport) -> None:
        """The round's release, from which the next one follows."""
        self._jump_to(recipe.interval.end + 1)
        await self._release(recipe, transport)
        self._asked.append((recipe, [await self._released(recipe, transport)]))
        status = await self._status("leader", subject_of(recipe, fleet), transport)
        self._causes.update(status["rejected_by_cause"])

    async def _refused_rounds(self, series: Series, found: Progress, transport: Transport) -> list[StagedRefusal]:
        """What becomes of rounds that nobody may ask, each tried once; every one is offered to the recipe server."""
        index, before = len(self._asked), self._asked[-1][0]
        candidates = candidates_of(before.question)
        if found.following is None or candidates is None:
            return []
        made = (*bad_rounds(series, self._spec, index, before, found.following), second(series, before, candidates))
        fresh = [bad for bad in made if bad is not None and bad.what not in self._tried]
        for bad in fresh:
            await refused_publication(self._signed(bad.recipe), self._layout.urls["recipe_server"], transport)
        self._tried.update(bad.what for bad in fresh)
        return [self._refused_by_all(bad.what, bad.rule, self._refusals(bad, series)) for bad in fresh]

    def _refusals(self, bad: BadRound, series: Series) -> list[Refusal]:
        """What the rules say of a round, in the log as it is."""
        place = -1 if bad.recipe.series is None else bad.recipe.series.index
        held = {one.series.index: one for one, _ in self._asked if one.series is not None}
        owner, before = (held.get(at) for at in (place, place - 1))
        context = Context(
            stage=Stage.PUBLISH,
            now=self._clock.now(),
            leaf=self._signed(bad.recipe),
            series=series if bad.has_series else None,
            round_owner=None if owner is None else owner.hash,
            round_before=before,
        )
        return rules.check(bad.recipe, self._policy, context)

    async def _refused_by_devices(self, fleet: Fleet) -> StagedRefusal:
        """What the journals of devices say of rounds after, or before, the one that each takes part in. Refusal
        ``demo-staged`` where one takes part in two."""
        sent, said = 0, "each was asked in one round only"
        for device in fleet.devices[: self._agents]:
            entries = [await device.entry(recipe.hash) for recipe, _ in self._asked]
            states = [entry.state for entry in entries if entry is not None]
            if states.count(State.SENT) > 1:
                raise Refusal("demo-staged", "a device took part in two rounds")
            sent += State.SENT in states
            named = [entry.detail for entry in entries if entry is not None and entry.state is State.NOT_SAMPLED]
            if State.SENT in states and named:
                said = f"of such a one, the journal says: {named[-1]}"
        words = f"{sent} of {self._agents} devices took part, each in one of {len(self._asked)} rounds; {said}"
        return StagedRefusal("a second answer of a device, asked in every round", "every device", words)

    # Pieces

    def _planned(self) -> Series:
        """The series of all rounds. Raises ``UsageError`` where there are too few devices for them."""
        number, rounds = len(self._texts.values), self._rounds
        share = min(1.0, MOST_CONTRIBUTIONS / number)
        each = min(1.0, rounds * (1 - (1 - share) ** (1 / rounds)))
        recipe = self._proposed(
            name="demo",
            text=self._dataset.question.text,
            metric=self._texts.metric,
            encoder=self._spec,
            population=number,
            slot=0,
            rate=Decimal(each).quantize(Decimal("0.001"), ROUND_UP),
            epsilon=self._epsilon,
        )
        begin = recipe.interval.start
        series = propose_series(recipe, Shape(rounds, rounds, begin, HOUR, per_epoch=rounds, pause_seconds=PAUSE))
        searched(series)
        size = series.probe.batch.min_batch_size
        if size <= self.DRILL_BATCH:
            raise UsageError(
                f"{number:,} devices are too few for {rounds} rounds, of which the last has {size} contributions; give "
                "more of them"
            )
        refusals = series_table.check(series, self._policy, self._clock.now())
        if refusals:
            raise UsageError(f"so few devices cannot be asked: {refusals[0].detail}; give more of them")
        return series

    def _drill_members(self) -> dict[str, Any]:
        return {**super()._drill_members(), "slot": self._rounds}

    def _privacy(self, series: Series) -> dict[str, Any]:
        """What all rounds together tell, in the form of a release's member."""
        one = self._asked[-1][1][0]["privacy"]
        told = {name: float(value) for name, value in series.claim.epsilon.root.items()}
        return {
            **one,
            "mechanism": f"{one['mechanism']}, in one of {series.rounds} rounds",
            "delta": float(series.claim.delta),
            "epsilon": told["aggregator"],
            "by_adversary": told,
        }

    async def _found(
        self, fleet: Fleet, series: Series, found: Progress, refused: Iterable[StagedRefusal]
    ) -> SearchResult:
        if found.ranked is None:
            raise Refusal("demo-search", "the search ended without a ranking")
        document, truth = found.ranked.members(), self._truth(series.probe)
        number, slot = self._followed or (0, 0)
        levels = zip(found.levels, found.kept, strict=True)
        return SearchResult(
            source=self._dataset.source,
            question=series.probe.question.text,
            recipe={**recipe_summary(series.probe), "name": series.name, "hash": series.hash_text},
            devices=len(self._texts.values),
            staged=len(self._staged(fleet)),
            sampled=self._sampled,
            accepted=sum(level.reports for level in found.levels),
            rejected=self._causes.total(),
            rejected_by_cause=self._causes,
            privacy=self._privacy(series),
            buckets=buckets_of(document, truth, self._top),
            sightings=await self._stack.sightings(number, slot),
            refusals=tuple(refused),
            seconds=self._seconds.pop("all"),
            stages=self._seconds,
            warnings=tuple(f"{recipe.name}: {words}" for recipe, (one,) in self._asked for words in cautions(one)),
            rounds=tuple(Round(one.candidates.bits, len(one.counts), kept, one.reports) for one, kept in levels),
            planned=series.rounds,
            **self._shown_besides(series.probe, document, truth),
        )
