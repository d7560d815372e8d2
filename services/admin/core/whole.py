"""Every entry of the log, hashed again, and the accounts that its recipes charge.

Entries stay in files (``tacit.adapters.kept_tree``); in memory is what recipes, series and their leaves say, and a few
of the newest keys. A checkpoint needs the policy's witnesses, and extends the newest one that any process of this
folder was shown, which is kept beside the entries. The log is followed where it was left, by one reader for all who
ask, who looks only at what it grew by; a request waits for that a few seconds at most. Accounts are reckoned when a
leaf came that charges or frees them, and every few minutes for the time that passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from services.admin.core.config import AdminConfig
from services.admin.core.documents import LedgerDocument
from services.admin.core.log import told
from services.admin.core.problems import Problem, away, refuse
from services.admin.core.recipe_index import RecipeIndex
from tacit.adapters.files import read_bounded, replace_file
from tacit.adapters.folder_lock import alone_in
from tacit.adapters.kept_tree import FileTree
from tacit.errors import CryptoError, DecodeError, Fatal, Refusal, UsageError
from tacit.monitor.reading import WholeLog
from tacit.monitor.state import MonitorState
from tacit.operations.burn_down import BurnDown, burn_downs
from tacit.operations.ledger import Ledger, ledger_of
from tacit.recipe.live import LeafSigners, LiveJoin, LiveLog
from tacit.recipe.model import Recipe
from tacit.service.app import Deps
from tacit.tlog.checkpoint import NoteKey
from tacit.tlog.client import VerifiedEntry
from tacit.tlog.leaves import IssuerDirectory, LeafType, OhttpConfig, SignedLeaf
from tacit.tlog.log import Tree
from tacit.tlog.merkle import EMPTY_ROOT

FOLDER: Final = "log"
CHECKPOINT: Final = "checkpoint"
"""File of the folder with the newest checkpoint that was read, as the log signed it."""
MAX_NOTE: Final = 1 << 16
WAIT_SECONDS: Final = 8.0
"""How long a request waits for what the log grew by; a long log is read on without it."""
BESIDE_SECONDS: Final = 30.0
"""Age up to which the last reading is shown at once, while the next one is under way."""
CHUNK: Final = 2048
"""Entries that are looked at in one piece of work."""
SYNCED: Final = 8192
"""Entries after which those that were read are made durable; others would be read again."""
KEYS_KEPT: Final = 64
"""Key sets of gateways, and of issuers, the newest of the log, that are shown."""
RENEW_SECONDS, BURN_SECONDS = 240.0, 300.0
"""Age at which accounts are reckoned again, and at which nobody is shown them any more."""
_ENDS: Final = {
    kind: f'"type":"{kind.value}","version":1}}'.encode() for kind in (LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG)
}
"""How entries of key sets end: they charge no account, and are not read further."""


@dataclass(frozen=True)
class Seen:
    """The log as it was read last: its newest checkpoint's ``note``, ``size`` and ``root``. ``live``: recipes, series,
    their leaves, and the newest keys; ``version`` counts its changes that touch accounts."""

    origin: str
    size: int
    root: bytes
    note: bytes
    tree: Tree = field(repr=False)
    live: LiveLog = field(repr=False)
    recipes: RecipeIndex = field(repr=False)
    version: int


@dataclass(frozen=True)
class Accounts:
    """What recipes leave in each account, how it was spent, and both as JSON."""

    version: int
    at: float
    ledger: Ledger
    burnt: list[BurnDown]
    content: bytes = field(repr=False)


class Whole:
    """The whole log, as far as it was read. ``open`` before use, ``close`` after."""

    def __init__(self, config: AdminConfig, deps: Deps) -> None:
        self._config = config
        self._policy = config.policy
        self._deps = deps
        self._stack = contextlib.ExitStack()
        self._seen: Seen | None = None
        self._read_at = -math.inf
        self._told = 0
        self._following: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._reckoning = asyncio.Lock()
        self._accounts: Accounts | None = None

    def open(self) -> None:
        """Take up what an earlier process has read. Raises ``UsageError``."""
        own = self._config.state_dir / FOLDER
        self._tree = FileTree(folder := self._folder(own))
        self._stack.callback(self._tree.close)
        self._keeps = own / CHECKPOINT if folder == own else None
        log, key = self._config.log, self._config.log.note_key()
        self._required = self._policy.log_policy(key, self._deps.clock.now)
        before = self._shown_before(own / CHECKPOINT, key)
        self._log = WholeLog(self._deps.transport, log.url, key, before, self._tree)
        self._leaves = _Leaves(self._config)

    def _shown_before(self, path: Path, key: NoteKey) -> MonitorState:
        """What an earlier process was shown of this log; of a file that this log did not sign, nothing."""
        fresh = MonitorState(key.name)
        try:
            found = self._required.open(read_bounded(path, MAX_NOTE))
        except (UsageError, DecodeError, CryptoError):
            return fresh
        return fresh.seen(found.size, found.root, 0)

    def _folder(self, own: Path) -> Path:
        """The folder; where another process of this configuration has it, one that ends with this process."""
        try:
            self._stack.enter_context(alone_in(own, "lock", "another process keeps the log here"))
        except UsageError:
            if not own.is_dir():
                raise
            own = Path(tempfile.mkdtemp(prefix="log-", dir=self._config.state_dir))
            self._stack.callback(shutil.rmtree, own, ignore_errors=True)
        return own

    async def close(self) -> None:
        """Write what was read to the folder."""
        for task in (self._following, self._renewing):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        self._tree.sync()
        self._stack.close()

    def grew(self, size: int) -> None:
        """Be told that the log has ``size`` entries by now: whoever asks next is shown them, if the log shows them."""
        if self._seen is not None and self._seen.size < size:
            self._told = max(self._told, size)

    async def read(self) -> Seen:
        """The log as it was at most ``BESIDE_SECONDS`` ago, or while it grows by much as of the last reading. Raises
        ``Abort``: 502 where it does not verify, 503 where it does not answer or is still being read."""
        found = await self.look(WAIT_SECONDS) or self._held
        if found is None:
            raise away("log", f"its entries are being read, {self._leaves.count:,} so far")
        return found

    async def look(self, patience: float, *, newer: float | None = None) -> Seen | None:
        """The log as it was at most ``BESIDE_SECONDS`` ago, or ``newer`` seconds ago if it tells within ``patience``
        seconds (0: as it is now); None where that would take longer. Raises as ``read``."""
        async with told("log"):
            if self._told:
                newer = 0.0
            anew, young = newer is not None, self._config.log.poll_seconds if newer is None else newer
            if anew and self._age >= young and self._following is not None:  # what it reads may be of before
                await asyncio.wait({self._following}, timeout=patience)
            seen, age = self._held, self._age
            if seen is not None and age < young:
                return seen
            if self._following is None:
                self._following = asyncio.create_task(self._follow())
                self._following.add_done_callback(self._followed)
            if seen is not None and age < BESIDE_SECONDS and not anew:
                return seen
            following = self._following
            await asyncio.wait({following}, timeout=patience)
            if following.done():
                following.result()
            return self._held if self._age < BESIDE_SECONDS else None

    def is_newer(self, seconds: float) -> bool:
        """Whether the last reading is younger, and shows all that it was said to."""
        return self._age < seconds and not self._told

    @property
    def _held(self) -> Seen | None:
        """The last reading, if all of it is there still."""
        seen = self._seen
        return seen if seen is not None and self._tree.size >= seen.size else None

    @property
    def _age(self) -> float:
        """How many seconds ago the last reading was."""
        return self._deps.clock.now() - self._read_at

    def _followed(self, task: asyncio.Task[None]) -> None:
        self._following = None
        if not task.cancelled():
            task.exception()  # whoever waits is told

    async def _follow(self) -> None:
        now, expected = self._deps.clock.now(), self._told
        try:
            checkpoint = await self._log.checkpoint()
            note, before_size = self._log.note, self._log.state.size
            self._witnessed(note)
            await self._log.read(checkpoint, now)
        except Refusal as refusal:
            raise refuse(Problem.LOG_UNVERIFIED, f"{refusal.rule}: {refusal.detail}") from refusal
        if checkpoint.size > before_size:
            await asyncio.to_thread(self._keep, note)
        before = self._leaves
        try:
            await self._look(checkpoint.size)
        except Fatal:
            self._tree.clear()  # the disk lost some of it: it is read from the log again
            raise
        if self._seen is None or self._seen.size != checkpoint.size or before is not self._leaves:
            recipes = None if self._seen is None or before is not self._leaves else self._seen.recipes
            live, index = await asyncio.to_thread(self._joined, recipes)
            origin, version = self._log.state.origin, self._leaves.version
            self._seen = Seen(origin, checkpoint.size, checkpoint.root, note, self._tree, live, index, version)
        else:
            self._seen = replace(self._seen, note=note)
        self._read_at = now
        if self._told == expected:
            self._told = 0

    def _witnessed(self, note: bytes) -> None:
        try:
            self._required.require_witnesses(note)
        except (DecodeError, CryptoError) as error:
            raise Refusal("log-checkpoint", str(error)) from error

    def _keep(self, note: bytes) -> None:
        """For the next process. One that reads beside another leaves it to that one."""
        if self._keeps is not None:
            try:
                replace_file(self._keeps, note)
            except UsageError as error:
                raise Fatal(f"the log's checkpoint cannot be kept: {error}") from error

    def _joined(self, before: RecipeIndex | None) -> tuple[LiveLog, RecipeIndex]:
        live = self._leaves.live()
        return live, RecipeIndex(live, before)

    async def _look(self, size: int) -> None:
        """Look at entries up to ``size`` that were not looked at before."""
        if self._leaves.count > size or self._tree.root(self._leaves.count) != self._leaves.root:
            self._leaves = _Leaves(self._config, self._leaves.version + 1)
        unsynced = 0
        while self._leaves.count < size:
            end = min(size, self._leaves.count + CHUNK)
            unsynced += end - self._leaves.count
            await asyncio.to_thread(self._look_at, end)
            self._leaves.root = self._tree.root(end)
        if unsynced >= SYNCED:
            await asyncio.to_thread(self._tree.sync)

    def _look_at(self, end: int) -> None:
        self._leaves.add(self._tree.entries[self._leaves.count : end])

    async def live(self) -> LiveLog:
        """What all entries say together, of key sets the newest ones. Raises as ``read``."""
        return (await self.read()).live

    async def accounts(self) -> Accounts:
        """As of at most ``BURN_SECONDS`` ago, and of every recipe of the log. Raises as ``read``."""
        seen = await self.read()
        async with self._reckoning:
            found, now = self._accounts, self._deps.clock.now()
            if found is None or found.version != seen.version or now - found.at >= BURN_SECONDS:
                found = self._accounts = await asyncio.to_thread(self._reckon, seen)
        if self._deps.clock.now() - found.at >= RENEW_SECONDS and self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(seen))
        return found

    async def _renew(self, seen: Seen) -> None:
        """Compute the accounts beside other requests."""
        try:
            found = await asyncio.to_thread(self._reckon, seen)
            if self._accounts is not None and self._accounts.version == found.version:
                self._accounts = found
        finally:
            self._renewing = None

    def _reckon(self, seen: Seen) -> Accounts:
        now = self._deps.clock.now()
        ledger, burnt = ledger_of(seen.live, self._policy, now), burn_downs(seen.live, self._policy, now)
        document = LedgerDocument(**ledger.document(), burn_down=[one.document() for one in burnt])
        return Accounts(seen.version, now, ledger, burnt, document.model_dump_json(by_alias=True).encode())


class _Leaves:
    """What the entries say that were looked at, in the order of the log. ``root``: of the tree that they make."""

    def __init__(self, config: AdminConfig, version: int = 0) -> None:
        self._signers = LeafSigners(config.policy)
        self._joined = LiveJoin()
        self._recipes: dict[str, Recipe] = {}
        self._keys: dict[LeafType, deque[tuple[int, bytes]]] = {kind: deque(maxlen=KEYS_KEPT) for kind in _ENDS}
        self.count = 0
        self.root = EMPTY_ROOT
        self.version = version

    def add(self, entries: Iterable[bytes]) -> None:
        """Look at the next ones. Raises ``DecodeError``, and ``Refusal`` (``leaf-signature``)."""
        for entry in entries:
            kind = next((kind for kind, end in _ENDS.items() if entry.endswith(end)), None)
            if kind is not None:
                self._keys[kind].append((self.count, entry))
            elif (found := self._verified(self.count, SignedLeaf.decode(entry))) is not None:
                self._joined.add(found)
                self.version += 1
            self.count += 1

    def _verified(self, index: int, leaf: SignedLeaf) -> VerifiedEntry | None:
        """The leaf, signed by whoever has to; None for one of a signer that nobody knows."""
        if leaf.type is LeafType.RECIPE:
            with contextlib.suppress(DecodeError):
                recipe = Recipe.decode(leaf.body_bytes())
                self._recipes.setdefault(recipe.hash_text, recipe)
        public = self._signers.key_of(leaf, self._recipes)
        if public is None:
            return None
        try:
            leaf.verify(public)
        except CryptoError as error:
            raise Refusal("leaf-signature", f"{leaf.type} leaf {index}: {error}") from error
        return VerifiedEntry(index, leaf)

    def live(self) -> LiveLog:
        """All of them together."""
        keys = LiveJoin()
        for kept in self._keys.values():
            for index, entry in kept:
                if (found := self._verified(index, SignedLeaf.decode(entry))) is not None:
                    keys.add(found)
        directories: Iterable[IssuerDirectory] = keys.directories.values()
        configs: Iterable[OhttpConfig] = keys.configs.values()
        return replace(self._joined.live(), directories=tuple(directories), ohttp_configs=tuple(configs))
