"""The table of pages, and the function that adds them to the application."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from services.admin.base.problems import Problem, refuse
from services.admin.pages.assets import add_assets
from services.admin.pages.page_requests import SIGN_IN, Page, refusal_page, serve
from services.admin.pages.views import (
    api,
    editor,
    entry,
    jobs,
    overview,
    passkeys,
    people,
    published,
    questions,
    records,
    series,
)
from services.admin.people.people import Permission
from tacit.extension_points import ADMIN_PAGES

_QUESTION = "/questions/{id}"
_PERSON = "/people/{id}"

PAGES: Final = (
    Page("GET", "/", overview.overview),
    Page("GET", SIGN_IN, entry.sign_in, None),
    Page("POST", SIGN_IN, entry.enter, None),
    Page("POST", f"{SIGN_IN}/openid", entry.depart, None),
    Page("GET", f"{SIGN_IN}/openid/return", entry.arrive, None),
    Page("GET", "/docs", api.show_api, None),
    Page("GET", "/passkeys", passkeys.list_passkeys),
    Page("POST", "/passkeys", passkeys.add),
    Page("POST", "/sign-out", entry.leave, home="/"),
    Page("GET", "/questions", questions.list_questions),
    Page("GET", "/questions/new", editor.new, Permission.WRITE),
    Page("POST", "/questions/new", editor.create, Permission.WRITE),
    Page("POST", "/questions/preview", editor.preview_form, Permission.WRITE, part=True),
    *(page for pages in ADMIN_PAGES.values() for page in pages),
    Page("GET", _QUESTION, questions.show_question),
    Page("GET", f"{_QUESTION}/edit", editor.edit, Permission.WRITE),
    Page("POST", f"{_QUESTION}/edit", editor.save, Permission.WRITE),
    Page("POST", f"{_QUESTION}/{{act}}", questions.act, home=_QUESTION),
    Page("GET", "/results", published.results),
    Page("GET", "/series", series.list_series),
    Page("GET", "/series/{hash}", series.show_series),
    Page("POST", "/series/{hash}/rounds", series.draft, Permission.WRITE, home="/series/{hash}"),
    Page("POST", "/series/{hash}/end", series.end, Permission.OPERATE, home="/series/{hash}"),
    Page("GET", "/jobs", jobs.list_jobs),
    Page("POST", "/jobs/{id}/retry", jobs.retry, Permission.OPERATE, home="/jobs"),
    Page("GET", "/fleet", records.fleet),
    Page("GET", "/ledger", records.ledger),
    Page("GET", "/log", records.log),
    Page("GET", "/log/{index}", records.entry),
    Page("GET", "/keys", records.keys),
    Page("GET", "/audit", records.audit, Permission.AUDIT),
    Page("GET", "/people", people.list_people, Permission.PEOPLE),
    Page("POST", "/people", people.add, Permission.PEOPLE),
    Page("GET", _PERSON, people.show_person, Permission.PEOPLE),
    Page("POST", _PERSON, people.change, Permission.PEOPLE),
    Page("POST", f"{_PERSON}/invitation", people.invite, Permission.PEOPLE, home=_PERSON),
    Page("POST", f"{_PERSON}/unbind", people.unbind, Permission.PEOPLE, home=_PERSON),
    Page("POST", f"{_PERSON}/passkeys/{{passkey}}/take", people.take_passkey, Permission.PEOPLE, home=_PERSON),
    Page("POST", "/changes/{id}/consent", overview.consent, Permission.PEOPLE, home="/"),
    Page("POST", "/changes/{id}/refuse", overview.refuse, Permission.PEOPLE, home="/"),
    Page("POST", f"{_PERSON}/keys", people.give_key, Permission.PEOPLE, home=_PERSON),
    Page("POST", f"{_PERSON}/keys/{{key}}/take", people.take_key, Permission.PEOPLE, home=_PERSON),
)


def add_pages(app: web.Application) -> None:
    """Add every page, its assets, and a page for unknown addresses. Call it after adding the routes of the API."""
    add_assets(app)
    for page in PAGES:
        for method in ("GET", "HEAD") if page.method == "GET" else (page.method,):
            app.router.add_route(method, page.path, serve(page))
    app.router.add_route("*", "/{rest:(?!v1/|healthz|readyz).*}", _nowhere)


async def _nowhere(request: web.Request) -> web.StreamResponse:
    return refusal_page(request, None, refuse(Problem.NOT_FOUND, "there is no page at this address"))
