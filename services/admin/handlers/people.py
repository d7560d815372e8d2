"""People and their keys, for administrators."""

from __future__ import annotations

from services.admin.api.calls import Admin, Call, Reply
from services.admin.api.documents import KeyList, PersonBody, PersonChange, PersonPage
from services.admin.handlers.consent import asked_reply
from services.admin.people.empowering import Wanted
from services.admin.people.people import existing
from services.admin.storage.records import ApiKey, Change, Person
from tacit.errors import FieldError
from tacit.service.documents.admin_people import KeyDocument, NewKey, PersonDocument, Role


async def list_people(call: Call) -> Reply:
    """A page of people, in the order in which they were added."""
    after, limit = call.page()
    people = await call.stored.people(after, limit + 1)
    following = str(people[limit - 1].number) if len(people) > limit else None
    return Reply(PersonPage(people=[document_of(one) for one in people[:limit]], next=following))


async def hash_password(admin: Admin, body: PersonBody | PersonChange) -> str | None:
    """The hash of the password in ``body``, if there is one. Hashing takes too long to do it in a transaction."""
    return None if body.password is None else await admin.passwords.hashed(body.password)


async def add(call: Call) -> Reply:
    """Add a person, with a local account if a password is given."""
    admin, body = call.admin, call.body
    person = await admin.empowering.add(
        call.stored, call.who, body.name, body.role, call.prepared or "", body.key_sha256
    )
    if isinstance(person, Change):
        return await asked_reply(call.stored, person)
    return Reply(document_of(person), 201, {"Location": f"/v1/people/{person.id}"}, person.id, f"role {person.role}")


async def change(call: Call) -> Reply:
    """Change the role or password of a person, or disable them."""
    body = call.body
    wanted = Wanted(body.role, body.disabled, call.prepared)
    changed = await call.admin.empowering.change(call.stored, call.who, call.part("id"), wanted)
    if isinstance(changed, Change):
        return await asked_reply(call.stored, changed)
    words = [
        f"role {changed.role}",
        *(["disabled"] if changed.disabled else []),
        *(["password"] if call.prepared else []),
    ]
    return Reply(document_of(changed), target=changed.id, detail=", ".join(words))


async def keys(call: Call) -> Reply:
    """A person's keys, without their texts."""
    await existing(call.stored, call.part("id"))
    return Reply(KeyList(keys=[_key(one) for one in await call.stored.keys(call.part("id"))]))


async def give_key(call: Call) -> Reply:
    """Give a person a new key. Its text is shown only once."""
    admin, body = call.admin, call.body
    if body.expires is not None and body.expires <= admin.now:
        raise FieldError("expires", "has passed; give a POSIX second in the future")
    found = await admin.empowering.give_key(
        call.stored, call.who, call.part("id"), body.label, body.expires, body.sha256
    )
    if isinstance(found, Change):
        return await asked_reply(call.stored, found)
    key, text = found
    document = NewKey(**_key(key).model_dump(), key=text or None)
    return Reply(document, 201, target=key.person, detail=f"key {key.id}", secret=bool(text))


async def take_key(call: Call) -> Reply:
    """Revoke an API key of a person."""
    await call.admin.people.take_key(call.stored, call.part("id"), call.part("key"))
    return Reply(None, 204, target=call.part("id"), detail=f"key {call.part('key')}")


def document_of(person: Person) -> PersonDocument:
    """A person as a document, without password and keys."""
    return PersonDocument(
        id=person.id,
        name=person.name,
        role=Role(person.role),
        disabled=person.disabled,
        has_password=bool(person.password),
        has_identity=person.identity is not None,
        created=person.created,
        counts_from=person.counts_from or None,
    )


def _key(key: ApiKey) -> KeyDocument:
    return KeyDocument(id=key.id, person=key.person, label=key.label, created=key.created, expires=key.expires)
