"""What the runs have in common that ask a series, round after round, each of which follows from the releases before it.

The rounds follow each other in one simulated day, with a pause after each for its release.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from client_agent.deciding import AgentEnv
from infra.lab.demo.attacks.common import refused_publication
from infra.lab.demo.attacks.series import UNDERSTATED_SERIES, BadRound, understated_series
from infra.lab.demo.crowded import DRAWN, Crowded
from infra.lab.demo.drill import subject_of
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.results.result import Sighting, StagedRefusal
from tacit.dp.claim import UNBOUNDED
from tacit.errors import Refusal
from tacit.operations.series_rounds import Asked
from tacit.ports import Transport
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.rules import series_table
from tacit.rules import table as rules


class SeriesRun(Crowded):
    """A world in which the rounds of a series are asked."""

    def __init__(self, *world: Any) -> None:
        """``world``: as for the class that comes after this one."""
        super().__init__(*world)
        self._asked: list[Asked] = []
        self._tried: set[str] = set()
        self._causes: Counter[str] = Counter()
        self._sampled = 0
        self._followed: tuple[int, int] | None = None
        """The device that is followed, and the slot of its token."""

    async def _publish_series(self, series: Series, transport: Transport) -> StagedRefusal:
        """The series into the log, and what became of one that understates its claim."""
        claim = understated_series(series)
        found = series_table.check(claim, self._policy, self._clock.now())
        refusal = self._refused_by_all(UNDERSTATED_SERIES, "series-claim", found)
        await refused_publication(self._signed(claim), self._layout.urls["recipe_server"], transport)
        await self._post_leaf(self._signed(series), transport)
        return refusal

    async def _contribute(self, fleet: Fleet, asked: Sequence[Recipe], world: AgentEnv) -> None:
        """One round: the devices decide, and those whose draw named it send their reports. ``asked``: the round, and
        what is asked beside it."""
        recipe, is_first = asked[0], not self._asked
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
        await self._uploading(fleet, asked, number, others)
        drawn = await fleet.count(recipe.hash, *DRAWN, first=self._agents)
        self._sampled += drawn + (0 if crowd is None else crowd.sampled)

    async def _closed(self, fleet: Fleet, recipe: Recipe, transport: Transport) -> None:
        """The round's release, from which the next one follows."""
        self._jump_to(recipe.interval.end + 1)
        await self._release(recipe, transport)
        self._asked.append((recipe, [await self._released(recipe, transport)]))
        status = await self._status("leader", subject_of(recipe, fleet), transport)
        self._causes.update(status["rejected_by_cause"])

    async def _tried_rounds(
        self, made: Iterable[BadRound | None], series: Series, transport: Transport
    ) -> list[StagedRefusal]:
        """What becomes of rounds that nobody may ask, each tried once; every one is offered to the recipe server."""
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

    def _privacy(self, series: Series) -> dict[str, Any]:
        """What all rounds together tell, in the form of a release's member."""
        one = self._asked[-1][1][0]["privacy"]
        epsilons = {
            name: value if value == UNBOUNDED else float(value) for name, value in series.claim.epsilon.root.items()
        }
        return {
            **one,
            "mechanism": f"{one['mechanism']}, {self._part_words(series)}",
            "delta": float(series.claim.delta),
            "epsilon": epsilons["aggregator"],
            "by_adversary": epsilons,
        }

    async def _sightings(self) -> tuple[Sighting, ...]:
        """What was seen of the device that was followed; nothing where none was."""
        return () if self._followed is None else await self._stack.sightings(*self._followed)

    def _part_words(self, series: Series) -> str:
        """In how many of the rounds a device takes part."""
        if series.donation is None:
            return f"in {series.rounds} rounds with a coin each"
        return f"in one of {series.rounds} rounds"
