"""This aggregator's own leaves about tasks that are over: void leaves (P22) and census shares (SA2 5.5).

Both are kept in the database first, and only then sent, until the log has them. A crash in between loses nothing: the
leaf that is sent after the next start has the same bytes.

A **void leaf** states that nothing of a recipe was released, nor ever will be. When the time in which a release may
come is over, by the log's clock too, and there was none, one transaction closes the task for good and keeps the signed
leaf. What is closed stays closed; a task with one released batch is never closed this way.

A **census share** is the aggregate share that this aggregator released for a census, published so that anybody can add
up both shares. The transaction that releases the batch keeps it, exactly the bytes that it seals to the collector
(including the aggregator's noise). It never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tacit import media_types
from tacit.aggregator.config import LogConfig
from tacit.aggregator.participant import Signatory
from tacit.aggregator.records import OPEN_STATES, TaskRow, TaskState
from tacit.aggregator.store import CommonTx, SqlStore
from tacit.answers import is_final
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.ledger.account import Charge, ChargeState, charge_state
from tacit.logview.live import LiveLog
from tacit.models.forms import form_of
from tacit.ports import HttpResponse, Transport
from tacit.problem import problem_type
from tacit.recipe.charges import charge_of, is_refundable, series_charges
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.retry_after import retry_after
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import CensusShare, Void

_TAKEN = frozenset({*OPEN_STATES, TaskState.ENDED})
_SERVED = frozenset({TaskState.ACTIVE, TaskState.ENDED})


PAUSES = Backoff(5.0, LONGEST_PAUSE)


async def send_leaf(transport: Transport, log_url: str, leaf: bytes) -> HttpResponse:
    """Post an encoded leaf to the log and return the answer, whatever its status. Raises ``TransportError``."""
    headers = {"Content-Type": media_types.JSON}
    return await transport.request("POST", f"{log_url}/v1/leaves", headers=headers, body=leaf)


class Offers:
    """Offers leaves to the log until it has them, or refuses them for good; each is due again after a pause of its
    own."""

    def __init__(self, url: str, deps: ServiceEnv, told: str, role: str, *, until_shown: bool = False) -> None:
        """``told``: the event of ``role`` when the log first refuses a leaf; ``until_shown``: a leaf that the log took
        is offered again while its reader does not see it there."""
        self._url = url
        self._deps = deps
        self._told = told
        self._until_shown = until_shown
        self._log = get_logger(role)
        self._settled: set[bytes] = set()
        self._again: dict[bytes, tuple[int, float]] = {}
        """Failures in a row, and when the leaf is due again, by name."""

    def is_due(self, name: bytes) -> bool:
        """Whether something may be left to send under ``name``, and its pause is over."""
        return name not in self._settled and self._deps.clock.now() >= self._again.get(name, (0, 0.0))[1]

    def settle(self, name: bytes) -> None:
        """Send nothing under ``name`` any more."""
        self._settled.add(name)
        self._again.pop(name, None)

    async def offer(self, name: bytes, leaf: bytes) -> None:
        """Send a leaf once. Raises ``TransportError``."""
        answer = await send_leaf(self._deps.transport, self._url, leaf)
        is_taken, is_over = 200 <= answer.status < 300, is_final(answer.status, answer.body)
        failures, _ = self._again.get(name, (0, 0.0))
        if not is_taken and (is_over or not failures):
            self._log.warning(self._told, status=answer.status, problem=problem_type(answer.body), final=is_over)
        if is_taken and self._until_shown:
            self._again.pop(name, None)
            return
        if is_taken or is_over:
            self.settle(name)
            return
        now = self._deps.clock.now()
        pause = PAUSES.pause(failures, self._deps.entropy, retry_after(answer.headers, now))
        self._again[name] = failures + 1, now + pause


class Voids:
    """Closes tasks that were never released, and publishes their void leaves."""

    def __init__(
        self, store: SqlStore[CommonTx], identity: Signatory, log: LogConfig, deps: ServiceEnv, void_after: float
    ) -> None:
        """``void_after``: seconds after the end of a recipe's interval in which a release may still come."""
        self._store = store
        self._identity = identity
        self._deps = deps
        self._void_after = void_after
        self._offers = Offers(log.url, deps, "void_refused", identity.role_name)
        self._ends: dict[bytes, int] = {}
        self._log = get_logger(identity.role_name)

    def due(self, rows: Iterable[TaskRow]) -> list[TaskRow]:
        """The rows that ``step`` has to close or to offer a void leaf for: over for long enough, and not in a pause
        after a failure."""
        past = self._deps.vouched.past()
        return [row for row in rows if self._offers.is_due(row.recipe_hash) and self._is_due(row, past)]

    def _is_due(self, row: TaskRow, past: float) -> bool:
        if row.void or row.state not in OPEN_STATES:
            return bool(row.void)
        if row.recipe_hash not in self._ends:
            try:
                self._ends[row.recipe_hash] = Recipe.decode(row.recipe).interval.end
            except DecodeError:  # an older version could read it; no void leaf is sent for it, and it stays charged
                self._offers.settle(row.recipe_hash)
                return False
        return past >= self._ends[row.recipe_hash] + self._void_after

    async def step(self, live: LiveLog, due: Iterable[TaskRow]) -> None:
        """Close every task whose time is over without a release, and send the leaves of those that are closed."""
        role = self._identity.role_name
        for row in due:
            item = live.recipe(row.recipe_hash)
            if item is None or role not in item.opt_ins or role in item.voids:
                self._offers.settle(row.recipe_hash)
                continue
            closed = row if row.void else await self._close(row)
            if closed is None:
                continue
            if closed.void:
                await self._offers.offer(row.recipe_hash, closed.void)
            else:
                self._offers.settle(row.recipe_hash)

    async def _close(self, row: TaskRow) -> TaskRow | None:
        """Return the row with its void leaf, unless a batch was released; ``None`` where the row has changed
        meanwhile."""
        task_id = row.task_id or b""
        body = Void(recipe_hash=b64url(row.recipe_hash), task_id=b64url(task_id), role=self._identity.role_name)
        leaf = sign_leaf(LeafType.VOID, body, self._identity.operator, self._identity.signing_key)
        closed = replace(row, void=leaf.encode())
        async with self._store.transaction() as tx:
            if await tx.task_state(row.recipe_hash) is not row.state or await tx.in_doubt():
                return None
            if not await tx.close_unreleased(task_id):
                return row
            await tx.put_task(closed)
        await self._store.checkpoint()
        self._log.info("recipe_void", recipe=b64url(row.recipe_hash))
        return closed


Kept = tuple[bytes, int, bytes]
"""Task id, report count, encoded aggregate share."""


class CensusShares:
    """Sends the kept shares until the log has them."""

    def __init__(self, identity: Signatory, log: LogConfig, deps: ServiceEnv) -> None:
        self._identity = identity
        self._offers = Offers(log.url, deps, "census_share_refused", identity.role_name)

    def due(self, shares: Iterable[Kept]) -> list[Kept]:
        """Those of the kept shares that ``step`` has to consider now."""
        return [kept for kept in shares if self._offers.is_due(kept[0])]

    async def step(self, live: LiveLog, due: Iterable[Kept], rows: Iterable[TaskRow]) -> None:
        """Send every share that the log does not show yet; ``rows`` are those of all tasks."""
        recipes = {row.task_id: row.recipe_hash for row in rows}
        role = self._identity.role_name
        for kept in due:
            recipe_hash = recipes[kept[0]]
            item = live.recipe(recipe_hash)
            if item is None or role in item.shares:
                self._offers.settle(kept[0])
            else:
                await self._offers.offer(kept[0], self._leaf(recipe_hash, kept).encode())

    def _leaf(self, recipe_hash: bytes, kept: Kept) -> SignedLeaf:
        task_id, report_count, agg_share = kept
        body = CensusShare(
            recipe_hash=b64url(recipe_hash),
            task_id=b64url(task_id),
            role=self._identity.role_name,
            report_count=report_count,
            aggregate_share=b64url(agg_share),
        )
        return sign_leaf(LeafType.CENSUS_SHARE, body, self._identity.operator, self._identity.signing_key)


def own_charges(live: LiveLog, rows: Mapping[bytes, TaskRow], now: float) -> tuple[Charge, ...]:
    """What this aggregator has opted in to: nothing else can be released. A void recipe stops counting once both void
    leaves are in the log."""
    charges = []
    rounds: dict[bytes, list[ChargeState]] = {}
    series: dict[bytes, Series] = {}
    for row in rows.values():
        if row.state not in _TAKEN:
            continue
        item = live.recipe(row.recipe_hash)
        recipe = Recipe.decode(row.recipe) if item is None else item.recipe
        roles = form_of(recipe.model).opts_in
        opted_in: Collection[str] = roles if row.state in _SERVED or item is None else item.opt_ins
        void: Collection[str] = () if item is None else item.voids
        state = charge_state(roles, opted_in, void, recipe.interval.end, now, refundable=is_refundable(recipe))
        whole = live.round_of(recipe)
        if whole is None:
            charges.append(charge_of(recipe, state))
        else:
            series[whole.hash] = whole
            rounds.setdefault(whole.hash, []).append(state)
    ended = ((one, live.ended(one.hash)) for one in series.values())
    return (*charges, *series_charges(ended, rounds, now))
