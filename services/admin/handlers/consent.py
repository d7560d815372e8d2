"""Changes of approvers and administrators: the list, consent and refusal."""

from __future__ import annotations

from services.admin.api.calls import Admin, Call, Reply
from services.admin.base.problems import Problem, refuse
from services.admin.people.consent import holds_from
from services.admin.storage.records import Change
from services.admin.storage.store import AdminTx
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.service.documents.admin_people import ChangeDocument, ChangeList, Kind, Role, RuleDocument


async def list_changes(call: Call) -> Reply:
    """The changes that wait or do not count yet, and the rule."""
    return Reply(await changes_of(call.admin, call.stored))


async def changes_of(admin: Admin, tx: AdminTx) -> ChangeList:
    """The changes that wait or do not count yet, and the rule, as a document."""
    now = admin.now
    changes = [one for one in await tx.changes() if (one.expires if one.waits else one.counts_from) > now]
    rule, kept = await admin.consent.rule(tx), await tx.kept_rule()
    until = None if kept is None or holds_from(kept) <= now else holds_from(kept)
    return ChangeList(
        rule=RuleDocument(
            persons=rule.persons,
            approver_delay_seconds=rule.delay,
            until=until,
            administrators=await tx.counting_with_role(Role.ADMINISTRATOR, now),
        ),
        changes=[await document_of_change(tx, one) for one in changes],
    )


async def consent(call: Call) -> Reply:
    """Consent to a change as a second administrator. The change is then made."""
    try:
        digest = unb64url(call.body.digest, length=32)
    except DecodeError as error:
        raise refuse(Problem.CHANGED, "this is not the digest of a change; read the change again") from error
    done = await call.admin.empowering.consent(call.stored, call.who, call.part("id"), digest)
    document = await document_of_change(call.stored, done)
    return Reply(document, target=done.person, detail=f"{words_of(done)}, counts from {done.counts_from}")


async def refuse_change(call: Call) -> Reply:
    """Refuse a waiting change; whoever asked for it may do so too. Raises ``Abort`` (404) if it no longer waits."""
    change = await call.admin.consent.refused(call.stored, call.part("id"))
    return Reply(None, 204, target=change.person, detail=words_of(change))


async def asked_reply(tx: AdminTx, change: Change) -> Reply:
    """The answer to an act that waits for consent."""
    return Reply(await document_of_change(tx, change), 202, target=change.person, detail=words_of(change))


def words_of(change: Change) -> str:
    """A change in words for the audit log: its id, whom it is about, and whether it still waits."""
    waits = ", waits for consent" if change.waits else ""
    return f"change {change.id}: {change.name}: {change.words}{waits}"


async def document_of_change(tx: AdminTx, change: Change) -> ChangeDocument:
    """A change as a document, with the names of those who asked for it and consented."""
    names = await tx.names({one for one in (change.asked_by, change.consented_by) if one})
    return ChangeDocument(
        id=change.id,
        kind=Kind(change.kind),
        state="waiting" if change.waits else "done",
        person=change.person,
        name=change.name,
        role=Role(change.role),
        words=change.words,
        asked_by=change.asked_by,
        asked_by_name=names.get(change.asked_by, ""),
        asked=change.asked,
        expires=change.expires,
        consented_by=change.consented_by,
        consented_by_name=names.get(change.consented_by, ""),
        counts_from=change.counts_from or None,
        digest=b64url(change.digest),
    )
