"""The audit log: a hash chain of acts. Each row's hash covers the row before it, so that no row can be changed or
removed unnoticed (``tacit.operations.audit_chain``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from services.admin.storage.records import Act, AuditRow
from services.admin.storage.store import AdminStore, AdminTx
from tacit.operations.audit_chain import FIRST, Chain, row_hash

PAGE = 500


def chained(number: int, previous: bytes, act: Act) -> AuditRow:
    """Make the audit row for ``act``: row ``number``, after the row whose hash is ``previous``."""
    return AuditRow(number, previous, act, row_hash(number, previous, asdict(act)))


async def record(tx: AdminTx, act: Act) -> AuditRow:
    """Append ``act`` to the audit log in the transaction that does it. Returns the new row."""
    last = await tx.last_act()
    row = chained(1, FIRST, act) if last is None else chained(last.number + 1, last.hash, act)
    await tx.add_act(row)
    return row


def follows(chain: Chain, rows: Sequence[AuditRow]) -> Chain:
    """The state of ``chain`` after the next ``rows``; it names the first row that does not fit."""
    count, newest = chain.rows, chain.newest
    for row in rows:
        if row != chained(count + 1, newest, row.act):
            return Chain(count, newest, count + 1)
        count, newest = row.number, row.hash
    return Chain(count, newest)


async def verify(store: AdminStore) -> Chain:
    """Read every row, in pages, and recompute the chain. Returns its state, with the first broken row if there is
    one."""
    chain = Chain()
    while chain.broken is None:
        async with store.read() as tx:
            rows = await tx.acts(chain.rows, PAGE)
        if not rows:
            break
        chain = follows(chain, rows)
    return chain
