"""Signing in and out."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from aiohttp import web

from services.admin.core.problems import Problem, refuse
from services.admin.core.sign_in import csrf_token
from services.admin.pages.visits import SIGN_IN, Visit
from tacit.codec import b64url
from tacit.errors import Abort

FORM_COOKIE = "tacit_form"
"""Proves that the sign-in form was ours, before there is a session whose token could."""


async def sign_in(visit: Visit) -> web.StreamResponse:
    """The form."""
    return _form(visit)


async def enter(visit: Visit) -> web.StreamResponse:
    """A session for what the form holds, and on to where one wanted to go."""
    cookie, shown = visit.request.cookies.get(FORM_COOKIE, ""), visit.form.get("csrf", "")
    if not cookie or not hmac.compare_digest(csrf_token(cookie).encode(), shown.encode()):
        return _form(visit, refuse(Problem.CSRF, "this form is from an earlier visit; send it again"))
    given = {name: visit.form[name] for name in ("key", "name", "password") if visit.form.get(name)}
    try:
        found = await visit.act("session.begin", given)
    except Abort as problem:
        if problem.status not in {401, 422, 429}:
            raise
        return _form(visit, problem)
    response = web.HTTPSeeOther(_target(visit.form.get("next", "")))
    response.cookies.update(found.cookies)
    response.del_cookie(FORM_COOKIE, path=SIGN_IN)
    raise response


async def leave(visit: Visit) -> web.StreamResponse:
    """The session is over."""
    found = await visit.act("session.end")
    response = web.HTTPSeeOther(SIGN_IN)
    response.cookies.update(found.cookies)
    raise response


def _form(visit: Visit, problem: Abort | None = None) -> web.Response:
    wanted = visit.form.get("next") or visit.request.query.get("next", "")
    cookie = b64url(visit.admin.deps.entropy(32))
    found = visit.show(
        "sign_in.html", status=200 if problem is None else problem.status, problem=problem, next=_target(wanted),
        token=csrf_token(cookie), given=visit.form.get("name", ""),
    )  # fmt: skip
    found.set_cookie(
        FORM_COOKIE,
        cookie,
        max_age=3600,
        path=SIGN_IN,
        httponly=True,
        samesite="Strict",
        secure=visit.admin.sign_in.secure,
    )
    if problem is not None:
        found.headers.update({name: value for name, value in problem.headers.items() if name == "Retry-After"})
    return found


def _target(wanted: str) -> str:
    """A path of this service, or the overview."""
    if not wanted.isprintable() or "\\" in wanted or not wanted.startswith("/") or wanted.startswith("//"):
        return "/"
    return "/" if urlsplit(wanted).path == SIGN_IN else wanted
