"""What the admin service's parts ask of the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from services.admin.core.records import (
    Answer,
    ApiKey,
    AuditRow,
    Challenge,
    Change,
    Failures,
    Invitation,
    KeptRule,
    Passkey,
    Person,
    Question,
    QuestionState,
    Session,
)


class QuestionsTx(Protocol):
    """What the life of a question asks of a transaction."""

    async def question(self, question_id: str) -> Question | None:
        """The question with this id."""
        ...

    async def questions(
        self, after: int, limit: int, state: QuestionState | None = None, recipe_hash: str = ""
    ) -> Sequence[Question]:
        """At most ``limit`` questions after number ``after``, in the order in which they were written."""
        ...

    async def questions_of(self, recipe_hashes: Sequence[str]) -> Mapping[str, str]:
        """The recipes among these that came from a question here, each with the question's id."""
        ...

    async def newest_published(self, limit: int) -> Sequence[str]:
        """Hashes of the recipes of published questions that have not ended, the newest first."""
        ...

    async def question_counts(self) -> Mapping[str, int]:
        """How many questions are in each state; states without any may be left out."""
        ...

    async def unsent(self, limit: int) -> Sequence[Question]:
        """Approved questions whose signed recipe may not be in the log yet."""
        ...

    async def add_question(self, question: Question) -> None:
        """Store a new question; the store gives it its number."""
        ...

    async def put_question(self, question: Question, before: Question) -> bool:
        """Replace ``before``, unless somebody else has since: then False. Raises ``Fatal`` for a move that
        ``QUESTION_STATES`` does not hold."""
        ...

    async def drop_question(self, question: Question) -> bool:
        """Delete it as it is, unless somebody has changed it since: then False. Raises ``Fatal`` as above."""
        ...


class PeopleTx(Protocol):
    """What people, their keys and their sessions ask of a transaction."""

    async def person(self, person_id: str) -> Person | None:
        """One person."""
        ...

    async def person_named(self, name: str) -> Person | None:
        """The person of this name."""
        ...

    async def person_identified(self, identity: str) -> Person | None:
        """The person to whom this account of the sign-in provider is bound."""
        ...

    async def names(self, person_ids: Collection[str]) -> Mapping[str, str]:
        """The names, by id, of those of these people who exist."""
        ...

    async def people(self, after: int, limit: int) -> Sequence[Person]:
        """At most ``limit`` people after number ``after``, in order."""
        ...

    async def active_with_role(self, role: str) -> int:
        """How many people who are not disabled have the role."""
        ...

    async def counting_with_role(self, role: str, now: int) -> int:
        """How many of them have approvals and consents that count at a POSIX second."""
        ...

    async def add_person(self, person: Person) -> None:
        """Store a new person; the store gives the number."""
        ...

    async def put_person(self, person: Person) -> None:
        """Replace one."""
        ...

    async def key_holder(self, digest: bytes) -> tuple[ApiKey, Person] | None:
        """The key with this digest, and its owner."""
        ...

    async def keys(self, person_id: str) -> Sequence[ApiKey]:
        """A person's keys, the oldest first."""
        ...

    async def add_key(self, key: ApiKey) -> None:
        """Store a new key."""
        ...

    async def drop_key(self, person_id: str, key_id: str) -> bool:
        """Delete a person's key. Returns whether there was one."""
        ...

    async def drop_access(self) -> None:
        """Delete every key, session, password, passkey, bound account and invitation, and disable everybody."""
        ...

    async def drop_ways_in(self, person_id: str) -> None:
        """Delete the keys, sessions, password, passkeys, bound account and invitation of one person."""
        ...

    async def secret(self, name: str) -> bytes | None:
        """The service's own secret of this name."""
        ...

    async def add_secret(self, name: str, value: bytes) -> None:
        """Keep a new one."""
        ...

    async def session(self, digest: bytes) -> Session | None:
        """The session of this cookie."""
        ...

    async def session_holder(self, digest: bytes) -> tuple[Session, Person] | None:
        """The session of this cookie, and its owner."""
        ...

    async def put_session(self, session: Session) -> None:
        """Store a new session, or the time when one was last seen."""
        ...

    async def drop_sessions(self, *, digest: bytes = b"", person_id: str = "", began_before: int = 0) -> int:
        """End one session, all sessions of a person, or all that began earlier. Returns how many."""
        ...

    async def invitation(self, digest: bytes) -> Invitation | None:
        """The invitation with this digest."""
        ...

    async def add_invitation(self, invitation: Invitation) -> None:
        """Keep a new one."""
        ...

    async def drop_invitations(self, *, person_id: str, expired_at: int) -> None:
        """Delete the invitations of a person, and all that have expired at a POSIX second."""
        ...

    async def use_flow(self, digest: bytes, now: int, forget_before: int) -> bool:
        """Remember a completed sign-in, and forget those before a POSIX second. False if it was remembered."""
        ...

    async def failures(self, account: bytes) -> Failures | None:
        """The record of failed sign-ins of an account."""
        ...

    async def put_failures(self, failures: Failures) -> None:
        """Remember it."""
        ...

    async def drop_failures(self, *, account: bytes = b"", last_before: int = 0) -> None:
        """Forget the failures of an account, or all that ended earlier."""
        ...


class ConsentTx(Protocol):
    """What changes that need consent ask of a transaction."""

    async def changes(self) -> Sequence[Change]:
        """All changes, in the order in which they were asked for."""
        ...

    async def change(self, change_id: str) -> Change | None:
        """One."""
        ...

    async def put_change(self, change: Change) -> None:
        """Store a new change, or replace one."""
        ...

    async def drop_change(self, change_id: str) -> bool:
        """Delete a change. Returns whether there was one."""
        ...

    async def drop_past_changes(self, now: int) -> None:
        """Delete the changes whose wait ended by a POSIX second, and those that count by then."""
        ...

    async def kept_rule(self) -> KeptRule | None:
        """The rule as it was last configured."""
        ...

    async def put_rule(self, rule: KeptRule) -> None:
        """Store the rule in place of the one before."""
        ...


class PasskeysTx(Protocol):
    """What passkeys ask of a transaction."""

    async def passkeys(self, person_id: str) -> Sequence[Passkey]:
        """The passkeys of a person, the oldest first."""
        ...

    async def passkey(self, passkey_id: bytes) -> Passkey | None:
        """The passkey with the id that its authenticator gave it."""
        ...

    async def add_passkey(self, passkey: Passkey) -> None:
        """Keep a new one."""
        ...

    async def put_passkey(self, passkey: Passkey) -> None:
        """Replace one."""
        ...

    async def drop_passkey(self, person_id: str, passkey_id: bytes) -> bool:
        """Delete a passkey of a person. Returns whether there was one."""
        ...

    async def challenge(self, challenge: bytes) -> Challenge | None:
        """What the challenge was made of."""
        ...

    async def add_challenge(self, challenge: Challenge) -> None:
        """Keep a new one."""
        ...

    async def drop_challenges(self, *, person_id: str, expired_at: int) -> bool:
        """Delete the challenges of a person, and all that have expired at a POSIX second. Returns whether there was
        one; of two concurrent transactions only one gets True."""
        ...


class AnswersTx(Protocol):
    """What repeated requests ask of a transaction."""

    async def answer(self, key: bytes) -> Answer | None:
        """The answer that was stored under this key."""
        ...

    async def add_answer(self, answer: Answer) -> None:
        """Store an answer; a second one with the same key is an integrity error."""
        ...

    async def drop_answers(self, before: int) -> int:
        """Forget the answers given before a POSIX second. Returns how many."""
        ...


class AuditTx(Protocol):
    """What the audit log asks of a transaction."""

    async def last_act(self) -> AuditRow | None:
        """The newest row."""
        ...

    async def newest_of(self, what: str) -> AuditRow | None:
        """The newest row of this kind of act."""
        ...

    async def add_act(self, row: AuditRow) -> None:
        """Append a row; a second one with the same number is an integrity error."""
        ...

    async def acts(self, after: int, limit: int) -> Sequence[AuditRow]:
        """At most ``limit`` rows after number ``after``, in order."""
        ...

    async def done_to(self, target: str, whats: Sequence[str], limit: int) -> Sequence[AuditRow]:
        """The newest ``limit`` rows of these kinds that were done to ``target``, in order."""
        ...


class PublishingTx(QuestionsTx, AuditTx, Protocol):
    """What publishing asks of a transaction."""


class AdminTx(QuestionsTx, PeopleTx, PasskeysTx, ConsentTx, AnswersTx, AuditTx, Protocol):
    """Everything."""
