"""Void leaves: this aggregator's statement that nothing of a recipe was released, nor ever will be (P22).

When the time in which a release may come is over and there was none, one transaction closes the task for good and keeps
the signed leaf; only then is the leaf sent, until the log has it. A crash in between loses nothing: what is closed
stays closed, and the leaf is sent after the next start. A task with one released batch is never closed this way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tacit import media_types
from tacit.aggregator.config import LogConfig
from tacit.aggregator.ports import ClosingTx, SharedStore
from tacit.aggregator.records import TaskRow, TaskState
from tacit.aggregator.seat import Signatory
from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.ledger.account import Charge, ChargeState, charge_state
from tacit.logview.live import LiveLog
from tacit.models.forms import form_of
from tacit.recipe.charges import charge_of, is_refundable, series_charges
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.service.app import Deps
from tacit.service.log import get_logger
from tacit.tlog.leaves import LeafType, Void, sign_leaf

_OPEN = frozenset({TaskState.OPTED_IN, TaskState.ACTIVE})
_TAKEN = frozenset({TaskState.OPTED_IN, TaskState.ACTIVE, TaskState.ENDED})
_SERVED = frozenset({TaskState.ACTIVE, TaskState.ENDED})


class Voids:
    """Closes tasks that were never released, and publishes their void leaves."""

    def __init__(
        self, store: SharedStore[ClosingTx], identity: Signatory, log: LogConfig, deps: Deps, void_after: float
    ) -> None:
        """``void_after``: seconds after the end of a recipe's interval in which a release may still come."""
        self._store = store
        self._identity = identity
        self._url = f"{log.url}/v1/leaves"
        self._deps = deps
        self._void_after = void_after
        self._settled: set[bytes] = set()
        """Recipes for which this process has nothing left to send."""
        self._ends: dict[bytes, int] = {}
        self._log = get_logger(identity.role_name)

    def due(self, rows: Iterable[TaskRow]) -> list[TaskRow]:
        """The rows that ``step`` has to consider now."""
        now = self._deps.clock.now()
        return [row for row in rows if row.recipe_hash not in self._settled and self._is_due(row, now)]

    def _is_due(self, row: TaskRow, now: float) -> bool:
        if row.void or row.state not in _OPEN:
            return bool(row.void)
        if row.recipe_hash not in self._ends:
            try:
                self._ends[row.recipe_hash] = Recipe.decode(row.recipe).interval.end
            except DecodeError:  # an older version could read it; no void leaf is sent for it, and it stays charged
                self._settled.add(row.recipe_hash)
                return False
        return now >= self._ends[row.recipe_hash] + self._void_after

    async def step(self, live: LiveLog, due: Iterable[TaskRow]) -> None:
        """Close every task whose time is over without a release, and send the leaves of those that are closed."""
        role = self._identity.role_name
        for row in due:
            item = live.recipe(row.recipe_hash)
            if item is None or role not in item.opt_ins or role in item.voids:
                self._settled.add(row.recipe_hash)
                continue
            closed = row if row.void else await self._close(row)
            if closed is not None and (not closed.void or await self._send(closed)):
                self._settled.add(row.recipe_hash)

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

    async def _send(self, row: TaskRow) -> bool:
        """Send the leaf; return whether the log has given a final answer."""
        headers = {"Content-Type": media_types.JSON}
        answer = await self._deps.transport.request("POST", self._url, headers=headers, body=row.void)
        if 400 <= answer.status < 500:
            self._log.warning("void_refused", status=answer.status)
        return 200 <= answer.status < 300 or 400 <= answer.status < 500


def own_charges(live: LiveLog, rows: Mapping[bytes, TaskRow], now: float) -> tuple[Charge, ...]:
    """What this aggregator has opted in to: nothing else can be released. A void recipe stops counting once both void
    leaves are in the log."""
    found = []
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
            found.append(charge_of(recipe, state))
        else:
            series[whole.hash] = whole
            rounds.setdefault(whole.hash, []).append(state)
    return (*found, *series_charges(series.values(), rounds, now))
