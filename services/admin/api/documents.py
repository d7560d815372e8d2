"""Models of the bodies of requests and answers. The checks and the OpenAPI document are made from them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from services.admin.people.people import LEAST_PASSWORD, MOST_PASSWORD, NAME
from tacit.service.documents.admin import CollectionDocument, Document, PosixSeconds, QuestionDocument, RecipeSummary
from tacit.service.documents.admin_log import EntryDocument
from tacit.service.documents.admin_people import ActDocument, KeyDocument, PersonDocument, Role

Label = Annotated[str, Field(max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Nothing(Document):
    """An empty object, or no body at all."""


class QuestionPage(Document):
    """Questions in the order in which they were written."""

    questions: list[QuestionDocument]
    next: str | None


class SignatureBody(Document):
    """A signed leaf, as ``tacit recipe sign`` writes it."""

    leaf: Annotated[dict[str, Any], Field(description="The leaf: type, version, body, signer and signature.")]


class PersonPage(Document):
    """People in the order in which they were added."""

    people: list[PersonDocument]
    next: str | None


Password = Annotated[
    str | None,
    Field(min_length=LEAST_PASSWORD, max_length=MOST_PASSWORD, description="The password of a local account."),
]


KeyDigest = Annotated[
    str | None,
    Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of a key in hexadecimal, as `tacit keys show` prints it."),
]


class PersonBody(Document):
    """A new person. ``key_sha256``: the digest of a first key, which the person made."""

    name: Annotated[str, Field(min_length=1, max_length=64, json_schema_extra={"pattern": f"^{NAME.pattern}$"})]
    role: Role
    password: Password = None
    key_sha256: KeyDigest = None


class PersonChange(Document):
    """The changes to a person; members that are left out stay as they are."""

    role: Role | None = None
    disabled: bool | None = None
    password: Password = None


class KeyList(Document):
    """A person's keys, the oldest first."""

    keys: list[KeyDocument]


class KeyBody(Document):
    """A new key. Without ``expires`` it is valid until it is revoked. ``sha256``: the digest of a key that the person
    made, so that nobody else sees its text."""

    label: Label = ""
    sha256: KeyDigest = None
    expires: PosixSeconds | None = None


class SignInBody(Document):
    """Either a key, or the name and password of a local account."""

    key: Annotated[str | None, Field(max_length=256)] = None
    name: Annotated[str | None, Field(max_length=64)] = None
    password: Annotated[str | None, Field(max_length=MOST_PASSWORD)] = None


class AuditPage(Document):
    """Acts in order. ``newest``: the number of the newest act in the whole log, 0 if there is none."""

    acts: list[ActDocument]
    next: str | None
    newest: int


class RecipePage(Document):
    """Recipes in the order of the log."""

    recipes: list[RecipeSummary]
    next: str | None


class ResultList(Document):
    """Releases in order, each in the form of ``tacit results --json``."""

    results: list[dict[str, Any]]
    next: str | None


class CollectionBody(Document):
    """The request to collect the batch of a recipe."""

    recipe: Annotated[str, Field(min_length=43, max_length=43, description="The recipe's hash.")]


class CollectionPage(Document):
    """Collections of the collector, by recipe and number."""

    collections: list[CollectionDocument]
    next: str | None


class EntryPage(Document):
    """Entries of the log, in order."""

    entries: list[EntryDocument]
    next: str | None
