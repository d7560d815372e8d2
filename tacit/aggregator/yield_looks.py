"""What a server tells the collector about a batch that is filling: rarely, coarsely, and with noise.

The claim against the analyst does not rely on hiding a count: the size of a batch is published with its release, and
devices send at times that depend on nothing (P17b, P28). An exact live count still reveals more. Polled often, it shows
*when* each report arrived, and an observer of one device's connection (its network, its relay) can tell from that
whether the device took part, which sampling was to hide. For a batch that never fills, which is refunded because
nothing was released, it would reveal how many devices there were.

Behind a shuffler only the shuffler can count. It draws the noise, and tells each look when it is due to the analyzer or
leader (``services.shuffler.yield_reporter``); so nobody's asking decides when, and a leader knows no count of its
own before the flush.

So a count is read ``LOOKS`` times, in equal parts of the time in which devices send. A look is recorded once, by
whichever process is asked first, and never changes. It gives the count in tenths of B, with two-sided geometric noise
of scale B/10. One report more or less changes the odds of everything that is ever told about a recipe by at most
e^(``LOOKS * STEPS`` / B), whoever sends all others, so little is gained by bringing the count near a tenth.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from fractions import Fraction
from typing import Protocol, TypeVar

from tacit.aggregator.batch_yield import LOOKS, MAX_BATCH, STEPS, BatchYield, Look
from tacit.aggregator.parties import Served, ServedTask
from tacit.aggregator.records import Batch
from tacit.errors import Abort
from tacit.methods.base.draws import discrete_laplace
from tacit.ports import Clock, Entropy
from tacit.recipe.asking import DECIDING_SHARE
from tacit.service.base.store import Transactions

Tx_co = TypeVar("Tx_co", covariant=True)


class SharedStore(Transactions[Tx_co], Protocol[Tx_co]):
    """A store that several processes may have open, one of which leads."""

    def transaction(self, *, shared: bool = False) -> AbstractAsyncContextManager[Tx_co]:
        """Commit everything in the block, or nothing; runs alone, or beside other processes' shared transactions."""
        ...

    async def leads(self) -> bool:
        """Whether this process coordinates the others; see ``Database.leads``."""
        ...

    async def checkpoint(self) -> None:
        """Remove overwritten bytes from the files too; see ``Database.checkpoint``."""
        ...


class OpenTx(Protocol):
    """What everything that acts for a task requires of a transaction."""

    async def is_open(self, party: Served, now: float) -> bool:
        """Whether a task may do anything at all: it is served, and its time is not over at ``now``. **Every transaction
        that counts, releases, stores or closes calls this first** (P9, P32)."""
        ...

    async def demand_open(self, party: Served, now: float) -> None:
        """Raise ``DapAbort(unrecognizedTask)`` unless ``is_open``."""
        ...


class CountingTx(Protocol):
    """What counting a task's reports requires of a transaction."""

    async def accepted_count(self, task_id: bytes, batch: Batch = None) -> int:
        """Number of distinct nullifiers of the reports that count, in a batch or in the whole task. Reads every one of
        them: for decisions to release, not for showing progress."""
        ...

    async def counted(self, task_id: bytes, bucket: bytes | None = None) -> int:
        """Number of reports in the tallies of one bucket or of the whole task."""
        ...


class YieldTask(ServedTask, Protocol):
    """What is required of a task, whatever its model."""

    @property
    def min_batch_size(self) -> int:
        """The fewest reports (B) that may be released as one batch."""
        ...


class YieldParty(Served, Protocol):
    """One server's view of a task whose looks are given out."""

    @property
    def task(self) -> YieldTask: ...


class LookTx(OpenTx, CountingTx, Protocol):
    """What recording a look requires of a transaction."""

    async def looks(self, task_id: bytes) -> list[Look]:
        """The looks at a task's count, in order."""
        ...

    async def keep_look(self, task_id: bytes, look: Look) -> None:
        """Record a look; one that is already recorded stays as it is."""
        ...


class YieldLooks:
    """Gives out how far tasks are filled: a few looks at each count, rounded with noise, the same for everybody."""

    def __init__(self, store: SharedStore[LookTx], clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy

    async def of(self, party: YieldParty) -> BatchYield:
        """Return how far a task is filled, from the looks that were due. Raises ``DapAbort`` (404) where it has ended,
        and ``Abort`` (404) where B is above ``MAX_BATCH``, which is possible for tasks of other systems only."""
        task, now = party.task, self._clock.now()
        if task.min_batch_size > MAX_BATCH:
            raise Abort(
                "about:blank", f"the fill level is not available for a batch of more than {MAX_BATCH}", status=404
            )
        due, looks = await self._read_recorded(party, now)
        if due and due > max((one.number for one in looks), default=0):
            looks = await self._look(party, due, now)
        return _batch_yield(party, due, looks)

    async def told(self, party: YieldParty) -> BatchYield:
        """Return how far a task is filled as another server told it, which alone counts the reports (``keep``). Raises
        as ``of``."""
        due, looks = await self._read_recorded(party, self._clock.now())
        return _batch_yield(party, due, looks)

    async def keep(self, party: YieldParty, look: Look) -> None:
        """Record a look that another server told; one that is already recorded stays as it is. Raises as ``of``."""
        async with self._store.transaction() as tx:
            await tx.demand_open(party, self._clock.now())
            await tx.keep_look(party.task.task_id, look)

    async def _read_recorded(self, party: YieldParty, now: float) -> tuple[int, list[Look]]:
        """The number of looks that are due, and those that are recorded."""
        task = party.task
        async with self._store.read() as tx:
            await tx.demand_open(party, now)
            return looks_due(task.start_seconds, task.end_seconds, now), await tx.looks(task.task_id)

    async def _look(self, party: YieldParty, number: int, now: float) -> list[Look]:
        task = party.task
        async with self._store.transaction() as tx:
            await tx.demand_open(party, now)
            told = tenths(await tx.counted(task.task_id), task.min_batch_size, self._entropy)
            await tx.keep_look(task.task_id, Look(number, int(now), told))
            return await tx.looks(task.task_id)


def look_at(start: int, end: int, number: int) -> int:
    """The POSIX second from which the ``number``-th look at the count of an interval is available: equal parts of the
    time in which devices send, the last one at its end."""
    deciding = Fraction(DECIDING_SHARE)
    share = deciding + (1 - deciding) * Fraction(number, LOOKS)
    return start + -(-share.numerator * (end - start) // share.denominator)


def looks_due(start: int, end: int, now: float) -> int:
    """How many looks, 0 to ``LOOKS``, are due by ``now`` at the count of an interval (all three in POSIX seconds)."""
    return sum(look_at(start, end, number) <= now for number in range(1, LOOKS + 1))


def tenths(count: int, batch_size: int, entropy: Entropy) -> int:
    """The count in tenths of B, 0 to 10, with two-sided geometric noise of scale B/10."""
    noisy = count + discrete_laplace(batch_size, STEPS, entropy)
    return min(STEPS, max(0, noisy * STEPS // batch_size))


def _batch_yield(party: YieldParty, due: int, looks: Sequence[Look]) -> BatchYield:
    task = party.task
    following = None if due == LOOKS else look_at(task.start_seconds, task.end_seconds, due + 1)
    return BatchYield(task.task_id_text, task.min_batch_size, tuple(looks), following)
