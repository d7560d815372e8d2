"""The live entries of a log as a party keeps them in its database.

``StoredLog`` stores the state of the reader and the new leaves in one transaction, before anything is done with them.
So a party that is restarted knows which tree and which leaves it has accepted, and refuses whatever contradicts them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from tacit.errors import Refusal
from tacit.logview.live import LiveLog
from tacit.logview.log_source import Get
from tacit.logview.paged import PagedReader
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogState, LogView, VerifiedEntry
from tacit.recipe.policy import Policy
from tacit.service.base.log import get_logger
from tacit.service.base.store import Transactions
from tacit.tlog.checkpoint import LogPolicy
from tacit.tlog.leaves import SignedLeaf


class LeavesTx(Protocol):
    """What following a log requires of a transaction."""

    async def log_state(self) -> bytes | None:
        """The state that the log's reader stored last, or None."""
        ...

    async def put_log_state(self, state: bytes) -> None:
        """Replace the state of the log's reader."""
        ...

    async def leaves(self, start: int = 0) -> list[tuple[int, bytes]]:
        """Every verified leaf from index ``start`` on, with its index, in the order of the log."""
        ...

    async def add_leaves(self, leaves: Iterable[tuple[int, bytes]]) -> int:
        """Keep verified leaves; those already kept are left unchanged. Returns how many are new."""
        ...


Tx = TypeVar("Tx", bound=LeavesTx)

Admit = Callable[[Tx, Sequence[VerifiedEntry], Collection[int]], Awaitable[bool]]
"""Decides, in the transaction that would store them, whether verified entries are stored; the last argument holds the
indices of the leaves that were stored before. What it writes is committed in either case."""


class StoredLog(Generic[Tx]):
    """A log's live entries in a database, under the pinned key and the cosignatures of ``required``."""

    def __init__(self, store: Transactions[Tx], get: Get, required: LogPolicy, policy: Policy) -> None:
        """``get`` fetches from the log; ``policy`` pins the keys of issuers and gateways."""
        self._store = store
        self._required = required
        self._policy = policy
        self._pages = PagedReader(get)
        self._known: dict[int, SignedLeaf] = {}
        self._log = get_logger("log_reader")

    async def fetch(self, admit: Admit[Tx] | None = None) -> int | None:
        """Fetch what is new, verify it against everything stored, and store it if ``admit`` agrees. Returns how many
        leaves are new; None if ``admit`` did not agree.

        Raises ``TransportError``, ``DecodeError``, or ``Refusal`` where the log misbehaves. A log that showed two
        histories, or two leaves in one place, is refused permanently, by the state that is stored before this raises.
        """
        async with self._store.read() as tx:
            saved = await tx.log_state()
            for index, leaf in await tx.leaves(max(self._known, default=-1) + 1):
                self._known[index] = SignedLeaf.decode(leaf)
        view = LogView(self._required, None if saved is None else LogState.decode(saved))
        entries = await self._read(view)
        state, known = view.state.encode(), self._known
        if state == saved:
            return 0
        self._known = {}  # the transaction may add leaves between those known, even if its answer is lost
        async with self._store.transaction() as tx:
            if admit is not None and not await admit(tx, entries, known):
                return None
            await tx.put_log_state(state)
            return await tx.add_leaves((entry.index, entry.leaf.encode()) for entry in entries)

    async def _read(self, view: LogView) -> list[VerifiedEntry]:
        before, known = view.state.size, list(self._known.values())
        try:
            entries = await self._pages.read(
                view, LeafSigners(self._policy, known, self._required.log_key.public), known
            )
        except Refusal:
            if view.state.failure:
                async with self._store.transaction() as tx:
                    await tx.put_log_state(view.state.encode())
            raise
        for one in view.left_out:
            if one.index >= before:
                self._log.error("leaf_left_out", index=one.index, rule=one.rule, why=one.detail)
        return entries or []


async def stored_live(tx: LeavesTx) -> LiveLog:
    """The log joined from the stored leaves, whose signatures were verified before they were stored."""
    return LiveLog.from_leaves((index, SignedLeaf.decode(leaf)) for index, leaf in await tx.leaves())
