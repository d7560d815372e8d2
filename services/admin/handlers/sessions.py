"""Signing in and out with a browser, and who one is."""

from __future__ import annotations

from aiohttp import web

from services.admin.core.documents import SessionDocument, SignInBody
from services.admin.core.people import PERMISSIONS, Role
from services.admin.core.records import Person
from services.admin.core.routing import Admin, Call, Reply
from services.admin.core.sign_in import BY_SESSION, COOKIE, csrf_token
from services.admin.handlers.people import document_of
from tacit.errors import FieldError


async def sign_in(call: Call) -> Reply:
    """A session for a key, or for the name and password of a local account."""
    admin = call.admin
    person, until = await _person(admin, call.body)
    async with admin.store.transaction() as tx:
        cookie = await admin.sign_in.begin(tx, person, until)
    return session_reply(admin, call.request, person, cookie)


def session_reply(admin: Admin, request: web.Request, person: Person, cookie: str) -> Reply:
    """The answer that gives a browser the ``cookie`` of its new session."""
    secure = request.secure

    def give(response: web.Response) -> None:
        response.set_cookie(
            COOKIE, cookie, max_age=admin.config.sign_in.session_seconds, path="/", httponly=True,
            samesite="Strict", secure=secure,
        )  # fmt: skip

    return Reply(_document(person, csrf_token(cookie)), 201, target=person.id, who=person.id, cookie=give, secret=True)


async def _person(admin: Admin, body: SignInBody) -> tuple[Person, int | None]:
    """Who it is, and when what they show opens no more."""
    if body.key is not None and body.name is None and body.password is None:
        return await admin.sign_in.by_key(body.key)
    if body.key is None and body.name is not None and body.password is not None:
        return await admin.sign_in.by_password(body.name, body.password), None
    raise FieldError("key", "give either it or `name` and `password`")


async def shown(call: Call) -> Reply:
    """Who one is, and what one may."""
    token = csrf_token(call.request.cookies[COOKIE]) if call.who.by == BY_SESSION else None
    return Reply(_document(call.who.person, token))


async def sign_out(call: Call) -> Reply:
    """The session is over."""
    await call.admin.sign_in.end(call.stored, call.request.cookies.get(COOKIE, ""))
    return Reply(None, 204, target=call.who.person.id, cookie=lambda response: response.del_cookie(COOKIE, path="/"))


def _document(person: Person, token: str | None) -> SessionDocument:
    permissions = sorted(permission.value for permission in PERMISSIONS[Role(person.role)])
    return SessionDocument(person=document_of(person), permissions=permissions, csrf=token)
