"""People, their roles and their keys; for administrators."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tacit.client.caller import Caller, part
from tacit.client.documents import Invitation, Key, NewKey, Person, read
from tacit.client.errors import NotFoundError
from tacit.client.pages import items
from tacit.errors import DecodeError

ROOT = "/v1/people"


class AsyncPeople:
    """Who may do what. A person is given as such, or by id."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[Person]:
        """People, in the order in which they were added, page by page."""
        return items(self._caller, ROOT, "people", Person)

    async def add(self, name: str, role: str, password: str | None = None) -> Person:
        """A new person with ``role`` (viewer, analyst, approver, administrator), and with a local account where there
        is a password. Raises ``ConflictError`` where the name is taken."""
        body = {"name": name, "role": role} | ({} if password is None else {"password": password})
        return read(Person, (await self._caller.send("POST", ROOT, body)).document)

    async def change(
        self,
        person: Person | str,
        *,
        role: str | None = None,
        disabled: bool | None = None,
        password: str | None = None,
    ) -> Person:
        """Change what is given; the rest stays. Raises ``ConflictError`` where no administrator would be left."""
        said = {"role": role, "disabled": disabled, "password": password}
        body = {name: value for name, value in said.items() if value is not None}
        return read(Person, (await self._caller.send("PATCH", _path(person), body)).document)

    async def keys(self, person: Person | str) -> list[Key]:
        """A person's keys without their texts, the oldest first."""
        document = await self._caller.get(f"{_path(person)}/keys")
        if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
            raise DecodeError("the answer is no list of keys")
        return [read(Key, one) for one in document["keys"]]

    async def give_key(self, person: Person | str, label: str = "", expires: int | None = None) -> NewKey:
        """A new key, whose text nobody can read again. ``expires``: POSIX second; never, without. Raises
        ``ConflictError`` (``shown-once``) where it was made and the answer was lost: take that key, and ask anew."""
        body = {"label": label} | ({} if expires is None else {"expires": expires})
        return read(NewKey, (await self._caller.send("POST", f"{_path(person)}/keys", body)).document)

    async def invite(self, person: Person | str) -> Invitation:
        """An invitation to bind an account of the sign-in provider, in the place of an earlier one; nobody can read
        its text again. Raises ``NotFoundError`` where the service has no provider."""
        return read(Invitation, (await self._caller.send("POST", f"{_path(person)}/invitation", {})).document)

    async def unbind(self, person: Person | str) -> Person:
        """The account that is bound opens nothing any more, nor does an invitation; the person is signed out."""
        return read(Person, (await self._caller.send("DELETE", f"{_path(person)}/identity")).document)

    async def take_key(self, person: Person | str, key: Key | str) -> None:
        """The key opens nothing any more. One that is not there was taken already."""
        try:
            await self._caller.send("DELETE", f"{_path(person)}/keys/{part(key.id if isinstance(key, Key) else key)}")
        except NotFoundError:
            return


def _path(person: Person | str) -> str:
    return f"{ROOT}/{part(person.id if isinstance(person, Person) else person)}"
