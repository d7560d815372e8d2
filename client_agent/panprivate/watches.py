"""Everything that one device watches: a state for every recipe about which it is going to decide.

Watches begin and end with recipes, as the journal and the log say, and never because of an event. No state is left once
its recipe was decided on, has left the log, or is over: its file, one that was put aside, and one that was being made
are overwritten and removed, at the next start if the process died in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from client_agent.panprivate.state_files import ASIDE, FILE, SUFFIX, DamagedStateError
from tacit.counting_words import plural
from tacit.errors import TacitError, Unavailable, UsageError
from tacit.extension_points import WATCHED_STATE
from tacit.ports import Clock, Entropy
from tacit.recipe.model import Recipe
from tacit.recipe.policy import MAX_WATCH_WORK, Policy
from tacit.recipe.watch_work import most_of, work_per_second

if TYPE_CHECKING:
    from client_agent.panprivate.slots import Disk
    from client_agent.panprivate.watch import EventWatch, Plan

MOST = 64
"""Most states that a device keeps at a time."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """``until``: the POSIX second from which its recipe is over; ``most``: how often the event counts; ``work``:
    multiplications a second."""

    event: str
    analyst: str
    most: int
    work: int
    until: float
    watch: EventWatch


class Watches:
    """The states of one device, in files below ``folder``, or only in memory (None). Errors of the disk are not raised:
    ``trouble`` reports them, and the other states go on.

    ``work``: multiplications a second (``tacit.recipe.watch_work``) that all watches together may cost. ``policy``
    divides them, and the states, among the analysts that it names (P38; None: all may go to one). A recipe that does
    not fit beside the others is not watched; which ones fit depends on recipes and on no event.
    """

    def __init__(
        self,
        folder: Path | None,
        clock: Clock,
        entropy: Entropy,
        disk: Disk | None = None,
        work: int = MAX_WATCH_WORK,
        policy: Policy | None = None,
    ) -> None:
        self._folder, self._clock, self._entropy, self._disk = folder, clock, entropy, disk
        self._work, self._policy = work, policy or Policy()
        self._open: dict[bytes, _Watched] = {}
        self._filed = _found_in(folder)
        self._troubles: dict[bytes, str] = {}
        self.is_over: Callable[[float], bool] = lambda _until: True
        """Whether a time (POSIX seconds) is over by others' clocks too; the agent's, once there is one."""
        self.begun = asyncio.Event()
        """Set with each watch that begins; the code that ticks waits for it and clears it."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def trouble(self) -> str:
        """What the owner should know about the kept states, never about events; empty if nothing."""
        return next(iter(self._troubles.values()), "")

    def expect(self, recipe: Recipe) -> None:
        """Watch from now on for a recipe about which the device is going to decide; once. After the last step there is
        nothing to watch. Raises ``Refusal`` as ``plan_of``."""
        own = recipe.hash
        if own in self._open:
            return
        plan, now = WATCHED_STATE["plan-of"](recipe), self._clock.now()
        is_over = plan.schedule.ended(now) == plan.schedule.steps
        if now >= recipe.interval.end or (is_over and own not in self._filed):
            return
        work, analyst = work_per_second(recipe), recipe.parties.analyst.operator
        full = self._full(work, analyst)
        if full and own not in self._filed:  # watches that were already taken up go on
            self._troubles[own] = f"{recipe.name}: {full}"
            return
        watch = self._open_watch(plan)
        if watch is not None:
            self._open[own] = _Watched(
                recipe.question.metric, analyst, most_of(recipe), work, recipe.interval.end, watch
            )
            self.begun.set()

    def _full(self, more: int, analyst: str) -> str:
        """Why there is no room for a watch of the analyst that costs ``more`` multiplications a second; empty if there
        is."""
        if len(self._open) >= MOST:
            return f"{MOST} events are watched here already"
        busy = sum(watched.work for watched in self._open.values())
        if busy + more > self._work:
            return f"watching it takes {more} multiplications a second, and {busy} of {self._work} are given to others"
        own = [watched.work for watched in self._open.values() if watched.analyst == analyst]
        states, share = (self._policy.share(analyst, whole) for whole in (MOST, self._work))
        if len(own) >= states:
            return f"for {analyst} {plural(len(own), 'event')} of {MOST} here may be watched, and already are"
        if sum(own) + more > share:
            return (
                f"watching it takes {more} multiplications a second; {analyst} has {share}, and {sum(own)} are in use"
            )
        return ""

    def _open_watch(self, plan: Plan) -> EventWatch | None:
        own = plan.recipe
        watch_class: type[EventWatch] = WATCHED_STATE["watch"]
        disk = {} if self._disk is None else {"disk": self._disk}
        if self._folder is None:
            return watch_class.in_memory(plan, self._clock.now, self._entropy)
        for _ in range(2):
            try:
                watch = watch_class.open(plan, self._folder, self._clock.now, self._entropy, **disk)
            except DamagedStateError as error:
                self._filed.add(own)
                self._troubles[own] = str(error)
            except (UsageError, OSError) as error:
                self._troubles.setdefault(own, str(error))
                return None
            else:
                self._filed.add(own)
                return watch
        return None

    def state(self, recipe: Recipe) -> bytes:
        """The state from which an answer is made. A device that kept none has watched nothing: it gets the state before
        the first step, which nobody can tell from one in which nothing happened."""
        if recipe.hash in self._filed:
            self.expect(recipe)  # a device that was off when the steps ended
        watched = self._open.get(recipe.hash)
        if watched is not None:
            return watched.watch.state
        plan: Plan = WATCHED_STATE["plan-of"](recipe)
        return plan.stored.initial(self._entropy)

    def record(self, event: str, times: int = 1) -> bool:
        """Record that the event happened ``times`` times just now; returns whether any recipe watches it."""
        watches = [watched.watch for watched in self._open.values() if watched.event == event]
        for watch in watches:
            for _ in range(times):
                watch.record()
        return bool(watches)

    def most(self, event: str) -> int:
        """Most occurrences of the event that count, over all recipes; recording more changes nothing."""
        return max((watched.most for watched in self._open.values() if watched.event == event), default=0)

    def tick(self) -> None:
        """Replace all state in memory, write the states whose step has ended, and erase those that are over. If the
        disk does not accept it, the next tick tries again."""
        for _ in self.ticks():
            pass

    def ticks(self) -> Iterator[None]:
        """``tick``, one state at a time: others may run in between, and a state that is dropped meanwhile is left
        out."""
        for own, watched in list(self._open.items()):
            if self._open.get(own) is not watched:
                continue
            if self._clock.now() >= watched.until and self.is_over(watched.until):
                self.forget({own})
            else:
                try:
                    written = watched.watch.advance()
                except TacitError as error:  # the other states go on
                    self._troubles[own] = str(error)
                else:
                    if written:
                        self._troubles.pop(own, None)
            yield

    def forget(self, recipes: Set[bytes]) -> None:
        """Erase the states of ``recipes`` (hashes), which are decided on."""
        for own in (self._open.keys() | self._filed) & recipes:
            self._erase(own)
        for own in self._troubles.keys() & recipes - self._filed:
            del self._troubles[own]

    def keep_only(self, recipes: Collection[bytes]) -> None:
        """Erase the states of all other recipes, since the device is not going to decide about them."""
        self.forget((self._open.keys() | self._filed | self._troubles.keys()) - set(recipes))

    def _erase(self, own: bytes) -> None:
        watched = self._open.pop(own, None)
        try:
            if watched is not None:
                watched.watch.erase()
            for path in _files(self._folder, own):
                WATCHED_STATE["erase-file"](path, self._entropy)
        except (OSError, Unavailable) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            self._troubles[own] = f"the state of a recipe that is over cannot be erased: {why}"
        else:
            self._filed.discard(own)

    def close(self) -> None:
        """Release the files. What was recorded since the last step ended is lost."""
        for watched in self._open.values():
            watched.watch.close()
        self._open.clear()


def _found_in(folder: Path | None) -> set[bytes]:
    """Hashes of the recipes that have files."""
    if folder is None or not folder.is_dir():
        return set()
    names = (FILE.fullmatch(path.name) for path in folder.iterdir())
    return {bytes.fromhex(name[1]) for name in names if name is not None}


def _files(folder: Path | None, own: bytes) -> Iterator[Path]:
    if folder is not None:
        name = f"{own.hex()}{SUFFIX}"
        yield from (folder / name, folder / f"{name}{ASIDE}", folder / f".{name}.new")
