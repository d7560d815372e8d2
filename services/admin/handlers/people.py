"""People and their keys, for administrators."""

from __future__ import annotations

from services.admin.core.calls import Admin, Call, Reply
from services.admin.core.documents import (
    KeyDocument,
    KeyList,
    NewKey,
    PersonBody,
    PersonChange,
    PersonDocument,
    PersonPage,
)
from services.admin.core.people import Role, existing
from services.admin.core.records import ApiKey, Person
from tacit.errors import FieldError


async def listed(call: Call) -> Reply:
    """A page of them."""
    after, limit = call.page()
    found = await call.stored.people(after, limit + 1)
    following = str(found[limit - 1].number) if len(found) > limit else None
    return Reply(PersonPage(people=[document_of(one) for one in found[:limit]], next=following))


async def hashed(admin: Admin, body: PersonBody | PersonChange) -> str | None:
    """The hash of the password in ``body``, if there is one: it takes too long for a transaction."""
    return None if body.password is None else await admin.passwords.hashed(body.password)


async def add(call: Call) -> Reply:
    """A new person, with a local account if there is a password."""
    admin, body = call.admin, call.body
    found = await admin.people.add(call.stored, body.name, body.role, call.prepared or "", admin.now)
    return Reply(document_of(found), 201, {"Location": f"/v1/people/{found.id}"}, found.id, f"role {found.role}")


async def change(call: Call) -> Reply:
    """Another role or password, or nobody any more."""
    people, body = call.admin.people, call.body
    found = await people.change(call.stored, call.part("id"), body.role, body.disabled, call.prepared)
    words = [f"role {found.role}", *(["disabled"] if found.disabled else []), *(["password"] if call.prepared else [])]
    return Reply(document_of(found), target=found.id, detail=", ".join(words))


async def keys(call: Call) -> Reply:
    """A person's keys, without their texts."""
    await existing(call.stored, call.part("id"))
    return Reply(KeyList(keys=[_key(one) for one in await call.stored.keys(call.part("id"))]))


async def give_key(call: Call) -> Reply:
    """A new key, whose text is shown this once."""
    admin, body = call.admin, call.body
    if body.expires is not None and body.expires <= admin.now:
        raise FieldError("expires", "is over; take a second that is to come")
    key, text = await admin.people.give_key(call.stored, call.part("id"), body.label, body.expires, admin.now)
    document = NewKey(**_key(key).model_dump(), key=text)
    return Reply(document, 201, target=key.person, detail=f"key {key.id}", secret=True)


async def take_key(call: Call) -> Reply:
    """The key opens nothing any more."""
    await call.admin.people.take_key(call.stored, call.part("id"), call.part("key"))
    return Reply(None, 204, target=call.part("id"), detail=f"key {call.part('key')}")


def document_of(person: Person) -> PersonDocument:
    """A person as everybody may see them."""
    return PersonDocument(
        id=person.id,
        name=person.name,
        role=Role(person.role),
        disabled=person.disabled,
        has_password=bool(person.password),
        has_identity=person.identity is not None,
        created=person.created,
    )


def _key(key: ApiKey) -> KeyDocument:
    return KeyDocument(id=key.id, person=key.person, label=key.label, created=key.created, expires=key.expires)
