"""The demo of frequent texts over secure aggregation: a search by prefixes, in the rounds of a series.

Every party and every device is as in ``infra.lab.demo.run``. A round is a histogram of its candidates, and each asks
for the extensions of the prefixes that stood out in the one before (``tacit.operations.prefix_rounds``). A device takes
part in one round at most. The rounds follow each other in one simulated day, with a pause after each for its release.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from decimal import ROUND_UP, Decimal
from pathlib import Path
from statistics import NormalDist
from typing import Any

from client_agent.deciding import AgentEnv
from client_agent.journal import State
from infra.lab.demo.attacks.series import BadRound
from infra.lab.demo.drill import buckets_of
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.outside import told_by_a_value_outside
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.demo.results.search_result import Round, SearchResult
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import MOST_AGENTS
from infra.lab.demo.series_run import SeriesRun
from infra.lab.demo.staging import DAY, HOUR, Recipes, recipe_summary
from infra.lab.demo.texts_run import Expected, TextsRun
from infra.lab.demo.words import Texts
from infra.lab.kit.patience import PatientTransport
from tacit.counting_words import plural
from tacit.errors import Refusal, UsageError
from tacit.operations.design_rounds import expected_levels
from tacit.operations.prefix_rounds import Progress, progress, search_encoder
from tacit.ports import Transport
from tacit.recipe.candidates import Candidates, asked_prefixes, candidates_of, extensions
from tacit.recipe.cautions import cautions
from tacit.recipe.encoder_specs import Prefixes, PrefixSearch
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.recipe.writing.survey import NO_VALUE
from tacit.rules import series_table


def bad_rounds(series: Series, spec: Prefixes, index: int, before: Recipe, following: Candidates) -> Iterator[BadRound]:
    """Recipes for round ``index`` > 0, in place of the one that asks for ``following``. ``before``: the round
    before."""
    window = series.window(index)
    rule = "round-candidates"
    many = Candidates(following.bits, tuple(range(spec.candidates + 1))).text()
    yield BadRound("a round with more candidates than its search states", rule, series.round(index, window, many))
    earlier = series.round(index, window, before.question.round_input)
    yield BadRound("a round that asks again what the one before asked", rule, earlier)
    strange = _strange(spec, candidates_of(before.question), following.bits)
    if strange is not None:
        what = "a round about a prefix that the one before did not ask of"
        yield BadRound(what, rule, series.round(index, window, strange.text()))
    other = Series.from_body({**series.body(), "name": f"{series.name}-two"})
    stolen = other.round(index, window, following.text())
    yield BadRound("these candidates in a round of another series", "series-missing", stolen, has_series=False)


def second(series: Series, recipe: Recipe, found: Candidates) -> BadRound | None:
    """Another recipe for the round that ``recipe``, asking of ``found``, holds in the log; None where it has one
    candidate only."""
    if recipe.series is None or len(found.prefixes) < 2:
        return None
    fewer = Candidates(found.bits, found.prefixes[:-1]).text()
    made = series.round(recipe.series.index, recipe.interval, fewer)
    return BadRound("a second recipe for a round that was asked", "series-round", made)


def _strange(spec: Prefixes, before: Candidates | None, bits: int) -> Candidates | None:
    """A prefix of ``bits`` bits that begins with no candidate of ``before``; None where these are all that there
    are."""
    if before is None:
        return None
    short = spec.levels[0]
    known = {one >> before.bits - short for one in before.prefixes}
    every = extensions(spec, 0, 0, short, spec.candidates) or []
    first = next((one for one in every if one not in known), None)
    longer = [] if first is None else (extensions(spec, first, short, bits, 1 << 16) or [])
    return Candidates(bits, (longer[0],)) if longer else None


MOST_CONTRIBUTIONS = 8_000
"""At most about so many devices take part in some round: the more devices, the lower the sampling rate."""
AGENTS_OF_A_CROWD = 60
PAUSE = HOUR // 2
"""Simulated seconds between two rounds."""
FIRST = 8 * HOUR
MOST_ROUNDS = (DAY - FIRST + PAUSE) // (HOUR + PAUSE)
"""So many fit into a day."""


class SearchRun(SeriesRun, TextsRun):
    """One run, stage by stage; ``run`` returns everything that there is to show."""

    _release_cap = "8"
    """Few devices hide little in each other, and half of them less."""

    def __init__(self, texts: Texts, epsilon: Decimal, top: int, state_dir: Path, stages: Stages) -> None:
        """``epsilon``: what a release may tell an aggregator that works with the relay. Raises ``UsageError`` for a
        domain that no search can take, and for too few devices."""
        domain = {name: value for name, value in texts.encoder.items() if name != "kind"}
        self._spec = asked_prefixes(PrefixSearch.model_validate({"kind": "prefixes", **domain}), NO_VALUE)
        self._rounds = len(self._spec.levels)
        if self._rounds > MOST_ROUNDS:
            raise UsageError(f"{self._spec.bits} bits take {self._rounds} rounds, more than fit into a day")
        super().__init__(texts, epsilon, top, state_dir, stages, ("leader", "helper"))
        self._agents = min(self._agents, AGENTS_OF_A_CROWD if len(texts.values) > MOST_AGENTS else MOST_AGENTS)
        self.series = self._planned(len(texts.values))
        self._require_enough(self._expected)

    async def run(self) -> SearchResult:
        """Everything, from empty folders to the ranking."""
        began = time.monotonic()
        async with self._running() as direct:
            world = AgentEnv(self._clock, self._entropy, direct)
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
                    await self._contribute(fleet, (recipe, drill), world)
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

    async def _drill(
        self, fleet: Fleet, recipes: Recipes, transport: Transport, direct: Transport
    ) -> list[StagedRefusal]:
        """The attacks on the staged recipe, which is asked beside the first round."""
        with self._timed("attacks"):
            refusals = await self._attacks(fleet, recipes, transport, direct)
        drilled = self._staged(fleet)[: self.DRILLED]
        values = self._outside(), next(value for value in self._dataset.values if value.strip())
        return [*refusals, await told_by_a_value_outside(drilled, recipes, *values, self._entropy)]

    async def _refused_rounds(self, series: Series, found: Progress, transport: Transport) -> list[StagedRefusal]:
        """What becomes of rounds that nobody may ask, each tried once; every one is offered to the recipe server."""
        index, before = len(self._asked), self._asked[-1][0]
        candidates = candidates_of(before.question)
        if found.following is None or candidates is None:
            return []
        made = (*bad_rounds(series, self._spec, index, before, found.following), second(series, before, candidates))
        return await self._tried_rounds(made, series, transport)

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
        words = (
            f"{sent} of {self._agents} devices took part, each in one of {plural(len(self._asked), 'round')}; {said}"
        )
        return StagedRefusal("a second answer of a device, asked in every round", "every device", words)

    # Pieces

    def _expected(self, number: int, most: float) -> Expected | None:
        try:
            levels = expected_levels(self._planned(number), number)
        except UsageError:
            return None
        share = most / number
        chances = [
            NormalDist(share, one.stderr(one.expected(share))).cdf(2 * share - one.share(one.least)) for one in levels
        ]
        return Expected(number * max(one.share(one.least) for one in levels), math.prod(chances))

    def _planned(self, number: int) -> Series:
        """The series of all rounds for so many devices. Raises ``UsageError`` where they are too few for them."""
        rounds = self._rounds
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
        search_encoder(series)
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

    async def _found(
        self, fleet: Fleet, series: Series, found: Progress, refused: Iterable[StagedRefusal]
    ) -> SearchResult:
        if found.ranked is None:
            raise Refusal("demo-search", "the search ended without a ranking")
        document, truth = found.ranked.members(), self._truth(series.probe)
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
            sightings=await self._sightings(),
            refusals=tuple(refused),
            seconds=self._seconds.pop("all"),
            stages=self._seconds,
            warnings=tuple(f"{recipe.name}: {words}" for recipe, (one,) in self._asked for words in cautions(one)),
            rounds=tuple(Round(one.candidates.bits, len(one.counts), kept, one.reports) for one, kept in levels),
            planned=series.rounds,
            **self._shown_besides(series.probe, document, truth),
        )
