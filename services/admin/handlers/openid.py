"""Sign-in by OpenID Connect in two steps, and the invitations that bind accounts to people."""

from __future__ import annotations

from aiohttp import web

from services.admin.api.calls import Admin, Call, Reply
from services.admin.api.routing import source_of
from services.admin.base.problems import Problem, refuse
from services.admin.handlers.consent import document_of_change, words_of
from services.admin.handlers.people import document_of
from services.admin.handlers.sessions import session_reply
from services.admin.people import flow
from services.admin.people.access_documents import AuthorizationDocument
from services.admin.people.consent_documents import WaitingInvitation
from services.admin.people.openid import OpenIdClient
from services.admin.people.sign_in import SECURE_PREFIX, Shown
from services.admin.storage.records import Change
from tacit.service.documents.admin_people import InvitationDocument

RETURN_PATH = "/sign-in/openid/return"
"""The path to which the provider sends browsers back; it is the only redirect target in this service."""


def client_of(admin: Admin) -> OpenIdClient:
    """The client of the sign-in provider. Raises ``Abort`` (404) if no provider is configured."""
    if admin.openid is None:
        raise refuse(Problem.NOT_FOUND, "this service is configured without a sign-in provider")
    return admin.openid


async def begin(call: Call) -> Reply:
    """The URL at which a browser signs in, and the cookie that identifies the browser when it returns."""
    admin, body = call.admin, call.body
    client = client_of(admin)
    begun = flow.begun(admin.deps.entropy, admin.now, body.invitation or "", body.next or "/")
    url = await client.authorization_url(begun.proof)
    secure = admin.sign_in.secure

    def give(response: web.Response) -> None:
        response.set_cookie(
            cookie_name(secure=secure), begun.cookie(), max_age=flow.FLOW_SECONDS, path="/", httponly=True,
            samesite="Lax", secure=secure,
        )  # fmt: skip

    return Reply(AuthorizationDocument(url=url), cookie=give, secret=True)


async def end(call: Call) -> Reply:
    """Begin a session for the person whom the provider signed in."""
    admin, body, request = call.admin, call.body, call.request
    client = client_of(admin)
    begun = flow.flow_of(request.cookies.get(cookie_name(secure=admin.sign_in.secure), ""), body.state, admin.now)
    if body.iss is not None and body.iss != client.issuer:
        raise flow.stray()
    if body.code is None:
        word = body.error or ""
        said = f": {word}" if word.isidentifier() and len(word) <= 40 else ""
        raise refuse(Problem.PROVIDER_REFUSED, f"it answered with an error{said}")
    identity = flow.identity_of(client.issuer, await client.subject(body.code, begun.proof))
    async with admin.store.transaction() as tx:
        source = source_of(admin, request)
        person = await flow.person_of(tx, begun, identity, admin.now, source, admin.consent)
        cookie = await admin.sign_in.begin(tx, Shown(person))
    reply = session_reply(admin, person, cookie)
    given = reply.cookie

    def give(response: web.Response) -> None:
        if given is not None:
            given(response)
        secure = admin.sign_in.secure
        response.del_cookie(cookie_name(secure=secure), path="/", secure=secure, httponly=True, samesite="Lax")

    return Reply(reply.document, reply.status, target=person.id, who=person.id, cookie=give, secret=True)


def cookie_name(*, secure: bool) -> str:
    """The name of the cookie of a sign-in. If ``secure``, it has a prefix, so that no other host of the same site can
    set it."""
    return SECURE_PREFIX + flow.FLOW_COOKIE if secure else flow.FLOW_COOKIE


async def invite(call: Call) -> Reply:
    """Invite a person. The invitation's text is shown only once."""
    if call.admin.openid is None:
        call.admin.passkeys.require_on()
    made, text = await call.admin.empowering.invite(call.stored, call.who, call.part("id"))
    if isinstance(made, Change):
        asked = await document_of_change(call.stored, made)
        waiting = WaitingInvitation(**asked.model_dump(), invitation=text)
        return Reply(waiting, 202, target=made.person, detail=words_of(made), secret=True)
    document = InvitationDocument(person=made.person, expires=made.expires, invitation=text)
    return Reply(document, 201, target=made.person, secret=True)


async def unbind(call: Call) -> Reply:
    """Unbind the person's account and revoke any invitation."""
    person = await flow.unbind(call.stored, call.part("id"), call.admin.now)
    return Reply(document_of(person), target=person.id)
