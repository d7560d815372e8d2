"""Signs browsers in and out, and shows who is signed in."""

from __future__ import annotations

from aiohttp import web

from services.admin.api.calls import Admin, Call, Reply
from services.admin.handlers.people import document_of
from services.admin.people.people import PERMISSIONS
from services.admin.people.sign_in import BY_SESSION, Shown, csrf_token
from services.admin.storage.records import Person
from tacit.errors import FieldError
from tacit.service.documents.admin_people import Role, SessionDocument


async def sign_in(call: Call) -> Reply:
    """Begin a session with a key, or with the name and password of a local account."""
    admin = call.admin
    shown = await _check_credential(call)
    async with admin.store.transaction() as tx:
        cookie = await admin.sign_in.begin(tx, shown)
    return session_reply(admin, shown.person, cookie)


def session_reply(admin: Admin, person: Person, cookie: str) -> Reply:
    """The answer that gives a browser the ``cookie`` of its new session."""

    def give(response: web.Response) -> None:
        response.set_cookie(
            admin.sign_in.cookie, cookie, max_age=admin.config.sign_in.session_seconds, path="/", httponly=True,
            samesite="Strict", secure=admin.sign_in.secure,
        )  # fmt: skip

    return Reply(_document(person, csrf_token(cookie)), 201, target=person.id, who=person.id, cookie=give, secret=True)


async def _check_credential(call: Call) -> Shown:
    """Check the key or the password in the body, and return it with its person. Raises ``Abort``, and ``FieldError``
    if the body has neither or both."""
    admin, body = call.admin, call.body
    if body.key is not None and body.name is None and body.password is None:
        return await admin.sign_in.by_key(body.key)
    if body.key is None and body.name is not None and body.password is not None:
        return await admin.sign_in.by_password(body.name, body.password, call.request.remote or "")
    raise FieldError("key", "give either `key`, or `name` and `password`")


async def show_session(call: Call) -> Reply:
    """The person who is signed in, and their permissions."""
    token = csrf_token(call.request.cookies[call.admin.sign_in.cookie]) if call.who.by == BY_SESSION else None
    return Reply(_document(call.who.person, token))


async def sign_out(call: Call) -> Reply:
    """End the session of the person who sent the request."""
    signing = call.admin.sign_in
    await signing.end(call.stored, call.request.cookies.get(signing.cookie, ""))

    def take(response: web.Response) -> None:
        response.del_cookie(signing.cookie, path="/", secure=signing.secure, httponly=True, samesite="Strict")

    return Reply(None, 204, target=call.who.person.id, cookie=take)


def _document(person: Person, token: str | None) -> SessionDocument:
    permissions = sorted(permission.value for permission in PERMISSIONS[Role(person.role)])
    return SessionDocument(person=document_of(person), permissions=permissions, csrf=token)
