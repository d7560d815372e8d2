"""The audit log, as pages of documents."""

from __future__ import annotations

from collections.abc import Mapping

from services.admin.api.calls import Call, Reply
from services.admin.api.documents import AuditPage
from services.admin.storage.records import AuditRow
from services.admin.storage.store import AdminTx
from tacit.codec import b64url
from tacit.service.documents.admin_people import ActDocument


async def list_acts(call: Call) -> Reply:
    """A page of the audit log, in the order of the acts."""
    after, limit = call.page()
    return Reply(await page_of(call.stored, after, limit))


async def page_of(tx: AdminTx, after: int, limit: int) -> AuditPage:
    """A page with at most ``limit`` acts after number ``after``, with people's names."""
    acts = await tx.acts(after, limit + 1)
    names = await tx.names({row.act.who for row in acts if row.act.who})
    following = str(acts[limit - 1].number) if len(acts) > limit else None
    last = await tx.last_act()
    newest = 0 if last is None else last.number
    return AuditPage(acts=[_document(row, names) for row in acts[:limit]], next=following, newest=newest)


def _document(row: AuditRow, names: Mapping[str, str]) -> ActDocument:
    act = row.act
    return ActDocument(
        number=row.number,
        at=act.at,
        person=act.who,
        who=names.get(act.who, act.who),
        what=act.what,
        target=act.target,
        source=act.source,
        outcome=act.outcome,
        detail=act.detail,
        previous=b64url(row.previous),
        hash=b64url(row.hash),
    )
