"""The whole log as requests see it, and the accounts that its recipes charge.

One reader (``tacit.logview.folder``) follows the log for all requests; a request waits for it a few seconds at most.
Accounts are computed again when a new leaf charges or frees them, and every few minutes because time passes.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import Any, Final

from services.admin.base.config import AdminConfig
from services.admin.base.problems import Problem, away, refuse
from services.admin.questions.log import blaming
from tacit.errors import Refusal
from tacit.logview.folder import FolderLog
from tacit.logview.live import LiveLog, LiveRecipe
from tacit.operations.burn_down import BurnDown, burn_downs
from tacit.operations.ledger import Ledger, ledger_of
from tacit.recipe.logged import in_full, recipe_state, stated_members, summary
from tacit.recipe.model import Recipe
from tacit.service.app import ServiceEnv
from tacit.service.documents.admin_log import LedgerDocument
from tacit.tlog.log import Tree

FOLDER: Final = "log"
WAIT_SECONDS: Final = 8.0
"""How long a request waits for new entries of the log; reading a long log goes on without it."""
BESIDE_SECONDS: Final = 30.0
"""The age up to which the last reading is shown at once, while the next one is under way."""
RENEW_SECONDS, BURN_SECONDS = 240.0, 300.0
"""The age at which accounts are computed again in the background, and the age from which they are not shown any
more."""


class RecipeIndex:
    """The recipes of ``live``. ``before``: an index of the same log when it was shorter, whose work is used again."""

    def __init__(self, live: LiveLog, before: RecipeIndex | None = None) -> None:
        self._recipes = live.recipes
        self._places = [one.index for one in live.recipes]
        self._by_hash = {one.recipe.hash_text: one for one in live.recipes}
        self._said: dict[str, dict[str, Any]] = {} if before is None else before._said

    def page(self, first: int, limit: int, now: float) -> tuple[list[dict[str, Any]], int | None]:
        """At most ``limit`` summaries from index ``first`` of the log on, as of ``now`` (POSIX seconds), and the index
        at which the next page begins, or None."""
        begin = bisect_left(self._places, first)
        end = begin + limit
        summaries = [self._summary(one, now) for one in self._recipes[begin:end]]
        return summaries, self._places[end - 1] + 1 if end < len(self._places) else None

    def in_full(self, recipe_hash: str, now: float) -> tuple[dict[str, Any], Recipe] | None:
        """The document (state as of ``now``, in POSIX seconds) and the recipe with this hash (base64url); None if this
        reading of the log has none."""
        live = self._by_hash.get(recipe_hash)
        if live is None:
            return None
        opt_ins = {role: (entry.index, entry.leaf.encode()) for role, entry in live.opt_in_entries.items()}
        return {**self._summary(live, now), **in_full(live.recipe, live.leaf.encode(), opt_ins)}, live.recipe

    def _summary(self, live: LiveRecipe, now: float) -> dict[str, Any]:
        recipe = live.recipe
        if (said := self._said.get(recipe.hash_text)) is None:
            said = self._said[recipe.hash_text] = stated_members(recipe)
        state = recipe_state(live.roles, live.opt_ins, recipe.interval.end, now)
        return summary(recipe.hash_text, live.index, state, said)


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


class FollowedLog:
    """Reads and keeps the whole log. Call ``open`` before use and ``close`` after."""

    def __init__(self, config: AdminConfig, deps: ServiceEnv) -> None:
        self._config = config
        self._policy = config.policy
        self._deps = deps
        log = config.log
        self._log = FolderLog(
            config.state_dir / FOLDER, deps.transport, log.url, log.note_key(), config.policy, deps.clock
        )
        self._seen: Seen | None = None
        self._read_at = -math.inf
        self._told = 0
        self._following: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._reckoning = asyncio.Lock()
        self._accounts: Accounts | None = None

    def open(self) -> None:
        """Open the folder, with everything that an earlier process has read. Raises ``UsageError``."""
        self._log.open()

    async def close(self) -> None:
        """Stop reading, and make everything that was read durable."""
        for task in (self._following, self._renewing):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        self._log.close()

    def grew(self, size: int) -> None:
        """Note that the log now has ``size`` entries, so that the next request reads it again."""
        if self._seen is not None and self._seen.size < size:
            self._told = max(self._told, size)

    async def read(self) -> Seen:
        """The log as it was at most ``BESIDE_SECONDS`` ago, or as last read while many new entries are being read.
        Raises ``Abort``: 502 if it does not verify, 503 if it does not answer or is being read for the first time."""
        seen = await self.look(WAIT_SECONDS) or self._held
        if seen is None:
            raise away("log", f"its entries are being read, {self._log.contents.count:,} so far")
        return seen

    async def look(self, patience: float, *, newer: float | None = None) -> Seen | None:
        """The log as it was at most ``BESIDE_SECONDS`` ago; with ``newer``, at most that many seconds ago (0: as it is
        now) if the log answers within ``patience`` seconds. None if it takes longer. Raises as ``read``."""
        async with blaming("log"):
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
                self._following.add_done_callback(self._on_followed)
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
        return seen if seen is not None and self._log.tree.size >= seen.size else None

    @property
    def _age(self) -> float:
        """How many seconds ago the last reading was; infinite if the clock was set back since."""
        age = self._deps.clock.now() - self._read_at
        return age if age >= 0 else math.inf

    def _on_followed(self, task: asyncio.Task[None]) -> None:
        self._following = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved; the requests that wait raise it

    async def _follow(self) -> None:
        now, expected = self._deps.clock.now(), self._told
        try:
            checkpoint = await self._log.advance(now)
        except Refusal as refusal:
            raise refuse(Problem.LOG_UNVERIFIED, f"{refusal.rule}: {refusal.detail}") from refusal
        note = self._log.note
        anew = await self._log.examine(checkpoint.size)
        if self._seen is None or self._seen.size != checkpoint.size or anew:
            recipes = None if self._seen is None or anew else self._seen.recipes
            live, index = await asyncio.to_thread(self._join, recipes)
            size, root, version = checkpoint.size, checkpoint.root, self._log.contents.version
            self._seen = Seen(checkpoint.origin, size, root, note, self._log.tree, live, index, version)
        else:
            self._seen = replace(self._seen, note=note)
        self._read_at = now
        if self._told == expected:
            self._told = 0

    def _join(self, before: RecipeIndex | None) -> tuple[LiveLog, RecipeIndex]:
        live = self._log.contents.live()
        return live, RecipeIndex(live, before)

    async def live(self) -> LiveLog:
        """The contents of all entries together; of key sets only the newest. Raises as ``read``."""
        return (await self.read()).live

    async def fresh(self) -> LiveLog:
        """The same as it is now. Raises as ``read``, and ``Abort`` (503) if reading the newest entries takes longer."""
        seen = await self.look(WAIT_SECONDS, newer=0.0)
        if seen is None:
            raise away("log", f"its entries are being read, {self._log.contents.count:,} so far")
        return seen.live

    async def accounts(self) -> Accounts:
        """The accounts as of at most ``BURN_SECONDS`` ago, with every recipe in the log. Raises as ``read``."""
        seen = await self.read()
        async with self._reckoning:
            accounts, now = self._accounts, self._deps.clock.now()
            if accounts is None or accounts.version != seen.version or now - accounts.at >= BURN_SECONDS:
                accounts = self._accounts = await asyncio.to_thread(self._reckon, seen)
        if self._deps.clock.now() - accounts.at >= RENEW_SECONDS and self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(seen))
        return accounts

    async def _renew(self, seen: Seen) -> None:
        """Compute the accounts again in the background."""
        try:
            accounts = await asyncio.to_thread(self._reckon, seen)
            if self._accounts is not None and self._accounts.version == accounts.version:
                self._accounts = accounts
        finally:
            self._renewing = None

    def _reckon(self, seen: Seen) -> Accounts:
        now = self._deps.clock.now()
        ledger, burnt = ledger_of(seen.live, self._policy, now), burn_downs(seen.live, self._policy, now)
        document = LedgerDocument(**ledger.document(), burn_down=[one.document() for one in burnt])
        return Accounts(seen.version, now, ledger, burnt, document.model_dump_json(by_alias=True).encode())
