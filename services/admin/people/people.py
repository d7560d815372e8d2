"""Who may do what: roles, people, and their personal API keys.

A key is 256 random bits. It is shown once, to whoever makes it. Only its SHA-256 digest is stored, which is enough for
a value that nobody can guess; passwords of local accounts need more (``services.admin.people.passwords``).
"""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from services.admin.base.problems import Problem, not_found, refuse
from services.admin.storage.records import ApiKey, Person
from services.admin.storage.store import PeopleTx
from tacit.codec import b64url, unb64url
from tacit.errors import Abort, DecodeError, FieldError, UsageError
from tacit.ports import Entropy
from tacit.service.base.secret_files import read_secret
from tacit.service.documents.admin_people import Role
from tacit.service.http.auth import token_digest

LEAST_PASSWORD, MOST_PASSWORD = 12, 256
MOST_NAME: Final = 64
KEY_PREFIX: Final = "tacit-"
"""The prefix of every key, so that a person or a scanner can recognise one."""
HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z0-9](?: ?[A-Za-z0-9._@+-]){0,63}")
"""A person's name. Two spaces in a row, or one at the end, are not allowed: they would make names that look alike."""


class Permission(enum.StrEnum):
    """The permission that a route requires of its caller."""

    READ = "read"
    """See questions, recipes, results, accounts and the log."""
    WRITE = "write"
    """Write, edit, delete and submit drafts."""
    APPROVE = "approve"
    """Approve questions that others wrote."""
    OPERATE = "operate"
    """Publish approved questions, collect batches, and end questions."""
    AUDIT = "audit"
    """Permission to read the audit log."""
    PEOPLE = "people"
    """Add people, change them, and give and revoke keys."""


PERMISSIONS: Final[dict[Role, frozenset[Permission]]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.ANALYST: frozenset({Permission.READ, Permission.WRITE, Permission.OPERATE, Permission.AUDIT}),
    Role.APPROVER: frozenset(
        {Permission.READ, Permission.WRITE, Permission.APPROVE, Permission.OPERATE, Permission.AUDIT}
    ),
    Role.ADMINISTRATOR: frozenset({Permission.READ, Permission.OPERATE, Permission.AUDIT, Permission.PEOPLE}),
}
"""The only table of who may do what. Whoever may give keys can neither write nor approve."""
POWERFUL: Final = frozenset(
    role.value for role, granted in PERMISSIONS.items() if granted & {Permission.APPROVE, Permission.PEOPLE}
)
"""The roles that may approve, or make others approvers."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request: a person, and whether they used a key or a session (``by``). ``proof``: the digest of
    the key or of the cookie."""

    person: Person
    by: str
    proof: bytes = field(default=b"", repr=False)

    def may(self, permission: Permission) -> bool:
        """Whether the person's role has the permission (``PERMISSIONS``)."""
        return permission in PERMISSIONS[Role(self.person.role)]


WORDS: Final = {
    Permission.READ: "read",
    Permission.WRITE: "write questions",
    Permission.APPROVE: "approve questions",
    Permission.OPERATE: "publish, collect and end",
    Permission.AUDIT: "read the audit log",
    Permission.PEOPLE: "add and change people",
}
"""What each permission allows, in words."""


def forbidden(permission: Permission) -> Abort:
    """The refusal for a person whose role does not have the permission."""
    return refuse(Problem.FORBIDDEN, f"this needs a role that may {WORDS[permission]}")


def new_id(entropy: Entropy) -> str:
    """A fresh id: 96 random bits in hexadecimal."""
    return entropy(12).hex()


def new_key(entropy: Entropy) -> str:
    """A fresh API key, made of 32 random bytes."""
    return KEY_PREFIX + b64url(entropy(32))


class People:
    """People and their keys. ``entropy``: the source of ids and keys."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    async def add(self, tx: PeopleTx, name: str, role: Role, password: str, now: int) -> Person:
        """Add a person. ``password``: a hash from ``Passwords.hashed``, or empty. Raises ``Abort`` (409) if the name is
        taken, and ``FieldError`` if it is not a valid name."""
        await self.require_free(tx, name)
        person = Person(new_id(self._entropy), name, role.value, now, password)
        await tx.add_person(person)
        return person

    async def require_free(self, tx: PeopleTx, name: str) -> None:
        """Raises ``Abort`` (409) if the name is taken, and ``FieldError`` if it is not a valid name."""
        if len(name) > MOST_NAME or not NAME.fullmatch(name):
            raise FieldError(
                "name",
                "must be 1 to 64 characters: letters, digits, single spaces and ._@+-, with a letter or digit first",
            )
        if await tx.person_named(name) is not None:
            raise refuse(Problem.NAME_TAKEN, "another person has this name")

    async def change(
        self, tx: PeopleTx, person_id: str, role: Role | None, disabled: bool | None, password: str | None
    ) -> Person:
        """Change the given members of a person, and return the person. Whoever is disabled, or gets another password,
        is signed out everywhere. Raises ``Abort``: 404, and 409 if no administrator would be left."""
        before = await existing(tx, person_id)
        after = replace(
            before,
            role=before.role if role is None else role.value,
            disabled=before.disabled if disabled is None else disabled,
            password=before.password if password is None else password,
        )
        await tx.put_person(after)
        if not await tx.active_with_role(Role.ADMINISTRATOR):
            raise refuse(Problem.LAST_ADMINISTRATOR, "make another one first")
        if after.disabled or password is not None:
            await tx.drop_sessions(person_id=person_id)
        return after

    async def give_key(
        self, tx: PeopleTx, person_id: str, label: str, expires: int | None, now: int
    ) -> tuple[ApiKey, str]:
        """Give a person a new key. Returns it with its text, which nobody can read again. Raises ``Abort`` (404)."""
        await existing(tx, person_id)
        text = new_key(self._entropy)
        key = ApiKey(new_id(self._entropy), person_id, label, now, expires, token_digest(text))
        await tx.add_key(key)
        return key, text

    async def take_key(self, tx: PeopleTx, person_id: str, key_id: str) -> None:
        """Revoke a key, and end the person's sessions, since the key may have begun them. Raises ``Abort`` (404)."""
        if not await tx.drop_key(person_id, key_id):
            raise not_found("key")
        await tx.drop_sessions(person_id=person_id)


async def existing(tx: PeopleTx, person_id: str) -> Person:
    """The person with this id. Raises ``Abort`` (404) if there is none."""
    person = await tx.person(person_id)
    if person is None:
        raise not_found("person")
    return person


def first_people(path: Path, now: int, entropy: Entropy) -> list[tuple[Person, ApiKey]]:
    """Read the first people and their keys from the 0600 file ``path``: ``{"people": [{"name", "role",
    "key_sha256"}]}``, with digests in hexadecimal (as ``tacit keys show`` prints them) or base64url. Raises
    ``UsageError``."""
    try:
        listed = json.loads(read_secret(path))["people"]
        people = [_first(one, now, entropy) for one in listed]
    except (ValueError, KeyError, TypeError, DecodeError) as error:
        raise UsageError(f"{path}: must be {{'people': [{{'name', 'role', 'key_sha256'}}, ...]}}") from error
    if all(person.role != Role.ADMINISTRATOR for person, _ in people):
        raise UsageError(f"{path}: names no administrator")
    return people


def _first(one: dict[str, Any], now: int, entropy: Entropy) -> tuple[Person, ApiKey]:
    person = Person(new_id(entropy), str(one["name"]), Role(one["role"]).value, now)
    text = one["key_sha256"]
    digest = bytes.fromhex(text) if HEX_DIGEST.fullmatch(text) else unb64url(text, length=32, what="key_sha256")
    return person, ApiKey(new_id(entropy), person.id, "first", now, digest=digest)
