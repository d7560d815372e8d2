"""Documents of changes that need consent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.admin.core.consent import Kind
from services.admin.core.documents import Document, PosixSeconds
from services.admin.core.people import Role


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


class WaitingInvitation(ChangeDocument):
    """A waiting change that is an invitation, with the invitation's text, which is shown only once and becomes valid
    with the consent."""

    invitation: str = Field(repr=False)


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
    changes: list[ChangeDocument]


class ConsentBody(Document):
    """A consent. ``digest``: the digest of the change that the person has read."""

    digest: Annotated[str, Field(max_length=64)]
