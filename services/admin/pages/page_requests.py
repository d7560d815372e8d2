"""A request for a page: checks who sent the request and whether they may, reads the form, and shows refusals as pages.

A person who is not signed in, or whose session has ended, is redirected to the sign-in page and then comes back. A form
holds the session's CSRF token in a field; the API's check gets it as the header that programs send.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from aiohttp import web

from services.admin.api.calls import ADMIN, Admin, part_of
from services.admin.api.routing import respond
from services.admin.handlers.routes import ROUTES
from services.admin.pages.rendering import render, response
from services.admin.people.people import PERMISSIONS, Permission, Principal, forbidden
from services.admin.people.sign_in import CSRF_HEADER, csrf_token
from services.admin.questions.questions import field_problem
from services.admin.storage.records import Question
from tacit import media_types
from tacit.errors import Abort, DecodeError, UsageError, drop_frames
from tacit.service.app import abort_of, read_body
from tacit.service.documents.admin_people import Role
from tacit.service.documents.openapi import IDEMPOTENCY
from tacit.service.http.paging import page_of

FORM: Final = "application/x-www-form-urlencoded"
MOST_FIELDS: Final = 200
SIGN_IN: Final = "/sign-in"
_ACTS: Final = {route.name: route for route in ROUTES}
NAVIGATION: Final = (
    ("/", "Overview", Permission.READ),
    ("/questions", "Questions", Permission.READ),
    ("/results", "Results", Permission.READ),
    ("/series", "Series", Permission.READ),
    ("/jobs", "Jobs", Permission.READ),
    ("/fleet", "Fleet", Permission.READ),
    ("/ledger", "Ledger", Permission.READ),
    ("/log", "Log", Permission.READ),
    ("/keys", "Keys", Permission.READ),
    ("/audit", "Audit", Permission.AUDIT),
    ("/people", "People", Permission.PEOPLE),
)


@dataclass(frozen=True)
class PageRequest:
    """One request for a page. ``principal``: the sender, None on pages that are open to everybody; ``form``: the fields
    of a POST."""

    admin: Admin
    request: web.Request
    principal: Principal | None
    form: Mapping[str, str] = field(repr=False)

    @property
    def who(self) -> Principal:
        """The signed-in person, on a page that needs one."""
        if self.principal is None:
            raise RuntimeError("this page is open to everybody")
        return self.principal

    def may(self, permission: str) -> bool:
        """Whether somebody is signed in who has the permission of this name."""
        return self.principal is not None and self.principal.may(Permission(permission))

    def part(self, name: str) -> str:
        """A part of the path. Raises ``Abort`` (404) if it holds a NUL, which no database can store."""
        return part_of(self.request, name)

    def cursor(self) -> int:
        """The number after which a page of a list begins. Raises ``DecodeError``."""
        return page_of(self.request)[0]

    async def act(self, name: str, body: Mapping[str, Any] | None = None, tag: str = "") -> web.Response:
        """Carry out the API's operation ``name`` as the person who sent the form, and return the API's answer. The
        form's field ``once`` prevents a form that is sent twice from being carried out twice. Raises ``Abort``."""
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": media_types.JSON, **({"If-Match": tag} if tag else {})}
        if once := self.form.get("once", ""):
            headers[IDEMPOTENCY] = f"{once[:64]}.{hashlib.sha256(raw).hexdigest()}"
        answer = await respond(_ACTS[name], _with(self.request, headers | _shown_fields(self.form)), raw)
        if not isinstance(answer, web.Response):
            raise TypeError("an act does not answer with a stream")
        return answer

    def show(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        """Render the template as a page with the usual layout."""
        return response(render(template, **_frame(self.admin, self.request, self.principal), **values), status)


View = Callable[[PageRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Page:
    """One row of the table of pages. A page without a ``permission`` is open to everybody. ``home``: where a person who
    has to sign in first goes afterwards (default: this page); ``part``: whether it is only a part of a page, which the
    script requests."""

    method: str
    path: str
    view: View
    permission: Permission | None = Permission.READ
    home: str = ""
    part: bool = False


def serve(page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Make the aiohttp handler of a page."""

    async def handle(request: web.Request) -> web.StreamResponse:
        principal: Principal | None = None
        try:
            admin = request.app[ADMIN]
            form = await _form(request, admin) if page.method == "POST" else {}
            if page.permission is not None:
                principal = await admin.sign_in.principal(_with(request, _shown_fields(form)))
                _require(principal, page.permission)
            return await page.view(PageRequest(admin, request, principal, form))
        except web.HTTPException:
            raise
        except Exception as error:
            abort = field_problem(error) if isinstance(error, UsageError) else abort_of(request.app, error)
            drop_frames(error)
            if abort.status == 401 and not page.part:
                home = page.home.format(**request.match_info) if page.home else request.path_qs
                raise web.HTTPSeeOther(f"{SIGN_IN}?next={quote(home, safe='')}") from error
            return refusal_page(request, principal, abort)

    return handle


async def question_of(page_request: PageRequest) -> Question:
    """The question whose id is in the path, as it is now. Raises ``Abort`` (404)."""
    async with page_request.admin.store.read() as tx:
        return await page_request.admin.questions.at(tx, page_request.part("id"), None)


def _require(principal: Principal, permission: Permission) -> None:
    if not principal.may(permission):
        raise forbidden(permission)


def refusal_page(request: web.Request, principal: Principal | None, abort: Abort) -> web.Response:
    """A refusal as a page in the usual layout, with its status and its headers."""
    admin = request.app[ADMIN]
    text = render("error.html", **_frame(admin, request, principal), problem=abort)
    page = response(text, abort.status)
    page.headers.update(abort.headers)
    return page


def _frame(admin: Admin, request: web.Request, principal: Principal | None) -> dict[str, Any]:
    """The values that every template gets."""
    granted = frozenset() if principal is None else PERMISSIONS[Role(principal.person.role)]
    cookie = request.cookies.get(admin.sign_in.cookie, "")
    here = request.path
    return {
        "person": None if principal is None else principal.person,
        "may": {permission.value: permission in granted for permission in Permission},
        "csrf": csrf_token(cookie) if cookie else "",
        "once": admin.deps.entropy(16).hex(),
        "here": here,
        "passkeys_on": admin.passkeys.on,
        "navigation": [
            (path, name, here == path or (path != "/" and here.startswith(f"{path}/")))
            for path, name, permission in NAVIGATION
            if permission in granted and (path != "/fleet" or admin.config.fleet is not None)
        ],
        "now": admin.now,
    }


def _with(request: web.Request, headers: Mapping[str, str]) -> web.Request:
    """The request with ``headers`` in place of those of the same names."""
    if not headers:
        return request
    both = request.headers.copy()
    both.update(headers)
    return request.clone(headers=both)


def _shown_fields(form: Mapping[str, str]) -> dict[str, str]:
    token = form.get("csrf", "")
    return {CSRF_HEADER: token} if token.isascii() and token.isprintable() else {}


async def _form(request: web.Request, admin: Admin) -> dict[str, str]:
    """The fields of a form. Raises ``Abort`` and ``DecodeError``."""
    raw = await read_body(request, admin.config.max_body, FORM)
    try:
        pairs = parse_qsl(
            raw.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict", strict_parsing=bool(raw)
        )
    except ValueError as error:
        raise DecodeError("the form cannot be read") from error
    return {name: value.replace("\r\n", "\n").strip() for name, value in pairs}
