"""The page of the audit log, with the state of its hash chain."""

from __future__ import annotations

from aiohttp import web

from services.admin.handlers.acts import page_of
from services.admin.pages.visits import Visit
from services.admin.storage.audit import follows, verify
from tacit.codec import b64url
from tacit.operations.audit_chain import FIRST, Chain
from tacit.service.documents.openapi import DEFAULT_LIMIT

MOST_VERIFIED = 1_000
"""The most rows for which a visit checks the whole chain; ``tacit admin audit verify`` checks any number."""


async def listed(visit: Visit) -> web.StreamResponse:
    """A page of the audit log, in order."""
    after = visit.cursor()
    async with visit.admin.store.read() as tx:
        page = await page_of(tx, after, DEFAULT_LIMIT)
        rows = await tx.acts(after, DEFAULT_LIMIT)
        last = await tx.last_act()
    count = 0 if last is None else last.number
    whole = count <= MOST_VERIFIED
    chain = (
        await verify(visit.admin.store) if whole else follows(Chain(after, rows[0].previous if rows else FIRST), rows)
    )
    return visit.show(
        "audit.html", page=page, chain=chain, whole=whole, newest="" if last is None else b64url(last.hash),
        first=not after, latest=max(0, count - DEFAULT_LIMIT),
    )  # fmt: skip
