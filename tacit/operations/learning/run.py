"""Takes a training run from round to round: publishes the next one, hands out its model, and awaits its release.

Where a run is follows from the plan, the log and the releases alone (``tacit.operations.learning.rounds``), so one that
was ended goes on at any time, on any machine that has the three. Whatever is sent again is the same as before.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from tacit.answers import may_pass
from tacit.errors import Abort, Refusal, UsageError
from tacit.learning.plan import Plan
from tacit.logview.live import LiveLog, LiveRecipe, LiveSeries
from tacit.operations.learning.rounds import Before, NextRound, Run, Trained, next_round, run_of
from tacit.operations.publishing import send_leaf, send_model, signed_leaf
from tacit.operations.results import PASSING, CollectorAccess, read_results
from tacit.operations.series_rounds import Asked, await_releases, publish_round, published_rounds, series_called
from tacit.ports import Clock, Transport, TransportError
from tacit.recipe.asking import asked_until
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.training import read_round_model
from tacit.signing import Signer
from tacit.time_format import format_utc

LOOK_SECONDS: Final = 1.0
"""The shortest pause between two reads of the log."""
LOOKS: Final = 50
"""About how many reads of the log a wait takes."""
TRIES: Final = 7
"""How often a step is taken while a service does not answer, which may be starting."""
TRY_SECONDS: Final = 10.0
"""The pause between two tries."""


@dataclass(frozen=True)
class Place:
    """Where a run takes place: ``log`` reads the whole log, the collector releases, and ``clock`` tells the time."""

    transport: Transport
    log: Callable[[], Awaitable[LiveLog]]
    collector: CollectorAccess
    clock: Clock

    @property
    def server(self) -> str:
        """The base URL of the recipe server, as the collector's access states it."""
        return self.collector.recipe_server


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run is: its ``series`` in the log, and its published ``rounds`` there, one for each of ``run.rounds``.
    ``passed_over``: why the newest round is not waited for any more; empty while it is."""

    series: LiveSeries
    rounds: tuple[LiveRecipe, ...]
    run: Run
    passed_over: str = ""

    @property
    def is_waiting(self) -> bool:
        """Whether the newest round is published and its release may still come."""
        return self.run.waits_for is not None and not self.passed_over

    @property
    def is_over(self) -> bool:
        """Whether no round follows, or none may as the series was ended, and none is waited for."""
        return (self.run.following is None or self.series.ended is not None) and not self.is_waiting

    @property
    def trained(self) -> list[tuple[LiveRecipe, Trained, bytes]]:
        """The published rounds, each with the file of the model after it."""
        models = [*(one.model for one in self.run.rounds), self.run.model]
        return list(zip(self.rounds, self.run.rounds, models[1:], strict=True))


@dataclass(frozen=True, slots=True)
class Paused:
    """What a run waits for, in ``words``, and when to look again, in POSIX seconds."""

    words: str
    until: float


async def published_series(at: Place, series: Series, key: Signer) -> LiveSeries:
    """Sign a series as its analyst, put it into the log, and wait until the log shows it. Raises as
    ``tacit.operations.publishing``."""
    await send_leaf(at.transport, at.server, signed_leaf(series, key))
    found = None
    while found is None:
        found = series_called(await at.log(), series.hash_text)
        await at.clock.sleep(0 if found is not None else LOOK_SECONDS)
    return found


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is waited for, from ``start`` to ``end`` (POSIX seconds) at the latest, and not for longer than ``last``."""

    words: str
    start: float
    end: float
    last: float


@dataclass
class LearningRun:
    """The run of ``plan`` whose series has this ``name`` or hash. ``key``: the analyst's; ``wait``: so many seconds
    after the end of its reports, a round is passed over; ``telling``: shows what is waited for, while it is;
    ``initial``: the first model's file, where only the application knows the model; ``noting``: is called with each
    round that the log has taken, and its index there; ``tries``: how often a step is taken while a service does not
    answer; ``keeps_models``: whether standings have the models of rounds before the newest, too, which are found anew
    from all releases every time."""

    plan: Plan
    name: str
    at: Place
    key: Signer
    wait: float
    telling: Callable[[Waiting], AbstractContextManager[object]]
    initial: bytes | None = None
    noting: Callable[[Recipe, int], Awaitable[None]] | None = None
    tries: int = TRIES
    keeps_models: bool = True
    _before: list[Before] = field(default_factory=list, repr=False)
    _released: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict, repr=False)
    _handed: set[str] = field(default_factory=set, repr=False)
    _awaited_from: dict[str, float] = field(default_factory=dict, repr=False)

    async def standings(self) -> AsyncIterator[Standing]:
        """Where the run is, first as it is found and then after every round, until it is over. Raises ``UsageError``
        for a series of another plan and where it is too late for all rounds that are left, ``Refusal``, and as
        ``tacit.operations.calls.call``."""
        found = await self.standing()
        while True:
            yield found
            if found.is_over:
                return
            begin_or_resume = self._hand_out_again if found.is_waiting else self._begin
            found = await self._patiently(begin_or_resume, found)
            found = await self._patiently(self._finish, found)

    async def advanced(self) -> Paused | None:
        """Take the run as far as it goes without waiting, and return what it waits for then; None: it is over. The
        next call goes on, as every step may be taken again. Raises as ``standings``, and ``TransportError`` at once."""
        clock, words = _NoSleep(self.at.clock), list[str]()

        @contextmanager
        def telling(waiting: Waiting) -> Iterator[None]:
            words[:] = [waiting.words]
            yield

        at_once = replace(self, at=replace(self.at, clock=clock), telling=telling, tries=1)
        try:
            async for _ in at_once.standings():
                words.clear()
        except _SleepsError as sleeps:
            return Paused("".join(words), sleeps.until)
        return None

    async def standing(self) -> Standing:
        """Where the run is, read from the log and the releases. Raises as ``standings``."""
        before = None if self.keeps_models else self._before
        return await read_standing(self.plan, self.name, self.at, self._released, self.initial, before)

    async def _patiently(self, step: Callable[[Standing], Awaitable[Standing]], found: Standing) -> Standing:
        """Take a step, again where a service does not answer: every step may be taken again. Raises
        ``TransportError`` after ``tries``."""
        for _ in range(self.tries - 1):
            try:
                return await step(found)
            except TransportError as error:
                pause = max(TRY_SECONDS, error.retry_after)
                with self._waiting(f"{error}; again", pause):
                    await self.at.clock.sleep(pause)
        return await step(found)

    def _waiting(self, words: str, seconds: float) -> AbstractContextManager[object]:
        """Show what is waited for, from now on."""
        now = self.at.clock.now()
        return self.telling(Waiting(words, now, now + seconds, now + seconds))

    async def _begin(self, found: Standing) -> Standing:
        """Publish the round that follows, unless another run of the plan did, and wait until the log shows it."""
        series, clock, now = found.series.series, self.at.clock, await self.standing()
        if len(now.rounds) > len(found.rounds):
            return await self._hand_out_again(now)
        following = None
        if now.series.ended is None:
            following = next_round(self.plan, series, now.run, clock.now(), is_passed_over=True)
        if following is None:
            return now
        await self._await_keys(following.recipe)
        index = await publish_round(self.at.transport, self.at.server, following.recipe, self.key)
        if self.noting is not None:
            await self.noting(following.recipe, index)
        await self._hand_out(following)
        while True:
            now = await self.standing()
            if any(one.recipe.hash == following.recipe.hash for one in now.rounds):
                return now
            await clock.sleep(LOOK_SECONDS)

    async def _finish(self, found: Standing) -> Standing:
        """Await the release of the newest round; where there is none in time, it is passed over. Another run of the
        plan may have published the next one meanwhile."""
        if found.run.waits_for is None:
            return found
        why = await self._missing(found.rounds[-1])
        now = await self.standing()
        if now.run.waits_for is None or len(now.rounds) > len(found.rounds):
            return now
        return Standing(now.series, now.rounds, now.run, why or "not released in time")

    async def _missing(self, live: LiveRecipe) -> str:
        """Await the release of a round; returns why there is none, or an empty text."""
        recipe, at = live.recipe, self.at
        if live.is_void:
            return "void"
        interval = recipe.interval
        begun = self._awaited_from.setdefault(recipe.hash_text, max(at.clock.now(), float(interval.end)))
        wait = min(self.wait, max(0.0, begun + self.wait - at.clock.now()))
        words = f"{recipe.name}: reports come until {format_utc(interval.end)}, then its release"
        try:
            with self.telling(Waiting(words, interval.start, interval.end, begun + self.wait)):
                return (
                    "" if await await_releases(at.transport, at.collector, recipe, at.clock, wait) else "not released"
                )
        except Refusal as refusal:
            return f"{refusal.rule}: {refusal.detail}"
        except Abort as problem:
            passes = problem.status == 404 or may_pass(problem.status)
            if not passes and problem.type.rsplit(":", 1)[-1] not in PASSING:
                raise
            return problem.detail or problem.title

    async def _hand_out(self, following: NextRound) -> None:
        """Put the model of a published round where devices fetch it; the same again changes nothing."""
        stated = read_round_model(following.recipe.question.round_input or "", self.plan.training)
        await send_model(self.at.transport, self.at.server, stated, following.model)
        self._handed.add(following.recipe.hash_text)

    async def _hand_out_again(self, found: Standing) -> Standing:
        """Put the model of the newest round where devices fetch it, while they may need it: who published the round may
        have ended before."""
        recipe = found.rounds[-1].recipe
        if recipe.hash_text not in self._handed and self.at.clock.now() < asked_until(recipe.interval):
            await self._hand_out(NextRound(found.run.rounds[-1].model, recipe))
        return found

    async def _await_keys(self, recipe: Recipe) -> None:
        """Wait until the log shows the token keys of a round, without which nobody accepts it."""
        token, clock, until = recipe.token, self.at.clock, asked_until(recipe.interval)
        words = f"{recipe.name}: waiting for the token keys of epoch {token.epoch}"
        with self._waiting(words, until - clock.now()):
            while (live := await self.at.log()).directory(token.issuer, token.epoch) is None:
                left = until - clock.now()
                if left <= 0:
                    seconds = next((one.epoch_seconds for one in live.directories if one.issuer == token.issuer), 0)
                    advice = live.clock_trouble(token.issuer, seconds, clock.now()) or (
                        f"look after the issuer {token.issuer}, and run this again"
                    )
                    raise UsageError(f"the log shows no token keys for epoch {token.epoch} of {recipe.name}; {advice}")
                await clock.sleep(min(left, max(LOOK_SECONDS, math.ceil(left / LOOKS))))


async def read_standing(
    plan: Plan,
    name: str,
    at: Place,
    known: dict[str, Sequence[Mapping[str, Any]]] | None = None,
    initial: bytes | None = None,
    before: list[Before] | None = None,
) -> Standing:
    """Where the run of ``plan`` in the series of this ``name`` or hash is. ``known``: releases of rounds before the
    newest, by recipe hash, which are asked for once; ``initial`` as for ``run_of``; ``before``: what an earlier reading
    found of the rounds before the newest, which are not read again then, if anything; it is brought up to date. Raises
    as ``LearningRun.standings``."""
    known, log = {} if known is None else known, await at.log()
    series = series_called(log, name)
    if series is None:
        raise UsageError(f"the log shows no series called {name}; begin the run with: tacit learn run PLAN")
    rounds, asked = published_rounds(log, series.series), []
    if before is not None:
        recipes = [one.recipe for one in rounds]
        run = await follow(
            plan, series.series, recipes, lambda recipe: read_results(at.transport, at.collector, recipe.hash_text),
            asyncio.to_thread, initial, before,
        )  # fmt: skip
        return Standing(series, tuple(rounds), run)
    for live in rounds:
        own = live.recipe.hash_text
        found = known.get(own) or await read_results(at.transport, at.collector, own)
        if found and live is not rounds[-1]:
            known[own] = found
        asked.append((live.recipe, found))
    run = await asyncio.to_thread(run_of, plan, series.series, asked, initial)
    return Standing(series, tuple(rounds), run)


async def follow(
    plan: Plan,
    series: Series,
    recipes: Sequence[Recipe],
    release_of: Callable[[Recipe], Awaitable[Sequence[Mapping[str, Any]]]],
    compute: Callable[[Callable[[], Run]], Awaitable[Run]],
    initial: bytes | None = None,
    before: list[Before] | None = None,
) -> Run:
    """Where the run is after ``recipes``, taken round by round from what ``before`` holds, so that never more than two
    releases and models are in memory. ``release_of`` reads the releases of a round, and ``compute`` runs one step at a
    time; ``initial`` and ``before`` as for ``read_standing``. Raises as these and ``run_of``."""
    before = [] if before is None else before
    if before and not before[0].leads_to(recipes):
        before.clear()
    asked: list[Asked] = [(one, ()) for one in recipes]
    run = None
    for newest in range(len(before[0].hashes) if before else 0, len(asked)):
        asked[newest] = recipes[newest], await release_of(recipes[newest])
        run = await compute(partial(run_of, plan, series, asked[: newest + 1], initial, *before))
        before[:] = [run.before]
        if newest:
            asked[newest - 1] = recipes[newest - 1], ()
    return await compute(partial(run_of, plan, series, asked, initial)) if run is None else run


class _SleepsError(Exception):
    """Somebody would sleep, ``until`` POSIX seconds."""

    def __init__(self, until: float) -> None:
        super().__init__("waiting")
        self.until = until


@dataclass(frozen=True)
class _NoSleep:
    """A clock on which nobody sleeps: whoever would, ends."""

    clock: Clock

    def now(self) -> float:
        return self.clock.now()

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            raise _SleepsError(self.now() + seconds)
