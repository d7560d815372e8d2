"""Answers of the admin API about people, their keys and sessions, changes that need consent, and the audit log."""

from __future__ import annotations

import enum
from typing import Literal

from pydantic import Field

from tacit.service.documents.admin import Document, PosixSeconds


class Role(enum.StrEnum):
    """The role of a person, which decides their permissions."""

    VIEWER = "viewer"
    ANALYST = "analyst"
    APPROVER = "approver"
    ADMINISTRATOR = "administrator"


class Kind(enum.StrEnum):
    """The kinds of change to people that are recorded."""

    ADD = "add"
    CHANGE = "change"
    KEY = "key"
    INVITATION = "invitation"
    ACCOUNT = "account"
    """An invitation was used to bind an account: only noted, because the invitation had consent."""
    PASSKEY = "passkey"
    """A passkey was registered by an invitation, or revoked: only noted."""
    OPERATOR = "operator"
    """The operator of the service's host let the person in: only noted."""


class PersonDocument(Document):
    """A person. ``has_password``: whether they have a local account; ``has_identity``: whether an account of the
    sign-in provider is bound to them."""

    id: str
    name: str
    role: Role
    disabled: bool
    has_password: bool
    has_identity: bool
    created: PosixSeconds
    counts_from: PosixSeconds | None = Field(
        default=None, description="When approvals and consents begin to count; null: they always did."
    )


class KeyDocument(Document):
    """What is shown of an API key: everything but its text."""

    id: str
    person: str
    label: str
    created: PosixSeconds
    expires: PosixSeconds | None


class NewKey(KeyDocument):
    """A new key with its text (``key``), which is shown only once; null if the person made it."""

    key: str | None = Field(repr=False)


class InvitationDocument(Document):
    """An invitation, whose text is shown only once. With it the person binds an account of the sign-in provider."""

    person: str
    expires: PosixSeconds
    invitation: str = Field(repr=False)


class ChangeDocument(Document):
    """A change of an approver or administrator. It waits for a second administrator's consent until ``expires``, or was
    done and counts from ``counts_from`` on. ``words``: what changes; ``asked_by`` and ``consented_by``: ids of people,
    or empty if nobody did; ``digest``: what a consent has to repeat."""

    id: str
    kind: Kind
    state: Literal["waiting", "done"]
    person: str
    name: str
    role: Role
    words: str
    asked_by: str
    asked_by_name: str
    asked: PosixSeconds
    expires: PosixSeconds
    consented_by: str
    consented_by_name: str
    counts_from: PosixSeconds | None
    digest: str


class RuleDocument(Document):
    """How many administrators a change of an approver or administrator needs, and after how many seconds it counts.
    ``until``: when the operator's weaker configuration takes effect, or null. ``administrators``: how many can ask and
    consent now."""

    persons: int
    approver_delay_seconds: int
    until: PosixSeconds | None
    administrators: int


class ChangeList(Document):
    """The rule, and the changes that wait or do not count yet, in the order in which they were asked for."""

    rule: RuleDocument
    changes: tuple[ChangeDocument, ...]


class SessionDocument(Document):
    """The person who is signed in, their role's permissions, and, for a browser session, the token that requests which
    change anything must send in ``X-CSRF-Token``."""

    person: PersonDocument
    permissions: tuple[str, ...]
    csrf: str | None = None


class ActDocument(Document):
    """A row of the audit log. ``person``: the id of the person who acted, or empty if that is not known (the hash
    covers the id); ``who``: their name."""

    number: int
    at: PosixSeconds
    person: str
    who: str
    what: str
    target: str
    source: str
    outcome: str
    detail: str
    previous: str
    hash: str
