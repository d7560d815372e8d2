"""``tacit series next`` and ``run``: search for frequent texts round by round. What is asked next follows from the log
and the releases alone, so that a search can be taken up again at any time, on any machine that reads both."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.authoring.recipe_options import AnalystKey
from infra.stacks.command_options import AsJson, StateDir, checked_name, layout_of, policy_of
from infra.views.terminal import answers, notes, print_json
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError

if TYPE_CHECKING:
    from infra.stacks.layout import Layout
    from tacit.operations.prefix_rounds import Progress
    from tacit.operations.series_rounds import Asked
    from tacit.ports import Transport
    from tacit.recipe.model import Recipe
    from tacit.recipe.series import Ended, Series

SeriesName = Annotated[str, typer.Argument(metavar="HASH|NAME", help="A series in the stack's log.")]
Wait = Annotated[
    float,
    typer.Option("--wait", min=0, metavar="SECONDS", help="Wait so long for a release, from the end of its round."),
]
FalsePositives = Annotated[
    float,
    typer.Option("--false-positives", help="Probability with which a round keeps a prefix that nobody has, at most."),
]


def next_round(
    series: SeriesName,
    wait: Wait = 120.0,
    false_positives: FalsePositives = 0.05,
    state_dir: StateDir = None,
    key: AnalystKey = None,
    as_json: AsJson = False,
) -> None:
    """Collect the round of a search for frequent texts that was published last, and publish the one that follows from
    it; after the last one, show which texts were found. Waits for the end of the round.

    Example: tacit series next words --state-dir .tacit
    """
    search = _Search(layout_of(state_dir), checked_name(series), wait, false_positives, key)
    search.step(as_json=as_json)


def run(
    series: SeriesName,
    wait: Wait = 120.0,
    false_positives: FalsePositives = 0.05,
    state_dir: StateDir = None,
    key: AnalystKey = None,
    as_json: AsJson = False,
) -> None:
    """Search for frequent texts: what `tacit series next` does, until all rounds are over. May be ended at any time and
    started again.

    Example: tacit series run words --state-dir .tacit
    """
    search = _Search(layout_of(state_dir), checked_name(series), wait, false_positives, key)
    while not search.step(as_json=as_json):
        pass


class _Search:
    """One series in the log of a local stack, and how its search goes on."""

    def __init__(self, layout: Layout, name: str, wait: float, false_positives: float, key: Path | None) -> None:
        if not 0 < false_positives < 1:
            raise typer.BadParameter("--false-positives must be above 0 and below 1")
        self._layout, self._name, self._wait = layout, name, wait
        self._rate, self._key = false_positives, key or layout.analyst_key

    def step(self, *, as_json: bool) -> bool:
        """Collect, and publish the next round or show the result; returns whether the search is over."""
        from infra.views.search_view import search_document, show_search

        series, found, published = asyncio.run(self._step())
        if as_json:
            print_json(search_document(series, found, published))
        else:
            show_search(series, found, published, answers())
        return found.ranked is not None

    async def _step(self) -> tuple[Series, Progress, dict[str, Any] | None]:
        """The series, where its search is, and the round that was published now, if one was."""
        from tacit.operations.prefix_rounds import next_round, progress

        async with self._layout.transport() as transport:
            series, rounds, ended = await self._read(transport)
            found = progress(series, rounds, self._rate)
            recipe = next_round(series, found, SystemClock().now(), ended)
            return series, found, None if recipe is None else await self._publish(transport, recipe, len(rounds))

    async def _read(self, transport: Transport) -> tuple[Series, list[Asked], Ended | None]:
        """The series, its rounds with their releases, and how it was ended; the last round is collected first. Raises
        ``UsageError``, and ``Refusal`` if its batch is refused."""
        from infra.commands.results import collector_access, explain_unreleased
        from infra.stacks.api import whole_log
        from tacit.operations.prefix_rounds import rounds_of
        from tacit.operations.results import read_results
        from tacit.operations.series_rounds import await_releases

        log = await whole_log(transport, self._layout, policy_of(self._layout.policy_path))
        series, recipes = rounds_of(log, self._name)
        access = collector_access(self._layout)
        rounds: list[Asked] = []
        for recipe in recipes:
            if recipe is recipes[-1]:
                with notes().status(f"waiting for the release of {recipe.name}"):
                    found = await await_releases(transport, access, recipe, SystemClock(), self._wait)
            else:
                found = await read_results(transport, access, recipe.hash_text)
            if not found:
                waits_for = await explain_unreleased(self._layout, transport, recipe.hash_text)
                raise UsageError(
                    f"{recipe.name} is not released: {waits_for}. Collect it first: tacit collect {recipe.name}"
                )
            rounds.append((recipe, found))
        return series, rounds, log.ended(series.hash)

    async def _publish(self, transport: Transport, recipe: Recipe, index: int) -> dict[str, Any]:
        """Sign the round and put it into the log."""
        from tacit.operations.series_rounds import publish_round
        from tacit.service.base.keys import read_signing_key

        server = self._layout.urls["recipe_server"]
        entry = await publish_round(transport, server, recipe, read_signing_key(self._key))
        return {"name": recipe.name, "hash": recipe.hash_text, "index": entry, "round": index}
