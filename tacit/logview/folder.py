"""A verified copy of a whole log in a folder, which the next process continues.

Every entry is hashed again and kept in files (``tacit.adapters.disk.kept_tree``). A checkpoint needs the policy's
witnesses,
and must extend the newest checkpoint that any process with this folder has seen, which is stored beside the entries.
One reader follows the log from where it stopped, and reads only the new entries.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from tacit.adapters.disk.files import read_bounded, replace_file
from tacit.adapters.disk.folder_lock import alone_in_or_beside
from tacit.adapters.disk.kept_tree import FileTree
from tacit.errors import CryptoError, DecodeError, Fatal, Refusal, UsageError
from tacit.logview.contents import LogContents
from tacit.logview.whole import WholeLog, WholeState
from tacit.ports import Clock, Transport
from tacit.recipe.policy import Policy
from tacit.tlog.checkpoint import Checkpoint, NoteKey
from tacit.tlog.merkle import EMPTY_ROOT

CHECKPOINT: Final = "checkpoint"
"""The file in the folder with the newest checkpoint that was read, as the log signed it."""
MAX_NOTE: Final = 1 << 16
CHUNK: Final = 2048
"""How many entries are examined in one piece of work."""
SYNCED: Final = 8192
"""After how many new entries the files are made durable. After a crash, entries that were not durable are read
again."""


class FolderLog:
    """One log in a folder. Call ``open`` before use and ``close`` after."""

    def __init__(
        self, folder: Path, transport: Transport, url: str, key: NoteKey, policy: Policy, clock: Clock
    ) -> None:
        self._folder = folder
        self._transport = transport
        self._url = url
        self._key = key
        self._policy = policy
        self._required = policy.log_policy(key, clock.now)
        self._stack = contextlib.ExitStack()
        self._examined = EMPTY_ROOT
        """The root of the tree of the entries that ``contents`` holds."""
        self.contents = LogContents(policy, key.public)

    def open(self) -> None:
        """Open the folder, with everything that an earlier process has read. Where another process has it, entries are
        kept in a folder beside it until this one ends. Raises ``UsageError``."""
        folder = self._stack.enter_context(alone_in_or_beside(self._folder, "lock"))
        self.tree = FileTree(folder)
        self._stack.callback(self.tree.close)
        self._kept = self._folder / CHECKPOINT if folder == self._folder else None
        self._log = WholeLog(self._transport, self._url, self._key, self._shown_before(), self.tree)

    def _shown_before(self) -> WholeState:
        """The newest checkpoint that an earlier process saw; an empty state if the file is missing or this log did not
        sign it."""
        fresh = WholeState(self._key.name)
        try:
            found = self._required.open(read_bounded(self._folder / CHECKPOINT, MAX_NOTE))
        except (UsageError, DecodeError, CryptoError):
            return fresh
        return fresh.seen(found.size, found.root, 0)

    @property
    def note(self) -> bytes:
        """The checkpoint that was read last, as the log signed it."""
        return self._log.note

    def close(self) -> None:
        """Make everything that was read durable, and close the folder."""
        self.tree.sync()
        self._stack.close()

    async def advance(self, now: float) -> Checkpoint:
        """Read the log up to its current checkpoint, and keep that. Raises as ``WholeLog.read``, and ``Fatal`` if the
        disk does not keep it."""
        before = self._log.state.size
        checkpoint = await self._log.checkpoint()
        try:
            self._required.require_witnesses(self.note)
        except (DecodeError, CryptoError) as error:
            raise Refusal("log-checkpoint", str(error)) from error
        await self._log.read(checkpoint, now)
        if checkpoint.size > before:
            await asyncio.to_thread(self._keep, self.note)
        return checkpoint

    def _keep(self, note: bytes) -> None:
        """Store the checkpoint for the next process. A process with a temporary folder does not."""
        if self._kept is not None:
            try:
                replace_file(self._kept, note)
            except UsageError as error:
                raise Fatal(f"the log's checkpoint cannot be kept: {error}") from error

    async def examine(self, size: int) -> bool:
        """Examine the entries up to ``size`` that were not examined before; returns whether ``contents`` was begun
        anew, because the entries before belong to another history. Raises as ``LogContents.add``, and ``Fatal`` if the
        disk lost entries: they are then read from the log again."""
        try:
            return await self._examine(size)
        except Fatal:
            self.tree.clear()
            raise

    async def _examine(self, size: int) -> bool:
        before = self.contents
        if before.count > size or self.tree.root(before.count) != self._examined:
            self.contents, self._examined = LogContents(self._policy, self._key.public, before.version + 1), EMPTY_ROOT
        unsynced = 0
        while self.contents.count < size:
            end = min(size, self.contents.count + CHUNK)
            unsynced += end - self.contents.count
            await asyncio.to_thread(self._examine_until, end)
            self._examined = self.tree.root(end)
        if unsynced >= SYNCED:
            await asyncio.to_thread(self.tree.sync)
        return self.contents is not before

    def _examine_until(self, end: int) -> None:
        self.contents.add(self.tree.entries[self.contents.count : end])
