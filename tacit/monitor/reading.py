"""Reading a whole log: every entry, hashed again, under a signed checkpoint that extends the one seen before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from tacit.adapters.tiles import read_entries
from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.monitor.findings import Finding
from tacit.monitor.state import MonitorState
from tacit.ports import Transport, TransportError
from tacit.tlog.checkpoint import Checkpoint, LogPolicy, Note, NoteKey
from tacit.tlog.cosignature import Quorum
from tacit.tlog.log import MemoryTree, Tree
from tacit.tlog.tiles import tile_bytes, tiles_of

Tick = Callable[[int], None]
"""Called with the number of further pieces that are done."""


def nothing(_pieces: int) -> None:
    """A ``Tick`` that does nothing."""


class WholeLog:
    """One log as far as it was read. ``tree`` holds every entry; ``state`` is what to keep for the next reading."""

    def __init__(
        self,
        transport: Transport,
        url: str,
        key: NoteKey,
        state: MonitorState | None = None,
        tree: Tree | None = None,
    ) -> None:
        """``tree``: holds what is read (default: in memory). Raises ``Refusal`` (``log-checkpoint``) for the state of
        another log."""
        self._transport = transport
        self._url = url
        self._policy = LogPolicy(key)
        self.state = state or MonitorState(key.name)
        if self.state.origin != key.name:
            raise Refusal(
                "log-checkpoint", f"the kept state belongs to {self.state.origin}, but this log is {key.name}"
            )
        self.tree: Tree = MemoryTree() if tree is None else tree
        self.note = b""

    async def checkpoint(self) -> Checkpoint:
        """Fetch the log's current checkpoint. Raises ``Refusal`` (``log-checkpoint``, ``log-rollback``) or
        ``TransportError``."""
        note = await self._get("checkpoint")
        try:
            found = self._policy.open(note)
        except (CryptoError, DecodeError) as error:
            raise Refusal("log-checkpoint", str(error)) from error
        self.note = note
        if found.size < self.state.size:
            raise Refusal("log-rollback", f"the log shows {found.size} entries, but it had {self.state.size} before")
        return found

    async def read(self, checkpoint: Checkpoint, at: float, tick: Tick = nothing) -> None:
        """Read up to ``checkpoint``, which was fetched after ``at`` (POSIX seconds). Raises ``Refusal``
        (``log-inclusion``; ``log-split-view``, of which ``state`` then keeps the checkpoint as evidence),
        ``DecodeError`` or ``TransportError``."""
        if checkpoint.size == self.state.size and checkpoint.root != self.state.root:
            self._split(f"the log signed two different roots for {checkpoint.size} entries")
        anew = self.tree.size == 0
        await self._append(checkpoint.size, tick)
        if self.tree.root(checkpoint.size) != checkpoint.root and not anew:
            self.tree.clear()  # the entries read before may belong to another history than the new ones
            await self._append(checkpoint.size, nothing)
        if self.tree.root(checkpoint.size) != checkpoint.root:
            self.tree.clear()
            raise Refusal("log-inclusion", "the log's entries do not lead to the root that it signed")
        if self.tree.root(self.state.size) != self.state.root:
            self._split(f"the first {self.state.size} entries are not the ones seen before")
        self.state = self.state.seen(checkpoint.size, checkpoint.root, int(at))

    async def _append(self, size: int, tick: Tick) -> None:
        async for entries in read_entries(self._transport, self._url, self.tree.size, size):
            for entry in entries:
                self.tree.append(entry)
            tick(len(entries))

    def _split(self, detail: str) -> NoReturn:
        """Forget the entries read, which belong to another history, and keep the first checkpoint that proves it."""
        self.tree.clear()
        self.state = replace(self.state, evidence=self.state.evidence or self.note)
        raise Refusal("log-split-view", detail)

    async def check_tiles(self, tick: Tick = nothing) -> list[Finding]:
        """Compare every hash tile that the log serves with the entries."""
        findings = []
        for tile in tiles_of(self.tree.size):
            try:
                right = await self._get(tile.path()) == tile_bytes(tile, self.tree.read)
            except TransportError as error:
                findings.append(Finding("log-tile", f"{tile.path()} cannot be read: {error}"))
            else:
                findings += [] if right else [Finding("log-tile", f"{tile.path()} does not hold the entries' hashes")]
            tick(1)
        return findings

    def check_evidence(self) -> list[Finding]:
        """The finding that an earlier reading proved permanently, if there is one."""
        what = "an earlier reading saw another history of the log; its checkpoint is kept as evidence"
        return [Finding("log-split-view", what)] if self.state.evidence else []

    def check_witnesses(self, quorum: Quorum | None) -> list[Finding]:
        """Findings about cosignatures that the policy requires and the checkpoint read last does not have."""
        if quorum is None:
            return []
        try:
            quorum.require(Note.decode(self.note))
        except (CryptoError, DecodeError) as error:
            return [Finding("witnesses", str(error))]
        return []

    async def _get(self, path: str) -> bytes:
        answer = await self._transport.request("GET", f"{self._url}/{path}")
        if answer.status != 200:
            raise TransportError(f"the log answered with status {answer.status}")
        return answer.body
