"""The records that the admin service stores: questions, people with their keys and sessions, and acts."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Final

from tacit.states import Move, States


class QuestionState(enum.StrEnum):
    """The states of a question, from draft to its end."""

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
        Move(QuestionState.SUBMITTED, QuestionState.APPROVED, "approved by somebody who wrote none of it"),
        Move(QuestionState.APPROVED, QuestionState.DRAFT, "edited before it was sent"),
        Move(QuestionState.APPROVED, QuestionState.SUBMITTED, "offered again, because parties or policy have changed"),
        Move(QuestionState.APPROVED, QuestionState.APPROVED, "its recipe is fixed, signed, or refused by the log"),
        Move(QuestionState.APPROVED, QuestionState.PUBLISHED, "the log has its recipe"),
        Move(QuestionState.APPROVED, QuestionState.MISSED, "its interval began, and the log does not have its recipe"),
        Move(QuestionState.MISSED, QuestionState.APPROVED, "published again, with its recipe placed anew"),
        Move(QuestionState.MISSED, QuestionState.SUBMITTED, "offered again, because parties or policy have changed"),
        Move(QuestionState.MISSED, QuestionState.DRAFT, "edited"),
        Move(QuestionState.MISSED, QuestionState.ENDED, "nobody waits for it any more"),
        Move(QuestionState.PUBLISHED, QuestionState.ENDED, "nobody waits for it any more"),
    ],
)


SEARCH: Final = "prefixes"
"""The kind of answer for which a series is published."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question. ``text``: the survey as canonical JSON; ``authors``: the ids of everybody who wrote any part of it;
    ``approval``: the digest that was approved (32 bytes, ``Questions.binding``); ``recipe``: the canonical body of the
    recipe, or of the series, that is fixed for it; ``leaf``: the same signed, which may have been sent. Times are POSIX
    seconds.

    A question that ``trains`` has the plan of a training run as its ``text``; once it is published, the service carries
    the run from round to round until ``over_at``.

    A question with a ``series_hash`` is the next round of that series, number ``round_index`` from 0. Nobody writes its
    ``text``: it is the canonical body of the round's recipe, which follows from the log and the releases before it."""

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
    """The index of its recipe in the log."""
    number: int = 0
    """The question's number, in the order in which questions were written."""
    series_hash: str | None = None
    round_index: int | None = None
    trains: bool = False
    over_at: int | None = None

    @property
    def becomes_series(self) -> bool:
        """Whether a series is published for it, as for every search and every training run; its body and hash stand in
        place of a recipe's."""
        if self.trains:
            return True
        encoder = None if self.series_hash is not None else json.loads(self.text).get("encoder")
        return encoder is not None and encoder.get("kind") == SEARCH


@dataclass(frozen=True, slots=True)
class Person:
    """A person with the permissions of ``role``. ``password``: an argon2id hash, empty without a local account."""

    id: str
    name: str
    role: str
    created: int
    password: str = field(default="", repr=False)
    disabled: bool = False
    identity: str | None = None
    """The digest of the sign-in provider's account that is bound to the person (``flow.identity_of``)."""
    counts_from: int = 0
    """POSIX second from which the person's approvals and consents count."""
    number: int = 0


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A person's API key, stored as its digest. ``expires``: POSIX seconds, None for never."""

    id: str
    person: str
    label: str
    created: int
    expires: int | None = None
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a signed-in browser. ``began`` and ``seen``: POSIX seconds; ``digest``: of its cookie."""

    person: str
    began: int
    seen: int
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation with which a person may bind an account of the sign-in provider or register a passkey, once, before
    ``expires`` (POSIX seconds)."""

    person: str
    expires: int
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Passkey:
    """A person's passkey. ``id`` and ``credential`` (WebAuthn's attested credential data) come from its authenticator;
    ``counter``: the last value that the authenticator reported."""

    id: bytes
    person: str
    label: str
    created: int
    counter: int
    credential: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge for a passkey to sign, once, before ``expires`` (POSIX seconds). ``nonce``: the fresh bytes in it."""

    person: str
    expires: int
    nonce: bytes = field(repr=False)
    challenge: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an approver or administrator. While ``counts_from`` is 0 it waits for consent, until ``expires``;
    after the consent, the person's approvals and consents count from ``counts_from`` on. ``kind``: of ``consent.Kind``;
    ``person``: the id of the changed person, with the ``name`` and ``role`` that the change gives; ``words``: what
    changes; ``payload``: the same as canonical JSON; ``digest``: over all of this and how the person could sign in when
    the change was asked for. ``asked_by`` and ``consented_by``: ids of people, empty for the operator and for nobody.
    Times are POSIX seconds."""

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
    """The consent rule: how many administrators (``persons``) a change of an approver or administrator needs, and the
    ``delay`` in seconds before it counts. The rule was configured at ``since`` (POSIX seconds); ``before_persons`` and
    ``before_delay`` are those of the rule before it."""

    persons: int
    delay: int
    since: int
    before_persons: int
    before_delay: int


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed sign-ins to one account, by a digest of its name. ``last``: the last failure; ``until``: when the next
    attempt is allowed (POSIX seconds)."""

    account: bytes
    count: int
    last: int
    until: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request with an ``Idempotency-Key``. ``key``: a digest of that key and the person; ``request``: a
    digest of the request. The body of an answer that holds a secret is not stored."""

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
