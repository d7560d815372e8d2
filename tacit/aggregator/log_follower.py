"""Following the log: recipes in; opt-ins, void leaves and census shares out (P4, P5, P22).

Every step fetches what is new, verifies it against the pinned key and the last checkpoint, and reviews each recipe that
names this party. State is persisted before anything is sent: an opt-in is stored before it is sent, and sent until the
log holds it; a task is served once all opt-ins are in the log and equal. An opt-in of ours in the log that the database
does not know means that the records of spent tokens and released batches are lost: that recipe is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic

from aiohttp import web

from tacit.aggregator.config import FollowingConfig, LogConfig
from tacit.aggregator.own_leaves import CensusShares, Offers, Voids, own_charges
from tacit.aggregator.participant import Participant
from tacit.aggregator.parties import P, PartyTable
from tacit.aggregator.records import TaskRow, TaskState
from tacit.aggregator.rollback import LOST, LOST_DETAIL, end_lost, is_lost, shows_rollback
from tacit.aggregator.store import CommonTx, SqlStore, had_begun
from tacit.codec import b64url
from tacit.errors import Fatal, Refusal, RolledBack
from tacit.ledger.account import Charge
from tacit.logview.live import LiveLog, LiveRecipe
from tacit.logview.log_source import log_at
from tacit.logview.stored import StoredLog, stored_live
from tacit.logview.view import VerifiedEntry
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.rules import table as rules
from tacit.service.announcements import wake_on_announcements
from tacit.service.app import CLOCK_BOUND, ServiceEnv, add_driver, voucher_of
from tacit.service.base.log import get_logger
from tacit.service.base.vouched import AskingTime
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tlog.statements import OptIn

REFRESH_SECONDS = 1.0
"""Seconds between two queries of the database for a task that is unknown here."""

UNUSABLE = "recipe-unusable"
"""The rule of a recipe that raises an error that no rule foresees."""
WAITING_RULES = frozenset({"slot-key-missing", "series-missing"})
"""Rules whose refusal later leaves of the log may lift."""


class LogFollower(Generic[P]):
    """Keeps a party's tasks in step with the log, in the one process that leads; the others (``coordinates`` False, or
    another process leads) keep in step with the database."""

    def __init__(
        self,
        store: SqlStore[CommonTx],
        parties: PartyTable[P],
        participant: Participant[P],
        log: LogConfig,
        policy: Policy,
        deps: ServiceEnv,
        retention: float,
        *,
        coordinates: bool = True,
        void_after: float | None = None,
    ) -> None:
        """``void_after``: seconds after a recipe's end in which a release may still come (default and maximum:
        ``retention``)."""
        self.store = store
        self._parties = parties
        self._participant = participant
        identity = self._identity = participant.identity
        self._log_config = log
        required = policy.log_policy(log.note_key(), deps.clock.now)
        voucher = voucher_of(deps, "the log")
        self._stored = StoredLog(store, log_at(voucher, log.url), required, policy)
        self._asking = AskingTime(voucher, f"{log.url}/checkpoint")
        self._policy = policy
        self._deps = deps
        self._retention = retention
        self._coordinates = coordinates
        grace = retention if void_after is None else min(void_after, retention)
        self._opt_ins = Offers(log.url, deps, "opt_in_refused", identity.role_name, until_shown=True)
        self._voids = Voids(store, identity, log, deps, grace)
        self._census_shares = CensusShares(identity, log, deps)
        self._reviewed = False
        self._left: set[bytes] = set()
        self._refreshed = -REFRESH_SECONDS
        parties.refresh = self._refresh
        self._log = get_logger(identity.role_name)

    async def load(self) -> None:
        """Load the active tasks of an earlier run, or of another process."""
        async with self.store.read() as tx:
            rows, closed = await tx.tasks(), await tx.closed_until()
        if any(is_lost(row, closed) for row in rows):
            async with self.store.transaction() as tx:
                rows = await end_lost(tx, closed)
        self._take_up(rows)

    def _take_up(self, rows: Iterable[TaskRow]) -> None:
        for row in rows:
            known = row.task_id is not None and self._parties.find(row.task_id) is not None
            if row.state is TaskState.ACTIVE and not known:
                self._serve(row)
            elif row.state is TaskState.ENDED and known:
                self._parties.remove(row.task_id or b"")

    def _serve(self, row: TaskRow) -> None:
        """Serve one task. A task whose row cannot be used any more (an older version may have accepted what this one
        refuses) is skipped, and the others are served. Raises ``Fatal`` for a missing key of ours."""
        try:
            if self._is_trusted(row):
                self._parties.add(self._participant.party(Recipe.decode(row.recipe), row, self._retention))
        except Fatal:
            raise
        except Exception as error:
            if row.recipe_hash not in self._left:
                self._left.add(row.recipe_hash)
                self._log.error("task_unusable", recipe=b64url(row.recipe_hash), error=error)

    def _is_trusted(self, row: TaskRow) -> bool:
        """Whether the policy still names both aggregators of a task that was accepted before: the Leader's credential
        is sent to the Helper's address."""
        recipe = Recipe.decode(row.recipe)
        if self._policy.trusts_aggregators(recipe.parties):
            return True
        if row.recipe_hash not in self._left:
            self._left.add(row.recipe_hash)
            self._log.warning("task_left", recipe=recipe.hash_text, rule="aggregator-unknown")
        return False

    async def _refresh(self) -> None:
        now = self._deps.clock.now()
        if not 0.0 <= now - self._refreshed < REFRESH_SECONDS:
            self._refreshed = now
            await self.load()

    async def step(self) -> int:
        """Fetch, review and opt in. Returns how many recipes changed their state."""
        if not (self._coordinates and await self.store.leads()):
            await self.load()
            await self._asking.step()  # a process that does not read the log closes and drops too
            return 0
        changed = 0
        if await self._stored.fetch(self._admit) is None:
            self.store.doubtful = "the database is from the past; restart the service to see what to do"
            raise RolledBack(self.store.doubtful)
        if not self._reviewed and not self._deps.vouched.doubt():
            changed = await self._review()
        await self._send_own_leaves()
        return changed + await self.end_tasks()

    async def _admit(self, tx: CommonTx, entries: Sequence[VerifiedEntry], stored: Collection[int]) -> bool:
        self._reviewed = False  # before the commit: if its answer is lost, the leaves may still have been stored
        if await shows_rollback(tx, self._identity, entries, stored, self._deps.clock.now()):
            await tx.doubt()
            return False
        return True

    async def _review(self) -> int:
        """Review every recipe again. The rules run in a thread. A row that was meanwhile changed by another
        process, which now leads, stays as it is and is reviewed again."""
        async with self.store.read() as tx:
            live = await stored_live(tx)
            rows = {row.recipe_hash: row for row in await tx.tasks()}
            closed = await tx.closed_until()
        self._take_up(rows.values())
        reviewed = await asyncio.to_thread(self._reviewed_rows, live, rows, closed)
        changed = [row for row in reviewed if rows.get(row.recipe_hash) != row]
        self._reviewed = True
        if not changed:
            return 0
        async with self.store.transaction() as tx:
            present = {row.recipe_hash: row for row in await tx.tasks()}
            same = [row for row in changed if present.get(row.recipe_hash) == rows.get(row.recipe_hash)]
            self._reviewed = len(same) == len(changed)
            changed = [row for row in same if await tx.put_task(row)]
        for row in changed:
            self._log.info(
                "recipe", recipe=b64url(row.recipe_hash), state=row.state.value, rule=row.rule, why=row.detail
            )
            if row.state is TaskState.ACTIVE:
                self._serve(row)
        return len(changed)

    def _reviewed_rows(self, live: LiveLog, rows: Mapping[bytes, TaskRow], closed: int) -> list[TaskRow]:
        reviewed = []
        decided = dict(rows)
        for item in live.recipes:
            row = rows.get(item.recipe.hash)
            settled = row is not None and row.state in {TaskState.ACTIVE, TaskState.ENDED}
            if settled or not self._is_ours(item.recipe):
                continue
            row = self._reviewed_row(live, item, row, decided, closed)
            decided[item.recipe.hash] = row
            reviewed.append(row)
        return reviewed

    def _is_ours(self, recipe: Recipe) -> bool:
        own = recipe.parties.server(self._identity.role_name)
        return own is not None and own.operator == self._identity.operator

    def _context(self, live: LiveLog, item: LiveRecipe, rows: Mapping[bytes, TaskRow], stage: Stage) -> Context:
        """The context of a check: the log, and what this aggregator has itself opted in to (P22)."""
        now = self._deps.clock.now()
        charges: tuple[Charge, ...] | None = None
        if self._policy.accounts is not None:
            charges = own_charges(live, rows, now)
        return replace(live.context(item, now, stage), charges=charges)

    def _reviewed_row(
        self, live: LiveLog, item: LiveRecipe, row: TaskRow | None, rows: Mapping[bytes, TaskRow], closed: int
    ) -> TaskRow:
        """Decide about a recipe, and activate it if everybody has opted in. One that raises an unexpected error is
        refused, or, once we have opted in, stays as it is with the reason; it is reviewed again with every new leaf."""
        try:
            if row is None or row.state is not TaskState.OPTED_IN:
                row = self._decide(live, item, rows, closed)
            return self._activate(live, item, row, rows) if row.state is TaskState.OPTED_IN else row
        except Exception as error:
            if row is None or row.state is not TaskState.OPTED_IN:
                row = TaskRow(item.recipe.hash, TaskState.REFUSED, item.recipe.encode())
            return replace(row, rule=UNUSABLE, detail=f"unexpected {type(error).__name__}")

    def _decide(self, live: LiveLog, item: LiveRecipe, rows: Mapping[bytes, TaskRow], closed: int) -> TaskRow:
        """Accept a recipe, wait, or refuse it, by the rule table and our own keys."""
        recipe = item.recipe
        row = TaskRow(recipe.hash, TaskState.REFUSED, recipe.encode())
        context = self._context(live, item, rows, Stage.LOGGED)
        try:
            rules.require(recipe, self._policy, context)
            self._check_own_side(item, closed)
            spki = live.slot_key(recipe)
            task_id = self._participant.task_id(recipe, spki)
        except Refusal as refusal:
            state = TaskState.WAITING if refusal.rule in WAITING_RULES else TaskState.REFUSED
            return replace(row, state=state, rule=refusal.rule, detail=refusal.detail)
        body = self._participant.opt_in(item, task_id)
        opt_in = sign_leaf(LeafType.OPT_IN, body, self._identity.operator, self._identity.signing_key)
        return replace(
            row,
            state=TaskState.OPTED_IN,
            task_id=task_id,
            token_key_spki=spki,
            opt_in=opt_in.encode(),
        )

    def _check_own_side(self, item: LiveRecipe, closed: int) -> None:
        own = item.recipe.parties.servers()[self._identity.role_name]
        if had_begun(item.recipe.interval.start, closed):
            raise Refusal(LOST, LOST_DETAIL)
        if own.signing_key != b64url(self._identity.signing_key.public):
            raise Refusal("own-signing-key", "the recipe names another signing key for us")
        self._participant.check_keys(own)
        if self._own_opt_in(item) is not None:
            raise Refusal("own-records-lost", "the log holds an opt-in of ours that our database does not")

    def _own_opt_in(self, item: LiveRecipe) -> OptIn | None:
        return item.opt_ins.get(self._identity.role_name)

    def _activate(self, live: LiveLog, item: LiveRecipe, row: TaskRow, rows: Mapping[bytes, TaskRow]) -> TaskRow:
        refusals = rules.check(item.recipe, self._policy, self._context(live, item, rows, Stage.ACTIVE))
        if refusals:
            return replace(row, rule=refusals[0].rule, detail=refusals[0].detail)
        return replace(row, state=TaskState.ACTIVE, rule="", detail="")

    async def end_tasks(self) -> int:
        """Forget tasks whose time, including retention, is over by the log's clock too: nobody can spend their tokens
        any more. Ending a task is final, see ``CommonTx.is_open``."""
        past = self._deps.vouched.past()
        over = {party.task.recipe_hash: party.task.task_id for party in self._parties.active() if past >= party.closes}
        for recipe_hash, task_id in over.items():
            self._parties.remove(task_id)
            async with self.store.transaction() as tx:
                rows = [row for row in await tx.tasks() if row.recipe_hash == recipe_hash]
                for row in rows:
                    await tx.put_task(replace(row, state=TaskState.ENDED))
                await tx.forget(task_id)
        return len(over)

    async def _send_own_leaves(self) -> None:
        """Send each opt-in, void leaf and census share of ours until the log shows it. Tasks without a release are
        closed for good before their void leaf is sent."""
        async with self.store.read() as tx:
            rows = await tx.tasks()
            opted_in = [row for row in rows if row.state is TaskState.OPTED_IN]
            over, shares = self._voids.due(rows), self._census_shares.due(await tx.census_shares())
            live = await stored_live(tx) if opted_in or over or shares else LiveLog()
        for row in opted_in:
            item = live.recipe(row.recipe_hash)
            if item is not None and self._own_opt_in(item) is None and self._opt_ins.is_due(row.recipe_hash):
                await self._opt_ins.offer(row.recipe_hash, row.opt_in)
        await self._voids.step(live, over)
        await self._census_shares.step(live, shares, rows)


FOLLOWER: web.AppKey[LogFollower[Any]] = web.AppKey("follower")


def follow_log(
    app: web.Application,
    store: SqlStore[CommonTx],
    parties: PartyTable[P],
    participant: Participant[P],
    config: FollowingConfig,
    deps: ServiceEnv,
    *,
    coordinates: bool = True,
    void_after: float | None = None,
) -> None:
    """Fill ``parties`` with the tasks of the log's recipes: load the tasks of earlier runs when the app starts, and
    follow the log while it runs. Call it after the store is opened. ``void_after``: by default ``config.void_seconds``.
    """
    grace = config.void_seconds if void_after is None else void_after
    follower = app[FOLLOWER] = LogFollower(
        store,
        parties,
        participant,
        config.log,
        config.policy,
        deps,
        config.retention,
        coordinates=coordinates,
        void_after=grace,
    )

    async def loading(_app: web.Application) -> AsyncIterator[None]:
        await follower.load()
        yield

    app.cleanup_ctx.append(loading)
    app[CLOCK_BOUND] = True
    look = add_driver(app, follower, config.log.poll_seconds, "following the log", in_doubt=True)
    wake_on_announcements(app, config.announcer, look, insecure=config.insecure_http)
