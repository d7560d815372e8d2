"""The recipe server's metrics: the log and the privacy accounts, which are public anyway."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from recipe_server.model_files import ModelFiles
from recipe_server.service import RecipeService
from recipe_server.store import RecipeStore
from recipe_server.witnessing import WitnessDriver
from tacit.ledger.balance import balance
from tacit.ports import Clock
from tacit.recipe.charges import rightful
from tacit.recipe.policy import Policy
from tacit.service.app import METRICS
from tacit.service.metric_names import Rule, Shown
from tacit.service.metrics import Reading, number_of

SHOWN = (
    Shown(
        "tacit_log_entries", "gauge", (), Rule.EXACT, "entries of the log that readers are shown", by=("recipe_server",)
    ),
    Shown("tacit_log_model_bytes", "gauge", (), Rule.EXACT, "bytes of all stored model files", by=("recipe_server",)),
    Shown(
        "tacit_log_cosigned_timestamp_seconds",
        "gauge",
        ("witness",),
        Rule.EXACT,
        "when each witness last cosigned",
        by=("recipe_server",),
    ),
    Shown(
        "tacit_ledger_spent_ratio",
        "gauge",
        ("account",),
        Rule.EXACT,
        "share of a privacy account that the log's recipes have used, in its fullest period",
        by=("recipe_server",),
    ),
)
"""What they are called, and how they are shown."""


FRESH_SECONDS = 3600.0
"""Seconds for which the spending of the accounts is not computed again, unless the log has grown."""


class LedgerGauge:
    """How much of each account is spent. Many recipes take seconds. So it is computed in a thread, once per size of
    the log and hour, and a page shows its last result."""

    def __init__(self, store: RecipeStore, policy: Policy, clock: Clock) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock
        self._found: dict[tuple[str, ...], float] = {}
        self._of: tuple[int, int] | None = None
        self._working: asyncio.Task[None] | None = None

    async def read(self, size: int) -> Reading:
        """Spent fractions (0 to 1) by account. Waits only for the first answer. Raises what the last attempt raised."""
        wanted = size, int(self._clock.now() // FRESH_SECONDS)
        if self._working is not None and self._working.done():
            done, self._working = self._working, None
            done.result()
        if wanted != self._of and self._working is None:
            self._working = asyncio.create_task(self._work(wanted))
        if self._of is None and self._working is not None:
            await asyncio.shield(self._working)
        return self._found

    async def close(self) -> None:
        """Cancel the running computation, if there is one."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _work(self, wanted: tuple[int, int]) -> None:
        now = self._clock.now()
        accounts = (self._policy.account(name) for name in sorted(self._policy.accounts or {}))
        for account in filter(None, accounts):
            async with self._store.read() as tx:
                charges = rightful(await tx.charges(account.name, now), self._policy)
            balances = await asyncio.to_thread(balance, charges, account, now)
            self._found[account.name,] = float(balances.peak / account.epsilon)
        self._of = wanted


def add_log_metrics(
    app: web.Application,
    service: RecipeService,
    models: ModelFiles,
    ledger: LedgerGauge,
    witnesses: Sequence[WitnessDriver],
) -> None:
    """Add the log's size, the bytes of stored models, the time of each witness's newest cosignature, and the spent part
    of each account."""

    async def cosigned() -> Reading:
        return {(driver.name,): driver.cosigned for driver in witnesses if driver.cosigned}

    async def spent() -> Reading:
        return await ledger.read(service.size)

    async def stored() -> Reading:
        return {(): await models.taken()}

    metrics = app[METRICS]
    metrics.declare(*SHOWN)
    metrics.add("tacit_log_entries", number_of(lambda: service.size))
    metrics.add("tacit_log_model_bytes", stored)
    metrics.add("tacit_log_cosigned_timestamp_seconds", cosigned)
    metrics.add("tacit_ledger_spent_ratio", spent)
