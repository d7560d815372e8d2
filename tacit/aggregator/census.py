"""Census shares: the aggregate share that this aggregator released for a census, published so that anybody can add up
both shares (SA2 5.5).

The transaction that releases the batch keeps the aggregate share, exactly the bytes that it seals to the collector
(including the aggregator's noise). Only after that is it signed and sent, repeatedly, until the log has it. A crash in
between loses nothing, and the kept share never changes, so the leaf has the same bytes however often it is sent.
"""

from __future__ import annotations

from tacit import media_types
from tacit.aggregator.config import LogConfig
from tacit.aggregator.ports import CensusTx
from tacit.aggregator.seat import Signatory
from tacit.codec import b64url
from tacit.logview.live import LiveLog
from tacit.service.app import Deps
from tacit.service.log import get_logger
from tacit.service.store import Transactions
from tacit.tlog.leaves import CensusShare, LeafType, SignedLeaf, sign_leaf

Kept = tuple[bytes, int, bytes]
"""Task id, report count, encoded aggregate share."""


class CensusShares:
    """Sends the kept shares until the log has them."""

    def __init__(self, store: Transactions[CensusTx], identity: Signatory, log: LogConfig, deps: Deps) -> None:
        self._store = store
        self._identity = identity
        self._url = f"{log.url}/v1/leaves"
        self._deps = deps
        self._settled: set[bytes] = set()
        """Tasks for which this process has nothing left to send."""
        self._refused: set[bytes] = set()
        """Tasks whose share the log has refused; it is sent again, because the log's clock may be behind ours."""
        self._log = get_logger(identity.role_name)

    async def due(self) -> list[Kept]:
        """The shares that ``step`` has to consider now."""
        async with self._store.read() as tx:
            return [kept for kept in await tx.census_shares() if kept[0] not in self._settled]

    async def step(self, live: LiveLog, due: list[Kept]) -> None:
        """Send every share that the log does not show yet."""
        async with self._store.read() as tx:
            recipes = {row.task_id: row.recipe_hash for row in await tx.tasks()}
        role = self._identity.role_name
        for kept in due:
            recipe_hash = recipes[kept[0]]
            item = live.recipe(recipe_hash)
            if item is None or role in item.shares or await self._send(kept[0], self._leaf(recipe_hash, kept)):
                self._settled.add(kept[0])

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

    async def _send(self, task_id: bytes, leaf: SignedLeaf) -> bool:
        """Send the leaf; return whether the log has it."""
        headers = {"Content-Type": media_types.JSON}
        answer = await self._deps.transport.request("POST", self._url, headers=headers, body=leaf.encode())
        if 400 <= answer.status < 500 and task_id not in self._refused:
            self._refused.add(task_id)
            self._log.warning("census_share_refused", status=answer.status)
        return 200 <= answer.status < 300
