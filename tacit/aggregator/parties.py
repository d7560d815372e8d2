"""The tasks that an aggregator takes part in, ready for use: derived once, kept in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar

from aiohttp import web

from tacit.codec import unb64url
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import DecodeError
from tacit.messages import TASK_ID_SIZE
from tacit.roles.aggregator import Party


class ServedTask(Protocol):
    """What following the log requires of any task, whatever its model."""

    @property
    def recipe_hash(self) -> bytes:
        """The recipe's hash (32 bytes)."""
        ...

    @property
    def task_id(self) -> bytes:
        """The id of the task (32 bytes)."""
        ...

    @property
    def task_id_text(self) -> str:
        """The id as written in URLs and problem documents."""
        ...

    @property
    def start_seconds(self) -> int:
        """POSIX seconds at which reports may first be made."""
        ...

    @property
    def end_seconds(self) -> int:
        """POSIX seconds from which no report may be made."""
        ...


class Served(Protocol):
    """One party's view of one task."""

    @property
    def task(self) -> ServedTask: ...

    @property
    def closes(self) -> float:
        """POSIX time from which the party counts and releases nothing more of the task."""
        ...


P = TypeVar("P", bound=Served)


class PartyTable(Generic[P]):
    """The parties of all active tasks, by task id."""

    def __init__(self, parties: Iterable[P] = ()) -> None:
        self._parties = {party.task.task_id: party for party in parties}
        self.refresh: Callable[[], Awaitable[None]] | None = None
        """Loads tasks that another process of this aggregator has started meanwhile; rate-limited."""

    def add(self, party: P) -> None:
        """Serve the party's task from now on."""
        self._parties[party.task.task_id] = party

    def remove(self, task_id: bytes) -> None:
        """Stop serving a task; does nothing if it is not served."""
        self._parties.pop(task_id, None)

    def find(self, task_id: bytes) -> P | None:
        """The party of a task; None if this process does not serve it (yet: see ``look_up``)."""
        return self._parties.get(task_id)

    def active(self) -> list[P]:
        """The parties of all tasks that this process serves, in a list of its own."""
        return list(self._parties.values())

    async def look_up(self, task_id: bytes) -> P | None:
        """Like ``find``, and if that finds nothing, once more after ``refresh``."""
        party = self._parties.get(task_id)
        if party is None and self.refresh is not None:
            await self.refresh()
            party = self._parties.get(task_id)
        return party

    async def demand(self, text: str) -> P:
        """The party of the task id in a URL; raises ``DapAbort(unrecognizedTask)``."""
        try:
            task_id = unb64url(text, length=TASK_ID_SIZE, what="task id")
        except DecodeError as error:
            raise DapAbort(DapProblem.UNRECOGNIZED_TASK, "the task id is malformed") from error
        party = await self.look_up(task_id)
        if party is None:
            raise DapAbort(DapProblem.UNRECOGNIZED_TASK, task_id=text)
        return party


Parties = PartyTable[Party]
"""The tasks of leader and helper."""
PARTIES = web.AppKey("parties", Parties)
