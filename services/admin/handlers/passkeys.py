"""Passkeys: a person's own, the options for browsers, and other people's passkeys for administrators."""

from __future__ import annotations

from collections.abc import Sequence

from services.admin.api.calls import Call, Reply
from services.admin.base.problems import not_found
from services.admin.people import flow
from services.admin.people.access_documents import OptionsDocument, PasskeyDocument, PasskeyList
from services.admin.people.passkeys import purpose_of
from services.admin.people.people import existing
from services.admin.storage.records import Passkey, Question
from services.admin.storage.store import AdminTx
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.service.documents.admin_people import Kind

APPROVE, PUBLISH = "approve", "publish"


async def list_own(call: Call) -> Reply:
    """The passkeys of the person who sent the request."""
    return Reply(_list(await call.stored.passkeys(call.who.person.id)))


async def of_person(call: Call) -> Reply:
    """A person's passkeys, the oldest first, for administrators. Raises ``Abort`` (404)."""
    await existing(call.stored, call.part("id"))
    return Reply(_list(await call.stored.passkeys(call.part("id"))))


async def options(call: Call) -> Reply:
    """The WebAuthn options from which a browser makes a passkey; the invitation is checked, and not yet used up. Raises
    ``Abort`` (403, or 404 without passkeys)."""
    admin, who = call.admin, call.who
    async with admin.store.transaction() as tx:
        asked = await admin.passkeys.registration(tx, who)
        await flow.require_invitation(tx, call.body.invitation, who.person, admin.now)
    return Reply(OptionsDocument(options=asked))


async def register(call: Call) -> Reply:
    """Register a passkey, which uses up the invitation. The approvals of an approver or administrator count only after
    the rule's delay. Raises ``Abort`` (403, or 404 without passkeys)."""
    admin, who, body = call.admin, call.who, call.body
    admin.passkeys.require_on()
    await flow.take_invitation(call.stored, body.invitation, who.person, admin.now)
    made = await admin.passkeys.register(call.stored, who, body.label, body.credential)
    words = f"registered the passkey {b64url(made.id[:6])}"
    await call.stored.put_person(await admin.consent.note(call.stored, who.person, Kind.PASSKEY, words))
    return Reply(_document(made), 201, {"Location": "/v1/passkeys"}, who.person.id, f"passkey {b64url(made.id[:6])}")


async def take(call: Call) -> Reply:
    """Revoke a person's passkey. Where passkeys are optional the person may then approve without one, so an approver's
    approvals count only after the rule's delay. Raises ``Abort`` (404)."""
    try:
        credential = unb64url(call.part("passkey"))
    except DecodeError as error:
        raise not_found("passkey") from error
    if not await call.stored.drop_passkey(call.part("id"), credential):
        raise not_found("passkey")
    if call.admin.passkeys.mode == "optional":  # a person without a passkey does not need one
        person, words = await existing(call.stored, call.part("id")), f"lost the passkey {b64url(credential[:6])}"
        await call.stored.put_person(await call.admin.consent.note(call.stored, person, Kind.PASSKEY, words))
    return Reply(None, 204, target=call.part("id"), detail=f"passkey {b64url(credential[:6])}")


async def show_options(call: Call) -> Reply:
    """The options with which a browser uses a passkey for an act on a question in its present state."""
    admin = call.admin
    async with admin.store.transaction() as tx:
        question = await admin.questions.at(tx, call.part("id"), call.tag)
        purpose = purpose_for(call, question, call.body.act)
        return Reply(OptionsDocument(options=await admin.passkeys.request(tx, call.who, purpose)))


async def check_passkey(call: Call, tx: AdminTx, question: Question, act: str) -> str:
    """Check the passkey that was used for ``act`` on ``question`` (as it was before the act). Returns words for the
    audit log, empty if none was used. Raises ``Abort`` (403) if a passkey is needed or not valid."""
    admin = call.admin
    if act == PUBLISH and not admin.config.passkeys_publish:
        return ""
    purpose = purpose_for(call, question, act)
    used = await admin.passkeys.shown(tx, call.who, purpose, call.body.assertion)
    return f", passkey {used}" if used else ""


def purpose_for(call: Call, question: Question, act: str) -> dict[str, object]:
    """What a passkey's challenge is bound to for ``act`` on ``question``: state, revision, and what an approval would
    bind."""
    binding = call.admin.questions.binding(question)
    return purpose_of(act, call.who.person, question.id, question.state.value, question.revision, binding)


def _list(found: Sequence[Passkey]) -> PasskeyList:
    return PasskeyList(passkeys=[_document(one) for one in found])


def _document(passkey: Passkey) -> PasskeyDocument:
    return PasskeyDocument(id=b64url(passkey.id), label=passkey.label, created=passkey.created, counter=passkey.counter)
