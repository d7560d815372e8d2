"""Closes the service after an operator has accepted an older database (``--accept-rollback``, docs/restoring.md).

Such a database does not know that keys were revoked, people disabled, or approvals voided by an edit. So only the
people in the file of first people can sign in, with the keys and roles given there, and every approval has to be given
again. A row of the audit log records that this was done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from services.admin.api.calls import Admin
from services.admin.people.people import first_people
from services.admin.storage import audit
from services.admin.storage.records import Act, AuditRow, QuestionState
from services.admin.storage.store import AdminTx
from tacit.errors import UsageError
from tacit.service.documents.admin_people import Kind

ACCEPTED: Final = "store.accept-rollback"
PAGE: Final = 200
_VOID: Final = (QuestionState.APPROVED, QuestionState.MISSED)


async def close_restored(admin: Admin, closed_until: int) -> None:
    """Remove all access and approvals, once for each acceptance, in one transaction; do nothing if ``closed_until`` is
    0. Raises ``UsageError`` if no file of first people is configured."""
    if not closed_until:
        return
    async with admin.store.read() as reading:
        if _is_noted(await reading.newest_of(ACCEPTED), closed_until):
            return
    if admin.config.people is None:
        raise UsageError(
            "an older database was accepted, so no key is valid any more: set `people` to a file with keys"
        )
    people = first_people(admin.config.people, max(admin.now, closed_until), admin.deps.entropy)
    async with admin.store.transaction() as tx:
        if _is_noted(await tx.newest_of(ACCEPTED), closed_until):
            return
        await tx.drop_access()
        for person, key in people:
            known = await tx.person_named(person.name)
            let_in = person if known is None else replace(known, role=person.role, disabled=False)
            words = "let in by the operator, who accepted an older database"
            let_in = await admin.consent.note(tx, let_in, Kind.OPERATOR, words)
            await (tx.add_person(let_in) if known is None else tx.put_person(let_in))
            await tx.add_key(key if known is None else replace(key, person=known.id))
        for state in _VOID:
            await _take_approvals(admin, tx, state)
        await audit.record(tx, Act("", ACCEPTED, "", admin.now, "operator", "done", _detail(closed_until)))


async def _take_approvals(admin: Admin, tx: AdminTx, state: QuestionState) -> None:
    """Void the approvals of the questions in ``state``; recipes that were signed for them are not sent any more."""
    while page := await tx.questions(0, PAGE, state):
        for one in page:
            without = replace(one, approver="", approval=b"", recipe=b"", recipe_hash="", leaf=b"")
            await admin.questions.move(tx, one, replace(without, state=QuestionState.SUBMITTED))


def _is_noted(row: AuditRow | None, closed_until: int) -> bool:
    return row is not None and row.act.detail == _detail(closed_until)


def _detail(closed_until: int) -> str:
    return f"closed until {closed_until}"
