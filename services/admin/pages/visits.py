"""A visit to a page: who came, whether they may see it, what they sent, and what becomes of a refusal.

Whoever is not signed in, or not any more, goes to the sign-in page and comes back. A form shows the session's CSRF
token in a field; it is handed to the check of the API as the header that programs send.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from aiohttp import web

from services.admin.core.calls import ADMIN, Admin, part_of
from services.admin.core.people import PERMISSIONS, Permission, Principal, Role, forbidden
from services.admin.core.questions import field_problem
from services.admin.core.routing import acted
from services.admin.core.sign_in import CSRF_HEADER, csrf_token
from services.admin.handlers.routes import ROUTES
from services.admin.pages.rendering import rendered, response
from tacit import media_types
from tacit.errors import Abort, DecodeError, UsageError
from tacit.service.app import abort_of, read_body
from tacit.service.openapi import IDEMPOTENCY

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
class Visit:
    """One request of a page. ``principal`` is None on pages for everybody; ``form``: the fields of a POST."""

    admin: Admin
    request: web.Request
    principal: Principal | None
    form: Mapping[str, str] = field(repr=False)

    @property
    def who(self) -> Principal:
        """The signed-in person, on a page that needs one."""
        if self.principal is None:
            raise RuntimeError("this page is for everybody")
        return self.principal

    def may(self, permission: str) -> bool:
        """Whether the visitor has the permission."""
        return self.principal is not None and self.principal.may(Permission(permission))

    def part(self, name: str) -> str:
        """A part of the path. Raises ``Abort`` (404) for text that no database holds."""
        return part_of(self.request, name)

    def cursor(self) -> int:
        """The number behind which a page of a list begins. Raises ``DecodeError``."""
        text = self.request.query.get("cursor", "0")
        if not text.isascii() or not text.isdigit() or len(text) > 16:
            raise DecodeError("cursor must be a number")
        return int(text)

    async def act(self, name: str, body: Mapping[str, Any] | None = None, tag: str = "") -> web.Response:
        """Do what the API's operation ``name`` does, as whoever sent the form; the answer is the API's. The field
        ``once`` keeps a form that is sent twice from being done twice. Raises ``Abort``."""
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": media_types.JSON, **({"If-Match": tag} if tag else {})}
        if once := self.form.get("once", ""):
            headers[IDEMPOTENCY] = f"{once[:64]}.{hashlib.sha256(raw).hexdigest()}"
        found = await acted(_ACTS[name], _with(self.request, headers | _shown(self.form)), raw)
        if not isinstance(found, web.Response):
            raise TypeError("acts answer at once")
        return found

    def show(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        """A page of the template."""
        return response(rendered(template, **_frame(self.admin, self.request, self.principal), **values), status)


View = Callable[[Visit], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Page:
    """One row of the table of pages. Without a ``permission`` it is for everybody. ``home``: where whoever has to sign
    in goes afterwards (default: here); ``part``: whether it is asked for by the script and no page of its own."""

    method: str
    path: str
    view: View
    permission: Permission | None = Permission.READ
    home: str = ""
    part: bool = False


def serve(page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The aiohttp handler of a page."""

    async def handle(request: web.Request) -> web.StreamResponse:
        principal: Principal | None = None
        try:
            admin = request.app[ADMIN]
            form = await _form(request, admin) if page.method == "POST" else {}
            if page.permission is not None:
                principal = await admin.sign_in.principal(_with(request, _shown(form)))
                _require(principal, page.permission)
            return await page.view(Visit(admin, request, principal, form))
        except web.HTTPException:
            raise
        except Exception as error:
            abort = field_problem(error) if isinstance(error, UsageError) else abort_of(request, error)
            if abort.status == 401 and not page.part:
                home = page.home.format(**request.match_info) if page.home else request.path_qs
                raise web.HTTPSeeOther(f"{SIGN_IN}?next={quote(home, safe='')}") from error
            return refused(request, principal, abort)

    return handle


def _require(principal: Principal, permission: Permission) -> None:
    if not principal.may(permission):
        raise forbidden(permission)


def refused(request: web.Request, principal: Principal | None, abort: Abort) -> web.Response:
    """A refusal as a page with the usual layout."""
    admin = request.app[ADMIN]
    text = rendered("error.html", **_frame(admin, request, principal), problem=abort)
    found = response(text, abort.status)
    found.headers.update(abort.headers)
    return found


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
    """A copy of the request with further headers."""
    if not headers:
        return request
    both = request.headers.copy()
    both.update(headers)
    return request.clone(headers=both)


def _shown(form: Mapping[str, str]) -> dict[str, str]:
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
