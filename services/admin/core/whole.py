"""A verified copy of the whole log, and the accounts that its recipes charge.

Every entry is hashed again and kept in files (``tacit.adapters.kept_tree``). Memory holds the contents of recipes,
series and their leaves, and the newest key sets. A checkpoint needs the policy's witnesses, and must extend the newest
checkpoint that any process with this folder has seen, which is stored beside the entries. One reader follows the log
for all requests, from where it stopped, and reads only the new entries; a request waits for it a few seconds at most.
Accounts are computed again when a new leaf charges or frees them, and every few minutes because time passes.
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
from tacit.logview.live import LiveJoin, LiveLog
from tacit.logview.signers import LeafSigners
from tacit.logview.view import VerifiedEntry
from tacit.logview.whole import WholeLog, WholeState
from tacit.operations.burn_down import BurnDown, burn_downs
from tacit.operations.ledger import Ledger, ledger_of
from tacit.recipe.model import Recipe
from tacit.service.app import Deps
from tacit.tlog.checkpoint import NoteKey
from tacit.tlog.leaves import IssuerDirectory, LeafType, OhttpConfig, SignedLeaf
from tacit.tlog.log import Tree
from tacit.tlog.merkle import EMPTY_ROOT

FOLDER: Final = "log"
CHECKPOINT: Final = "checkpoint"
"""The file in the folder with the newest checkpoint that was read, as the log signed it."""
MAX_NOTE: Final = 1 << 16
WAIT_SECONDS: Final = 8.0
"""How long a request waits for new entries of the log; reading a long log goes on without it."""
BESIDE_SECONDS: Final = 30.0
"""The age up to which the last reading is shown at once, while the next one is under way."""
CHUNK: Final = 2048
"""How many entries are examined in one piece of work."""
SYNCED: Final = 8192
"""After how many new entries the files are made durable. After a crash, entries that were not durable are read
again."""
KEYS_KEPT: Final = 64
"""How many of the newest key sets of gateways, and of issuers, are shown."""
RENEW_SECONDS, BURN_SECONDS = 240.0, 300.0
"""The age at which accounts are computed again in the background, and the age from which they are not shown any
more."""
_ENDS: Final = {
    kind: f'"type":"{kind.value}","version":1}}'.encode() for kind in (LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG)
}
"""The last bytes of key-set entries. Such entries charge no account, so they are not decoded at once."""


@dataclass(frozen=True)
class Seen:
    """The log as it was last read: the ``note``, ``size`` and ``root`` of its newest checkpoint. ``live``: recipes,
    series, their leaves, and the newest key sets; ``version`` counts the changes that affect accounts."""

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
    """Every account as of ``at`` (POSIX seconds): what recipes have spent and left (``ledger``), how it was spent over
    time (``burnt``), and both as JSON (``content``)."""

    version: int
    at: float
    ledger: Ledger
    burnt: list[BurnDown]
    content: bytes = field(repr=False)


class Whole:
    """Reads and keeps the whole log. Call ``open`` before use and ``close`` after."""

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
        """Open the folder, with everything that an earlier process has read. Raises ``UsageError``."""
        own = self._config.state_dir / FOLDER
        self._tree = FileTree(folder := self._folder(own))
        self._stack.callback(self._tree.close)
        self._keeps = own / CHECKPOINT if folder == own else None
        log, key = self._config.log, self._config.log.note_key()
        self._required = self._policy.log_policy(key, self._deps.clock.now)
        before = self._shown_before(own / CHECKPOINT, key)
        self._log = WholeLog(self._deps.transport, log.url, key, before, self._tree)
        self._leaves = _Leaves(self._config)

    def _shown_before(self, path: Path, key: NoteKey) -> WholeState:
        """The newest checkpoint that an earlier process saw; an empty state if the file is missing or this log did not
        sign it."""
        fresh = WholeState(key.name)
        try:
            found = self._required.open(read_bounded(path, MAX_NOTE))
        except (UsageError, DecodeError, CryptoError):
            return fresh
        return fresh.seen(found.size, found.root, 0)

    def _folder(self, own: Path) -> Path:
        """Lock and return the folder ``own``. If another process with this configuration has it, make a folder that is
        removed when this process ends."""
        try:
            self._stack.enter_context(alone_in(own, "lock", "another process keeps the log here"))
        except UsageError:
            if not own.is_dir():
                raise
            own = Path(tempfile.mkdtemp(prefix="log-", dir=self._config.state_dir))
            self._stack.callback(shutil.rmtree, own, ignore_errors=True)
        return own

    async def close(self) -> None:
        """Stop reading, and make everything that was read durable."""
        for task in (self._following, self._renewing):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        self._tree.sync()
        self._stack.close()

    def grew(self, size: int) -> None:
        """Note that the log now has ``size`` entries, so that the next request reads it again."""
        if self._seen is not None and self._seen.size < size:
            self._told = max(self._told, size)

    async def read(self) -> Seen:
        """The log as it was at most ``BESIDE_SECONDS`` ago, or as last read while many new entries are being read.
        Raises ``Abort``: 502 if it does not verify, 503 if it does not answer or is being read for the first time."""
        found = await self.look(WAIT_SECONDS) or self._held
        if found is None:
            raise away("log", f"its entries are being read, {self._leaves.count:,} so far")
        return found

    async def look(self, patience: float, *, newer: float | None = None) -> Seen | None:
        """The log as it was at most ``BESIDE_SECONDS`` ago; with ``newer``, at most that many seconds ago (0: as it is
        now) if the log answers within ``patience`` seconds. None if it takes longer. Raises as ``read``."""
        async with told("log"):
            if self._told:
                newer = 0.0
            anew, young = newer is not None, self._config.log.poll_seconds if newer is None else newer
            if anew and self._age >= young and self._following is not None:  # it may be reading an older state
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
        """Whether the last reading is less than ``seconds`` old, and no larger size has been noted since."""
        return self._age < seconds and not self._told

    @property
    def _held(self) -> Seen | None:
        """The last reading, if all its entries are still there."""
        seen = self._seen
        return seen if seen is not None and self._tree.size >= seen.size else None

    @property
    def _age(self) -> float:
        """How many seconds ago the last reading was."""
        return self._deps.clock.now() - self._read_at

    def _followed(self, task: asyncio.Task[None]) -> None:
        self._following = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved; the requests that wait raise it

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
            self._tree.clear()  # the disk lost entries: they are read from the log again
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
        """Store the checkpoint for the next process. A process with a temporary folder does not."""
        if self._keeps is not None:
            try:
                replace_file(self._keeps, note)
            except UsageError as error:
                raise Fatal(f"the log's checkpoint cannot be kept: {error}") from error

    def _joined(self, before: RecipeIndex | None) -> tuple[LiveLog, RecipeIndex]:
        live = self._leaves.live()
        return live, RecipeIndex(live, before)

    async def _look(self, size: int) -> None:
        """Examine the entries up to ``size`` that were not examined before."""
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
        """The contents of all entries together; of key sets only the newest. Raises as ``read``."""
        return (await self.read()).live

    async def accounts(self) -> Accounts:
        """The accounts as of at most ``BURN_SECONDS`` ago, with every recipe in the log. Raises as ``read``."""
        seen = await self.read()
        async with self._reckoning:
            found, now = self._accounts, self._deps.clock.now()
            if found is None or found.version != seen.version or now - found.at >= BURN_SECONDS:
                found = self._accounts = await asyncio.to_thread(self._reckon, seen)
        if self._deps.clock.now() - found.at >= RENEW_SECONDS and self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(seen))
        return found

    async def _renew(self, seen: Seen) -> None:
        """Compute the accounts again in the background."""
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
    """The contents of the first ``count`` entries of the log. ``root``: the root of the tree that they form."""

    def __init__(self, config: AdminConfig, version: int = 0) -> None:
        self._signers = LeafSigners(config.policy)
        self._joined = LiveJoin()
        self._recipes: dict[str, Recipe] = {}
        self._keys: dict[LeafType, deque[tuple[int, bytes]]] = {kind: deque(maxlen=KEYS_KEPT) for kind in _ENDS}
        self.count = 0
        self.root = EMPTY_ROOT
        self.version = version

    def add(self, entries: Iterable[bytes]) -> None:
        """Examine the next entries. Raises ``DecodeError``, and ``Refusal`` (``leaf-signature``)."""
        for entry in entries:
            kind = next((kind for kind, end in _ENDS.items() if entry.endswith(end)), None)
            if kind is not None:
                self._keys[kind].append((self.count, entry))
            elif (found := self._verified(self.count, SignedLeaf.decode(entry))) is not None:
                self._joined.add(found)
                self.version += 1
            self.count += 1

    def _verified(self, index: int, leaf: SignedLeaf) -> VerifiedEntry | None:
        """Verify the leaf's signature and return the leaf; None if its signer is unknown. Raises ``Refusal``."""
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
        """Join all examined entries and the newest key sets."""
        keys = LiveJoin()
        for kept in self._keys.values():
            for index, entry in kept:
                if (found := self._verified(index, SignedLeaf.decode(entry))) is not None:
                    keys.add(found)
        directories: Iterable[IssuerDirectory] = keys.directories.values()
        configs: Iterable[OhttpConfig] = keys.configs.values()
        return replace(self._joined.live(), directories=tuple(directories), ohttp_configs=tuple(configs))
