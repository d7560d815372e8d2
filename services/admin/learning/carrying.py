"""Carries every published training run from round to round, as ``tacit learn run`` does.

Where a run is follows from its plan, the log and the releases (``tacit.operations.learning``), so nothing is stored
between two rounds: a service that was ended goes on, and two services on one store send the same rounds, of which the
log takes each once. A run that fails is tried again, and keeps no other from going on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from services.admin.questions.events import Event, question_event
from services.admin.questions.followed_log import FollowedLog
from services.admin.questions.learning import MOST_RUNS, plan_of, require_numbers
from services.admin.questions.publishing import fixed_of
from services.admin.storage import audit
from services.admin.storage.records import Act, Question
from services.admin.storage.store import AdminStore
from tacit.errors import Abort, Refusal, TacitError, UsageError
from tacit.operations.results import CollectorAccess
from tacit.operations.series_rounds import index_of
from tacit.ports import Clock, Transport, TransportError
from tacit.recipe.model import Recipe
from tacit.service.base.log import get_logger
from tacit.service.documents.operator import JobDocument
from tacit.signing import Signer

if TYPE_CHECKING:
    from tacit.operations.learning.run import LearningRun

JOB: Final = "training"
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds before a run that failed is tried again; the pause doubles with each further failure."""
GIVE_UP_SECONDS: Final = 7 * 86400
"""How long after its last round a run that still fails is given up; one that its plan, the log and the releases do not
let go on, at once."""
GIVE_UP_FAILURES: Final = 10
"""It is given up after so many failures in a row at least: a wrong clock, or a collector that is being restored, does
not last as long."""


@dataclass
class Carried:
    """A run that is carried. ``words``: what it waits for; ``trouble``: why the last attempt failed; ``next_look``:
    when it is taken further (POSIX seconds), or at once where the clock was set back before ``looked``; ``noted``: the
    hash of the round that was written to the audit log last."""

    question: Question
    run: LearningRun | None = None
    words: str = ""
    trouble: str = ""
    failures: int = 0
    looked: float = 0.0
    next_look: float = 0.0
    noted: str = ""


class Runs:
    """The training runs of a store, as a ``Driver``. ``log``: all of it, also rounds that are over; ``key``: the
    analyst's; ``tell`` gets an event for each change."""

    def __init__(
        self,
        store: AdminStore,
        log: FollowedLog,
        transport: Transport,
        collector: CollectorAccess | None,
        key: Signer | None,
        clock: Clock,
        tell: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._log = log
        self._collector = collector
        self._key = key
        self._clock = clock
        self._tell = tell
        self._transport = transport
        self._carried: dict[str, Carried] = {}
        self.wake = asyncio.Event()
        """Has the driver look at once."""

    @property
    def lacks(self) -> str:
        """Why this service can carry no run, in words; empty if it can."""
        if self._key is None:
            return "this service does not hold the analyst's key, which signs every round"
        return "" if self._collector is not None else "this service is configured without a collector"

    def of(self, series_hash: str) -> Carried | None:
        return next((one for one in self._carried.values() if one.question.recipe_hash == series_hash), None)

    def jobs(self) -> list[JobDocument]:
        """The runs as jobs; one is stuck while it fails."""
        return [
            JobDocument(
                id=name, kind=JOB, about=one.question.recipe_hash, state="failing" if one.trouble else "working",
                stuck=bool(one.trouble), detail=one.trouble or one.words, next_attempt=int(one.next_look) or None,
            )
            for name, one in self._carried.items()
        ]  # fmt: skip

    def retry(self, job_id: str) -> bool:
        """Take a run further now instead of later; False if this process carries none with this id."""
        if (carried := self._carried.get(job_id)) is None:
            return False
        carried.next_look = 0.0
        self.wake.set()
        return True

    async def step(self) -> int:
        """Take every run as far as it goes now. Returns how many went on."""
        async with self._store.read() as tx:
            going = {f"{JOB}.{one.id}": one for one in await tx.running(MOST_RUNS)}
        self._carried = {name: self._carried.get(name) or Carried(one) for name, one in going.items()}
        went = await asyncio.gather(*map(self._further, self._carried.values()), return_exceptions=True)
        for error in went:
            if isinstance(error, BaseException):
                raise error
        return sum(one is True for one in went)

    async def _further(self, one: Carried) -> bool:
        """Take a run as far as it goes now. Returns whether it went on."""
        if one.looked <= (now := self._clock.now()) < one.next_look:
            return False
        one.looked, before = now, (one.words, one.trouble)
        try:
            one.run = one.run or self._run_of(one)
            waits = await one.run.advanced()
        except Exception as error:  # whatever one run meets, the others go on
            await self._failed(one, error)
        else:
            one.trouble, one.failures = "", 0
            one.words, one.next_look = ("", 0.0) if waits is None else (waits.words, waits.until)
            if waits is None:
                await self._over(one, "every round is released or passed over, or its series was ended")
        if changed := (one.words, one.trouble) != before:
            self._tell_of(one)
        return changed

    def _run_of(self, one: Carried) -> LearningRun:
        require_numbers()
        from tacit.operations.learning.run import LearningRun, Place

        if self.lacks or self._key is None or self._collector is None:
            raise UsageError(self.lacks)
        plan = plan_of(one.question)
        at = Place(self._transport, self._log.fresh, self._collector, self._clock)

        async def noting(recipe: Recipe, index: int) -> None:
            await self._note_round(one, recipe, index)

        return LearningRun(
            plan, one.question.recipe_hash, at, self._key, float(plan.release_seconds), _ignore, noting=noting,
            keeps_models=False,
        )  # fmt: skip

    async def _note_round(self, one: Carried, recipe: Recipe, index: int) -> None:
        """Write a round that the log has taken to the audit log, once: it is sent again until the log shows it."""
        self._log.grew(index + 1)
        if one.noted == recipe.hash_text:
            return
        words = f"round {index_of(recipe) + 1} of series {one.question.recipe_hash}, recipe {recipe.hash_text}"
        async with self._store.transaction() as tx:
            await audit.record(tx, self._act(one, "round.publish", words))
        one.noted = recipe.hash_text
        self._tell_of(one)

    async def _failed(self, one: Carried, error: Exception) -> None:
        now, ends = self._clock.now(), fixed_of(one.question).interval.end
        one.trouble, one.failures = _words_of(error), one.failures + 1
        one.next_look = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(one.failures - 1, 10))
        get_logger("admin").warning("run_failed", series=one.question.recipe_hash, error=type(error).__name__)
        is_certain = isinstance(error, UsageError) and one.run is not None
        if one.failures >= GIVE_UP_FAILURES and now >= ends + (0 if is_certain else GIVE_UP_SECONDS):
            await self._over(one, one.trouble)

    async def _over(self, one: Carried, why: str) -> None:
        """Note that the run is over, unless another process has."""
        async with self._store.transaction() as tx:
            if await tx.end_run(one.question.id, int(self._clock.now())):
                await audit.record(tx, self._act(one, "run.over", why))

    def _act(self, one: Carried, what: str, words: str) -> Act:
        return Act("", what, one.question.id, int(self._clock.now()), "service", "done", words)

    def _tell_of(self, one: Carried) -> None:
        self._tell(question_event(one.question.id, one.question.state, one.question.revision))


def _ignore(_waiting: object) -> AbstractContextManager[None]:
    return nullcontext()


def _words_of(error: Exception) -> str:
    """An error in words for everybody who may read."""
    if isinstance(error, Refusal):
        return f"{error.rule}: {error.detail}"
    if isinstance(error, Abort):
        return error.words
    return str(error) if isinstance(error, TacitError | TransportError) and str(error) else type(error).__name__
