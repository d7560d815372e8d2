"""Acts that make or change people. They are done at once, unless they give power to an approver or administrator: then
they wait for consent.

Where two administrators are needed, nobody else may know the credentials of an approver or administrator. So a key is
given by its digest, no administrator sets a password, and whoever gets such a role loses their earlier credentials, of
which an administrator could have kept a copy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from services.admin.base.problems import Problem, refuse
from services.admin.people import flow
from services.admin.people.consent import Consent, stale
from services.admin.people.people import POWERFUL, People, Principal, existing, new_id
from services.admin.storage.records import ApiKey, Change, Invitation, Person
from services.admin.storage.store import AdminTx
from tacit.errors import Abort, FieldError
from tacit.ports import Clock, Entropy
from tacit.service.documents.admin_people import Kind, Role


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted changes to a person; None leaves a member as it is. ``password``: a hash."""

    role: Role | None = None
    disabled: bool | None = None
    password: str | None = None

    def gives(self, before: Person) -> bool:
        """Whether the change gives power to an approver or administrator."""
        after = before.role if self.role is None else self.role.value
        lets_in = self.disabled is False and before.disabled
        return after in POWERFUL and (after != before.role or lets_in or self.password is not None)


class Empowering:
    """Adds and changes people in the caller's transactions; asks for consent if a change needs it."""

    def __init__(self, people: People, consent: Consent, clock: Clock, entropy: Entropy) -> None:
        self._people = people
        self._consent = consent
        self._clock = clock
        self._entropy = entropy

    @property
    def _now(self) -> int:
        return int(self._clock.now())

    async def add(
        self, tx: AdminTx, who: Principal, name: str, role: Role, password: str, key: str | None
    ) -> Person | Change:
        """Add a person, with the key whose SHA-256 is ``key`` (hexadecimal) if that is given. Returns the person, or
        the change that waits for consent. Raises ``Abort`` (409) and ``FieldError``."""
        await self._people.require_free(tx, name)
        if key is not None:
            await require_unknown(tx, key)
        if not await self._consent.needed(tx, role.value):
            person = await self._people.add(tx, name, role, password, self._now)
            if key is not None:
                await tx.add_key(self._key(person.id, "first", None, key))
            return person
        require_no_password(password)
        person = Person(new_id(self._entropy), name, role.value, self._now)
        words = f"added as {role.value}" + ("" if key is None else f", with the key of SHA-256 {key}")
        return await self._consent.ask(tx, who, Kind.ADD, person, words, {} if key is None else {"key": key})

    async def change(self, tx: AdminTx, who: Principal, person_id: str, wanted: Wanted) -> Person | Change:
        """Change a person. Returns the changed person, or the change that waits for consent. Raises ``Abort`` (404,
        409) and ``FieldError``."""
        before = await existing(tx, person_id)
        after = before.role if wanted.role is None else wanted.role.value
        if not wanted.gives(before) or not await self._consent.needed(tx, after):
            return await self._people.change(tx, person_id, wanted.role, wanted.disabled, wanted.password)
        require_no_password(wanted.password)
        words = [f"role {before.role} to {after}"] if after != before.role else []
        words += ["earlier keys and sessions end"] if before.role not in POWERFUL else []
        if wanted.disabled is not None and wanted.disabled != before.disabled:
            words.append("no longer let in" if wanted.disabled else "let in again")
        payload = {"role": after} | ({} if wanted.disabled is None else {"disabled": wanted.disabled})
        person = replace(before, role=after)
        return await self._consent.ask(tx, who, Kind.CHANGE, person, ", ".join(words), payload)

    async def give_key(
        self, tx: AdminTx, who: Principal, person_id: str, label: str, expires: int | None, digest: str | None
    ) -> tuple[ApiKey, str] | Change:
        """Give a person a key: one made here if ``digest`` is None, otherwise the one with this SHA-256 (hexadecimal).
        Returns the key and its text (empty if it was not made here), or the change that waits for consent. Raises
        ``Abort`` (404, 409) and ``FieldError``."""
        person = await existing(tx, person_id)
        if digest is not None:
            await require_unknown(tx, digest)
        if not await self._consent.needed(tx, person.role):
            if digest is None:
                return await self._people.give_key(tx, person_id, label, expires, self._now)
            key = self._key(person_id, label, expires, digest)
            await tx.add_key(key)
            return key, ""
        if digest is None:
            raise FieldError(
                "sha256", f"is needed: an {person.role} makes their own key, and no administrator sees its text"
            )
        words = f"given the key {label or 'without a label'} of SHA-256 {digest}"
        payload = {"label": label, "key": digest} | ({} if expires is None else {"expires": str(expires)})
        return await self._consent.ask(tx, who, Kind.KEY, person, words, payload)

    async def invite(self, tx: AdminTx, who: Principal, person_id: str) -> tuple[Invitation, str] | tuple[Change, str]:
        """Invite a person. Returns the invitation, or the change that waits for consent, and the invitation's text,
        which becomes valid with the consent. Raises ``Abort`` (404, 409)."""
        person = await existing(tx, person_id)
        if not await self._consent.needed(tx, person.role):
            return await flow.invite(tx, self._entropy, person_id, self._now)
        text, digest = flow.new_invitation(self._entropy)
        words = "invited to bind an account or to register a passkey"
        asked = await self._consent.ask(tx, who, Kind.INVITATION, person, words, {"invitation": digest.hex()})
        return asked, text

    async def consent(self, tx: AdminTx, who: Principal, change_id: str, digest: bytes) -> Change:
        """Consent to a waiting change and carry it out. Raises as ``Consent.consented``, and ``Abort`` (409) if it can
        no longer be done."""
        change = await self._consent.consented(tx, who, change_id, digest)
        try:
            person = await self._done(tx, change, json.loads(change.payload))
        except Abort as problem:
            raise stale(problem.detail or problem.title) from problem
        await tx.put_person(replace(person, counts_from=max(person.counts_from, change.counts_from)))
        return change

    async def _done(self, tx: AdminTx, change: Change, payload: dict[str, Any]) -> Person:
        if "key" in payload:
            await require_unknown(tx, payload["key"])
        if change.kind == Kind.ADD:
            await self._people.require_free(tx, change.name)
            await tx.add_person(Person(change.person, change.name, change.role, self._now))
            if "key" in payload:
                await tx.add_key(self._key(change.person, "first", None, payload["key"]))
        elif change.kind == Kind.CHANGE:
            before = await existing(tx, change.person)
            if before.role not in POWERFUL:
                await tx.drop_ways_in(before.id)
            await self._people.change(tx, before.id, Role(change.role), payload.get("disabled"), None)
        elif change.kind == Kind.KEY:
            expires = None if "expires" not in payload else int(payload["expires"])
            await tx.add_key(self._key(change.person, payload["label"], expires, payload["key"]))
        else:
            await flow.put_invitation(tx, change.person, bytes.fromhex(payload["invitation"]), self._now)
        return await existing(tx, change.person)

    def _key(self, person_id: str, label: str, expires: int | None, digest: str) -> ApiKey:
        return ApiKey(new_id(self._entropy), person_id, label, self._now, expires, bytes.fromhex(digest))


async def require_unknown(tx: AdminTx, digest: str) -> None:
    """Raises ``Abort`` (409) if somebody already has the key with this SHA-256."""
    if await tx.key_holder(bytes.fromhex(digest)) is not None:
        raise refuse(Problem.KEY_TAKEN, "make another one")


def require_no_password(password: str | None) -> None:
    """Raises ``FieldError`` if a password is given, because the administrator who sets it would know it."""
    if password:
        raise FieldError(
            "password", "an administrator would know it; approvers and administrators sign in with keys of their own"
        )
