"""What the admin service keeps: questions, people with their keys and sessions, and acts."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tacit.states import Move, States


class QuestionState(enum.StrEnum):
    """How far a question is."""

    DRAFT = "draft"
    SUBMITTED = "submitted"
    APPROVED = "approved"
    PUBLISHED = "published"
    ENDED = "ended"
    MISSED = "missed"


QUESTION_STATES = States(
    "a question",
    QuestionState,
    [
        Move(None, QuestionState.DRAFT, "somebody writes it"),
        Move(QuestionState.DRAFT, QuestionState.DRAFT, "edited"),
        Move(QuestionState.DRAFT, None, "deleted"),
        Move(QuestionState.DRAFT, QuestionState.SUBMITTED, "offered for approval"),
        Move(QuestionState.SUBMITTED, QuestionState.DRAFT, "edited"),
        Move(QuestionState.SUBMITTED, QuestionState.APPROVED, "somebody who wrote none of it approves"),
        Move(QuestionState.APPROVED, QuestionState.DRAFT, "edited before it was sent"),
        Move(QuestionState.APPROVED, QuestionState.SUBMITTED, "offered again, as parties or policy have changed"),
        Move(QuestionState.APPROVED, QuestionState.APPROVED, "its recipe is fixed, signed, or refused by the log"),
        Move(QuestionState.APPROVED, QuestionState.PUBLISHED, "the log has its recipe"),
        Move(QuestionState.APPROVED, QuestionState.MISSED, "its interval began, and the log does not have its recipe"),
        Move(QuestionState.MISSED, QuestionState.APPROVED, "published again, with its recipe placed anew"),
        Move(QuestionState.MISSED, QuestionState.SUBMITTED, "offered again, as parties or policy have changed"),
        Move(QuestionState.MISSED, QuestionState.DRAFT, "edited"),
        Move(QuestionState.MISSED, QuestionState.ENDED, "nobody waits for it any more"),
        Move(QuestionState.PUBLISHED, QuestionState.ENDED, "nobody waits for it any more"),
    ],
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question. ``text`` is the survey as canonical JSON, ``authors`` the ids of all who wrote any of it,
    ``approval`` what was approved (32 bytes; ``questions.binding``). ``recipe``: the canonical body of
    the recipe that is fixed for it; ``leaf``: the same signed, which may have been sent. Times are POSIX seconds."""

    id: str
    state: QuestionState
    revision: int
    text: str
    authors: tuple[str, ...]
    created: int
    changed: int
    approver: str = ""
    approval: bytes = b""
    recipe: bytes = b""
    recipe_hash: str = ""
    leaf: bytes = b""
    position: int | None = None
    """Of its recipe in the log."""
    number: int = 0
    """In the order in which they were written."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may do what ``role`` may. ``password``: an argon2id hash, empty where there is no local account."""

    id: str
    name: str
    role: str
    created: int
    password: str = field(default="", repr=False)
    disabled: bool = False
    identity: str | None = None
    """Digest of the account of the sign-in provider that is bound to the person (``flow.identity_of``)."""
    counts_from: int = 0
    """POSIX second from which the person's approvals and consents count."""
    number: int = 0


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A person's key by its digest. ``expires``: POSIX seconds, None for never."""

    id: str
    person: str
    label: str
    created: int
    expires: int | None = None
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that somebody has signed in. ``digest`` is that of its cookie."""

    person: str
    began: int
    seen: int
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Invitation:
    """By which a person may bind an account of the sign-in provider, once, before ``expires`` (POSIX seconds)."""

    person: str
    expires: int
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey of a person: ``id`` and ``credential`` (WebAuthn's attested credential data) as its authenticator gave
    them; ``counter`` as it was last."""

    id: bytes
    person: str
    label: str
    created: int
    counter: int
    credential: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a passkey is asked to sign, once, before ``expires``; ``nonce``: the fresh bytes in it."""

    person: str
    expires: int
    nonce: bytes = field(repr=False)
    challenge: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of somebody who approves or administers. It waits for consent until ``expires`` while ``counts_from`` is
    0; afterwards the person counts from then on. ``kind``: of ``consent.Kind``; ``person``: the id of whom it is about,
    with the ``name`` and the ``role`` that they have by it; ``words``: what changes; ``payload``: the same as canonical
    JSON; ``digest``: over all of it and how the person got in when it was asked for. ``asked_by`` and ``consented_by``
    are ids, empty for the operator and for nobody. Times are POSIX seconds."""

    id: str
    kind: str
    person: str
    name: str
    role: str
    words: str
    asked_by: str
    asked: int
    expires: int
    payload: str = "{}"
    digest: bytes = b""
    consented_by: str = ""
    counts_from: int = 0

    @property
    def waits(self) -> bool:
        """Whether nobody has consented yet."""
        return not self.counts_from


@dataclass(frozen=True, slots=True)
class KeptRule:
    """How many ``persons`` a change of an approver needs, and the ``delay`` in seconds before it counts, as configured
    ``since`` a POSIX second; and what held before."""

    persons: int
    delay: int
    since: int
    before_persons: int
    before_delay: int


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed attempts to sign in to one account, by a digest of its name; ``until``: when the next one is heard."""

    account: bytes
    count: int
    last: int
    until: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request with an ``Idempotency-Key`` was answered. ``key``: a digest of it and the person; ``request``: of
    what was asked. An answer that holds a secret is kept without its body."""

    key: bytes
    request: bytes
    at: int
    status: int
    headers: str
    body: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Act:
    """One row of the audit log: ``who`` (a person's id) did ``what`` to ``target`` at ``at`` (POSIX seconds), from
    ``source``, with ``outcome``; ``detail`` holds further words."""

    who: str
    what: str
    target: str
    at: int
    source: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An act with its place in the chain: ``hash`` covers the act, its number and ``previous``."""

    number: int
    previous: bytes
    act: Act
    hash: bytes
