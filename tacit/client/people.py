"""People, their roles and their keys, for administrators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from tacit.client.caller import Caller, part
from tacit.client.documents import Change, Changes, Invitation, Key, NewKey, Person, read
from tacit.client.errors import NotFoundError
from tacit.client.pages import items
from tacit.errors import DecodeError

ROOT = "/v1/people"
CHANGES = "/v1/changes"
D = TypeVar("D", Person, NewKey, Invitation)


class AsyncPeople:
    """The people and what they may do. A person can be given as a ``Person``, by a ``Change`` of theirs, or by id. If
    the service requires two administrators, an act that makes or changes an approver or administrator returns a
    ``Change`` that waits for a second administrator's consent."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[Person]:
        """People, in the order in which they were added, fetched page by page."""
        return items(self._caller, ROOT, "people", Person)

    async def add(
        self, name: str, role: str, password: str | None = None, key_sha256: str | None = None
    ) -> Person | Change:
        """Add a person with ``role`` (viewer, analyst, approver, administrator). ``password``: makes a local account;
        ``key_sha256``: the SHA-256 (hexadecimal) of a key that the person made. Raises ``ConflictError`` if the name is
        taken."""
        said = {"name": name, "role": role, "password": password, "key_sha256": key_sha256}
        body = {member: value for member, value in said.items() if value is not None}
        return _done_or_waiting(Person, (await self._caller.send("POST", ROOT, body)).document)

    async def change(
        self,
        person: Person | Change | str,
        *,
        role: str | None = None,
        disabled: bool | None = None,
        password: str | None = None,
    ) -> Person | Change:
        """Change the given members of a person; the others stay. Raises ``ConflictError`` if no administrator would be
        left."""
        said = {"role": role, "disabled": disabled, "password": password}
        body = {name: value for name, value in said.items() if value is not None}
        return _done_or_waiting(Person, (await self._caller.send("PATCH", _path(person), body)).document)

    async def keys(self, person: Person | Change | str) -> list[Key]:
        """A person's keys without their texts, the oldest first."""
        document = await self._caller.get(f"{_path(person)}/keys")
        if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
            raise DecodeError("the answer is not a list of keys")
        return [read(Key, one) for one in document["keys"]]

    async def give_key(
        self, person: Person | Change | str, label: str = "", expires: int | None = None, sha256: str | None = None
    ) -> NewKey | Change:
        """Give a person a new key, whose text nobody can read again. ``expires``: POSIX seconds (default: never);
        ``sha256``: the SHA-256 (hexadecimal) of a key that the person made, instead of one that the service makes.
        Raises ``ConflictError`` (``shown-once``) if the key was made but the answer was lost: then revoke it and ask
        again."""
        said = {"label": label, "expires": expires, "sha256": sha256}
        body = {member: value for member, value in said.items() if value is not None}
        return _done_or_waiting(NewKey, (await self._caller.send("POST", f"{_path(person)}/keys", body)).document)

    async def invite(self, person: Person | Change | str) -> Invitation | Change:
        """Invite a person to bind an account of the sign-in provider or register a passkey. The invitation replaces an
        earlier one, and nobody can read its text again. Raises ``NotFoundError`` if the service has neither."""
        document = (await self._caller.send("POST", f"{_path(person)}/invitation", {})).document
        return _done_or_waiting(Invitation, document)

    async def changes(self) -> Changes:
        """The changes that wait for consent or do not count yet, and the rule. Everybody may read them."""
        return read(Changes, await self._caller.get(CHANGES))

    async def consent(self, change: Change) -> Change:
        """Consent to ``change``, which another administrator asked for; it is then done. Raises ``ForbiddenError`` for
        the administrator who asked, ``ConflictError`` if the person has changed since, and ``ChangedError`` if the
        waiting change is a different one."""
        path = f"{CHANGES}/{part(change.id)}/consent"
        return read(Change, (await self._caller.send("POST", path, {"digest": change.digest})).document)

    async def refuse(self, change: Change | str) -> None:
        """Refuse a change that waits. Raises ``NotFoundError`` if none waits."""
        found = change.id if isinstance(change, Change) else change
        await self._caller.send("POST", f"{CHANGES}/{part(found)}/refuse", {})

    async def unbind(self, person: Person | Change | str) -> Person:
        """Unbind a person's account, revoke their invitation, and sign them out."""
        return read(Person, (await self._caller.send("DELETE", f"{_path(person)}/identity")).document)

    async def take_key(self, person: Person | Change | str, key: Key | str) -> None:
        """Revoke a key. A key that does not exist counts as revoked."""
        try:
            await self._caller.send("DELETE", f"{_path(person)}/keys/{part(key.id if isinstance(key, Key) else key)}")
        except NotFoundError:
            return


def _done_or_waiting(kind: type[D], document: Any) -> D | Change:
    """Read the answer: a ``kind`` if the act was done, or the change that waits for consent."""
    if isinstance(document, dict) and "digest" in document:
        return read(Change, document)
    return read(kind, document)


def _path(person: Person | Change | str) -> str:
    if isinstance(person, Change):
        return f"{ROOT}/{part(person.person)}"
    return f"{ROOT}/{part(person.id if isinstance(person, Person) else person)}"
