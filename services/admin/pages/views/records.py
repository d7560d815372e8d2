"""The pages of the log with its proofs, the audit log, the accounts, keys with their expiry, and running devices."""

from __future__ import annotations

import contextlib
import json

from aiohttp import web

from services.admin.handlers.acts import page_of
from services.admin.handlers.fleet import fleet_of
from services.admin.handlers.log import checkpoint_of, entries_of, index_of, keys_in, proof_of
from services.admin.pages.charts import burning
from services.admin.pages.page_requests import PageRequest
from services.admin.questions.fleet import QUIET_SECONDS
from services.admin.storage.audit import follows, verify
from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.operations.audit_chain import FIRST, Chain
from tacit.operations.burn_down import LEAST_HISTORY
from tacit.service.http.paging import DEFAULT_LIMIT
from tacit.tlog.leaves import LeafType, SignedLeaf

MOST_VERIFIED = 1_000
"""The most rows for which a visit checks the whole chain; ``tacit admin audit verify`` checks any number."""


async def log(page_request: PageRequest) -> web.StreamResponse:
    """The newest checkpoint and a page of entries: the newest ones, or those from a given index on."""
    whole = await page_request.admin.followed_log.read()
    checkpoint = checkpoint_of(whole)
    first = page_request.cursor() if "cursor" in page_request.request.query else max(0, checkpoint.size - DEFAULT_LIMIT)
    page = entries_of(whole, first, DEFAULT_LIMIT)
    return page_request.show(
        "log.html", log=checkpoint, entries=list(reversed(page.entries)), older=max(0, first - DEFAULT_LIMIT),
        has_older=first > 0, newer=page.next,
    )  # fmt: skip


async def entry(page_request: PageRequest) -> web.StreamResponse:
    """An entry of the log with its inclusion proof; one of an unknown type is shown without its contents. Raises
    ``Abort`` (404)."""
    whole = await page_request.admin.followed_log.read()
    index = index_of(whole, page_request.part("index"))
    leaf = None
    with contextlib.suppress(DecodeError):
        leaf = SignedLeaf.decode(whole.tree.entries[index])
    body = "" if leaf is None else json.dumps(leaf.body, indent=1, ensure_ascii=False)
    series = leaf.body.get("series") if leaf is not None and leaf.type is LeafType.RECIPE else None
    series_hash = series.get("hash") if isinstance(series, dict) else None
    return page_request.show("entry.html", proof=proof_of(whole, index), leaf=leaf, body=body, series=series_hash)


async def ledger(page_request: PageRequest) -> web.StreamResponse:
    """Every account: what is left of it, what was spent day by day, and by which recipes."""
    admin = page_request.admin
    found = await admin.followed_log.accounts()
    accounts = found.ledger.document()["accounts"]
    drawn = {one.account.name: {"found": one, "chart": burning(one)} for one in found.burnt}
    return page_request.show("ledger.html", accounts=accounts, drawn=drawn, least_history=LEAST_HISTORY)


async def keys(page_request: PageRequest) -> web.StreamResponse:
    """The keys in the log, and the visitor's own API keys, with their expiry."""
    admin = page_request.admin
    keys_document = keys_in(await admin.log.live(), admin)
    async with admin.store.read() as tx:
        own = await tx.keys(page_request.who.person.id)
    sets = [
        {"id": "tokens", "title": "Token keys of the issuer", "counted": "Epoch", "rows": keys_document.issuer},
        {"id": "gateway", "title": "Keys of the gateway", "counted": "Period", "rows": keys_document.gateway},
    ]
    return page_request.show("keys.html", sets=sets, own=own)


async def audit(page_request: PageRequest) -> web.StreamResponse:
    """A page of the audit log in order. The whole chain is verified up to ``MOST_VERIFIED`` rows, in a longer log that
    of the page."""
    after = page_request.cursor()
    async with page_request.admin.store.read() as tx:
        page = await page_of(tx, after, DEFAULT_LIMIT)
        rows = await tx.acts(after, DEFAULT_LIMIT)
        last = await tx.last_act()
    count = 0 if last is None else last.number
    whole = count <= MOST_VERIFIED
    chain = (
        await verify(page_request.admin.store)
        if whole
        else follows(Chain(after, rows[0].previous if rows else FIRST), rows)
    )
    return page_request.show(
        "audit.html", page=page, chain=chain, whole=whole, newest="" if last is None else b64url(last.hash),
        first=not after, latest=max(0, count - DEFAULT_LIMIT),
    )  # fmt: skip


async def fleet(page_request: PageRequest) -> web.StreamResponse:
    """The newest counts of the deployment."""
    fleet_document = await fleet_of(page_request.admin)
    async with page_request.admin.store.read() as tx:
        questions = await tx.questions_of(
            [row.hash for row in fleet_document.report.recipes] if fleet_document.report else []
        )
    quiet = fleet_document.devices is not None and page_request.admin.now - fleet_document.devices.at > QUIET_SECONDS
    return page_request.show("fleet.html", fleet=fleet_document, questions=questions, quiet=quiet)
