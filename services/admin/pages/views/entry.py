"""The pages for signing in and out."""

from __future__ import annotations

import hmac
import json
from urllib.parse import urlsplit

from aiohttp import web

from services.admin.base.problems import Problem, refuse
from services.admin.handlers.openid import cookie_name
from services.admin.pages.page_requests import SIGN_IN, PageRequest
from services.admin.people.flow import target_of
from services.admin.people.sign_in import csrf_token
from tacit.codec import b64url
from tacit.errors import Abort

FORM_COOKIE = "tacit_form"
"""The cookie that proves that the sign-in form came from this service; there is no session yet whose token could."""


async def sign_in(page_request: PageRequest) -> web.StreamResponse:
    return _form(page_request)


async def enter(page_request: PageRequest) -> web.StreamResponse:
    """Begin a session with the key or password in the form, and redirect to the page that was wanted."""
    if not _ours(page_request):
        return _form(page_request, refuse(Problem.CSRF, "this form is from an earlier visit; send it again"))
    given = {name: page_request.form[name] for name in ("key", "name", "password") if page_request.form.get(name)}
    try:
        answer = await page_request.act("session.begin", given)
    except Abort as problem:
        if problem.status not in {401, 422, 429}:
            raise
        return _form(page_request, problem)
    response = web.HTTPSeeOther(_target(page_request.form.get("next", "")))
    response.cookies.update(answer.cookies)
    response.del_cookie(FORM_COOKIE, path=SIGN_IN)
    raise response


async def depart(page_request: PageRequest) -> web.StreamResponse:
    """A page that leads to the sign-in provider. A form cannot redirect there, because of the pages' content security
    policy."""
    if not _ours(page_request):
        return _form(page_request, refuse(Problem.CSRF, "this form is from an earlier visit; send it again"))
    body = {"next": _target(page_request.form.get("next", ""))}
    if invitation := page_request.form.get("invitation", ""):
        body["invitation"] = invitation
    try:
        answer = await page_request.act("session.openid", body)
    except Abort as problem:
        return _form(page_request, problem)
    url = json.loads(answer.body if isinstance(answer.body, bytes) else b"")["url"]
    page = page_request.show(
        "onward.html", heading="To the provider", words="Sign in there. You then come back to this service.", url=url
    )
    page.cookies.update(answer.cookies)
    return page


async def arrive(page_request: PageRequest) -> web.StreamResponse:
    """Sign in a browser that comes back from the provider. A browser does not send the session's cookie with a redirect
    that began elsewhere, so a page of this service leads on."""
    query = page_request.request.query
    body = {name: query[name] for name in ("state", "code", "error", "iss") if name in query}
    cookie = page_request.request.cookies.get(cookie_name(secure=page_request.admin.sign_in.secure), "")
    target = _target(target_of(cookie))
    try:
        answer = await page_request.act("session.return", body)
    except Abort as problem:
        return _form(page_request, problem, target)
    page = page_request.show("onward.html", heading="Signed in", words="You are signed in.", url=target)
    page.cookies.update(answer.cookies)
    return page


def _ours(page_request: PageRequest) -> bool:
    """Whether this service gave the form to this browser."""
    cookie, shown = page_request.request.cookies.get(FORM_COOKIE, ""), page_request.form.get("csrf", "")
    return bool(cookie) and hmac.compare_digest(csrf_token(cookie).encode(), shown.encode())


async def leave(page_request: PageRequest) -> web.StreamResponse:
    """End the session and go to the sign-in page."""
    answer = await page_request.act("session.end")
    response = web.HTTPSeeOther(SIGN_IN)
    response.cookies.update(answer.cookies)
    raise response


def _form(page_request: PageRequest, problem: Abort | None = None, target: str = "") -> web.Response:
    wanted = target or page_request.form.get("next") or page_request.request.query.get("next", "")
    cookie = b64url(page_request.admin.deps.entropy(32))
    found = page_request.show(
        "sign_in.html", status=200 if problem is None else problem.status, problem=problem, next=_target(wanted),
        token=csrf_token(cookie), provider=page_request.admin.config.openid, given=page_request.form.get("name", ""),
    )  # fmt: skip
    found.set_cookie(
        FORM_COOKIE,
        cookie,
        max_age=3600,
        path=SIGN_IN,
        httponly=True,
        samesite="Strict",
        secure=page_request.admin.sign_in.secure,
    )
    if problem is not None:
        found.headers.update({name: value for name, value in problem.headers.items() if name == "Retry-After"})
    return found


def _target(wanted: str) -> str:
    """Where to go after signing in: ``wanted`` if it is a path of this service and no sign-in page, otherwise the
    overview. A browser takes ``//`` and a backslash for another host."""
    if not wanted.isprintable() or "\\" in wanted or not wanted.startswith("/") or wanted.startswith("//"):
        return "/"
    return "/" if urlsplit(wanted).path.startswith(SIGN_IN) else wanted
