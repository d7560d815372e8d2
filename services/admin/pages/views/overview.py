"""The overview: the questions and changes that wait, and for whom, and anything that is wrong."""

from __future__ import annotations

from aiohttp import web

from services.admin.handlers.consent import changes_of
from services.admin.handlers.questions import names_of
from services.admin.pages.page_requests import PageRequest
from services.admin.pages.views.published import listed_of, running_of
from services.admin.pages.views.questions import row_of
from services.admin.people.people import Permission
from services.admin.storage.records import QuestionState
from tacit.errors import Abort
from tacit.service.app import unready

WAITING, RELEASES = 20, 6


async def overview(page_request: PageRequest) -> web.StreamResponse:
    """The first page: what waits for the visitor, what is in trouble, what is running, and the newest releases."""
    admin, me = page_request.admin, page_request.who.person.id
    async with admin.store.read() as tx:
        counts = await tx.question_counts()
        states = (QuestionState.MISSED, QuestionState.SUBMITTED, QuestionState.APPROVED, QuestionState.DRAFT)
        written = [one for state in states for one in await tx.questions(0, WAITING, state)]
        names = await names_of(tx, written)
        changes = await changes_of(admin, tx)
    waiting = []
    for one in written:
        mine = me in one.authors
        if one.state is QuestionState.DRAFT and not mine:
            continue
        yours = {
            QuestionState.SUBMITTED: page_request.may(Permission.APPROVE) and not mine,
            QuestionState.MISSED: page_request.may(Permission.OPERATE),
            QuestionState.APPROVED: page_request.may(Permission.OPERATE) and not one.leaf,
            QuestionState.DRAFT: page_request.may(Permission.WRITE),
        }[one.state]
        waiting.append({**row_of(one, names, admin.now), "yours": yours})
    found, trouble = await listed_of(admin)
    async with admin.store.read() as tx:
        own = await tx.questions_of([one.recipe for one in found[-RELEASES:]])
    return page_request.show(
        "overview.html",
        consent=changes,
        counts=[(state.value, counts.get(state, 0)) for state in QuestionState],
        waiting=sorted(waiting, key=lambda row: not row["yours"]),
        troubles=await _troubles(page_request, trouble if admin.collector is not None else ""),
        running=await running_of(page_request),
        releases=list(reversed(found[-RELEASES:])),
        own=own,
    )


async def _troubles(page_request: PageRequest, trouble: str) -> list[str]:
    """Everything that prevents this service, the log or the collector from working, in words."""
    found = unready(page_request.request.app)
    try:
        await page_request.admin.log.live()
    except Abort as problem:
        found.append(problem.words)
    return [*found, *([trouble] if trouble else [])]


async def consent(page_request: PageRequest) -> web.StreamResponse:
    """Consent to exactly the change that the page showed: the form holds its digest."""
    await page_request.act("change.consent", {"digest": page_request.form.get("digest", "")})
    raise web.HTTPSeeOther("/")


async def refuse(page_request: PageRequest) -> web.StreamResponse:
    """Refuse a waiting change, which is then never made."""
    await page_request.act("change.refuse", {})
    raise web.HTTPSeeOther("/")
