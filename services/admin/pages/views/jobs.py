"""The page of jobs of this service and of the collector: which are stuck, why, and a button that tries one again."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from services.admin.handlers.jobs import COLLECTION, can_help, jobs_of
from services.admin.pages.page_requests import PageRequest
from services.admin.pages.views.published import PATIENCE_SECONDS
from services.admin.people.people import Permission
from tacit.errors import Abort
from tacit.service.app import STEPS
from tacit.service.http.paging import DEFAULT_LIMIT


async def list_jobs(page_request: PageRequest) -> web.StreamResponse:
    """A page of jobs, the stuck ones first; if the collector cannot be asked, that is shown in their place."""
    return await _page(page_request)


async def retry(page_request: PageRequest) -> web.StreamResponse:
    """Try a job again; a refusal is shown on the same page."""
    try:
        await page_request.act("job.retry", {})
    except Abort as problem:
        if problem.status in {401, 404}:
            raise
        return await _page(page_request, problem)
    raise web.HTTPSeeOther("/jobs")


async def _names(page_request: PageRequest, hashes: Iterable[str]) -> dict[str, str]:
    """The names of these recipes, by hash, as far as the log has been read."""
    try:
        seen = await page_request.admin.followed_log.look(PATIENCE_SECONDS)
    except Abort:
        return {}
    if seen is None:
        return {}
    known = {one.recipe.hash_text: one.recipe.name for one in seen.live.recipes}
    return {one: known[one] for one in hashes if one in known}


async def _page(page_request: PageRequest, problem: Abort | None = None) -> web.Response:
    after = page_request.cursor()
    try:
        jobs = await jobs_of(page_request.admin, page_request.request.app[STEPS])
    except Abort as away:
        if problem is not None or away.status < 500:
            raise
        return page_request.show(
            "jobs.html", jobs=[], problem=away, retrying=False, next=None, first=True, status=away.status
        )
    jobs.sort(key=lambda one: not one.stuck)
    hashes = [one.about for one in jobs if one.kind == COLLECTION]
    names = await _names(page_request, hashes)
    async with page_request.admin.store.read() as tx:
        questions = await tx.questions_of(hashes)
    shown = jobs[after : after + DEFAULT_LIMIT]
    following = after + DEFAULT_LIMIT if len(jobs) > after + DEFAULT_LIMIT else None
    return page_request.show(
        "jobs.html", jobs=shown, questions=questions, names=names,
        helpful={one.id for one in shown if can_help(one)}, problem=problem, next=following, first=not after,
        retrying=page_request.may(Permission.OPERATE), stuck=sum(bool(one.stuck) for one in jobs),
        status=200 if problem is None else problem.status,
    )  # fmt: skip
