"""The audit log: a chain of acts, each row over the one before it, so that none can be changed or taken out unseen
(``tacit.operations.audit_chain``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from services.admin.core.ports import AuditTx
from services.admin.core.records import Act, AuditRow
from tacit.operations.audit_chain import FIRST, Chain, row_hash
from tacit.service.store import Transactions

PAGE = 500


def chained(number: int, previous: bytes, act: Act) -> AuditRow:
    """Make the row of the audit log for ``act``."""
    return AuditRow(number, previous, act, row_hash(number, previous, asdict(act)))


async def record(tx: AuditTx, act: Act) -> AuditRow:
    """Append ``act`` in the same transaction as what was done; one writer at a time."""
    last = await tx.last_act()
    row = chained(1, FIRST, act) if last is None else chained(last.number + 1, last.hash, act)
    await tx.add_act(row)
    return row


def follows(chain: Chain, rows: Sequence[AuditRow]) -> Chain:
    """The state of ``chain`` after the next ``rows``."""
    count, newest = chain.rows, chain.newest
    for row in rows:
        if row != chained(count + 1, newest, row.act):
            return Chain(count, newest, count + 1)
        count, newest = row.number, row.hash
    return Chain(count, newest)


async def verify(store: Transactions[AuditTx]) -> Chain:
    """Read every row, in pages, and recompute the chain."""
    chain = Chain()
    while chain.broken is None:
        async with store.read() as tx:
            rows = await tx.acts(chain.rows, PAGE)
        if not rows:
            break
        chain = follows(chain, rows)
    return chain
