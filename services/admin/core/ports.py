"""The interfaces of a store's transaction that the parts of the admin service use."""

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
    """The part of a transaction that questions use."""

    async def question(self, question_id: str) -> Question | None:
        """The question with this id, or None."""
        ...

    async def questions(
        self, after: int, limit: int, state: QuestionState | None = None, recipe_hash: str = ""
    ) -> Sequence[Question]:
        """At most ``limit`` questions after number ``after``, in the order in which they were written."""
        ...

    async def questions_of(self, recipe_hashes: Sequence[str]) -> Mapping[str, str]:
        """Those of these recipes that came from a question here: recipe hash -> the question's id."""
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
        """Replace ``before`` by ``question``. Returns False if somebody has changed it since. Raises ``Fatal`` for a
        move that is not in ``QUESTION_STATES``."""
        ...

    async def drop_question(self, question: Question) -> bool:
        """Delete the question. Returns False if somebody has changed it since. Raises ``Fatal`` as ``put_question``."""
        ...


class PeopleTx(Protocol):
    """The part of a transaction that people, their keys and their sessions use."""

    async def person(self, person_id: str) -> Person | None:
        """The person with this id, or None."""
        ...

    async def person_named(self, name: str) -> Person | None:
        """The person with this name, or None."""
        ...

    async def person_identified(self, identity: str) -> Person | None:
        """The person to whom this account of the sign-in provider is bound, or None."""
        ...

    async def names(self, person_ids: Collection[str]) -> Mapping[str, str]:
        """The names of these people: id -> name. Unknown ids are left out."""
        ...

    async def people(self, after: int, limit: int) -> Sequence[Person]:
        """At most ``limit`` people after number ``after``, in order."""
        ...

    async def active_with_role(self, role: str) -> int:
        """The number of people with this role who are not disabled."""
        ...

    async def counting_with_role(self, role: str, now: int) -> int:
        """The number of those whose approvals and consents count at ``now`` (POSIX seconds)."""
        ...

    async def add_person(self, person: Person) -> None:
        """Store a new person; the store gives the number."""
        ...

    async def put_person(self, person: Person) -> None:
        """Replace the person with the same id."""
        ...

    async def key_holder(self, digest: bytes) -> tuple[ApiKey, Person] | None:
        """The key with this digest and its owner, or None."""
        ...

    async def keys(self, person_id: str) -> Sequence[ApiKey]:
        """A person's keys, the oldest first."""
        ...

    async def add_key(self, key: ApiKey) -> None:
        """Store a new API key of a person."""
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
        """The service's own secret with this name, or None."""
        ...

    async def add_secret(self, name: str, value: bytes) -> None:
        """Store a new secret under this name."""
        ...

    async def session(self, digest: bytes) -> Session | None:
        """The session whose cookie has this digest, or None."""
        ...

    async def session_holder(self, digest: bytes) -> tuple[Session, Person] | None:
        """The session whose cookie has this digest and its owner, or None."""
        ...

    async def put_session(self, session: Session) -> None:
        """Store a new session, or replace one to update when it was last seen."""
        ...

    async def drop_sessions(self, *, digest: bytes = b"", person_id: str = "", began_before: int = 0) -> int:
        """Delete the session with this digest, all sessions of a person, and all that began before a POSIX second.
        Returns how many there were."""
        ...

    async def invitation(self, digest: bytes) -> Invitation | None:
        """The invitation with this digest, or None."""
        ...

    async def add_invitation(self, invitation: Invitation) -> None:
        """Store a new invitation of a person."""
        ...

    async def drop_invitations(self, *, person_id: str, expired_at: int) -> None:
        """Delete the invitations of a person, and all that have expired by ``expired_at`` (POSIX seconds)."""
        ...

    async def use_flow(self, digest: bytes, now: int, forget_before: int) -> bool:
        """Remember a completed sign-in, and forget those before ``forget_before`` (POSIX seconds). Returns False if it
        was already remembered."""
        ...

    async def failures(self, account: bytes) -> Failures | None:
        """The record of failed sign-ins to an account, or None."""
        ...

    async def put_failures(self, failures: Failures) -> None:
        """Store the record of failed sign-ins to an account, in place of the one before."""
        ...

    async def drop_failures(self, *, account: bytes = b"", last_before: int = 0) -> None:
        """Delete the record of an account, and all whose last failure was before ``last_before`` (POSIX seconds)."""
        ...


class ConsentTx(Protocol):
    """The part of a transaction that changes which need consent use."""

    async def changes(self) -> Sequence[Change]:
        """All changes, in the order in which they were asked for."""
        ...

    async def change(self, change_id: str) -> Change | None:
        """The change with this id, or None."""
        ...

    async def put_change(self, change: Change) -> None:
        """Store a new change, or replace one."""
        ...

    async def drop_change(self, change_id: str) -> bool:
        """Delete a change. Returns whether there was one."""
        ...

    async def drop_past_changes(self, now: int) -> None:
        """Delete the changes whose wait has ended by ``now`` (POSIX seconds), and those that count by then."""
        ...

    async def kept_rule(self) -> KeptRule | None:
        """The rule as it was last configured, or None."""
        ...

    async def put_rule(self, rule: KeptRule) -> None:
        """Store the rule in place of the one before."""
        ...


class PasskeysTx(Protocol):
    """The part of a transaction that passkeys use."""

    async def passkeys(self, person_id: str) -> Sequence[Passkey]:
        """The passkeys of a person, the oldest first."""
        ...

    async def passkey(self, passkey_id: bytes) -> Passkey | None:
        """The passkey with this id, which its authenticator gave it, or None."""
        ...

    async def add_passkey(self, passkey: Passkey) -> None:
        """Store a new passkey of a person."""
        ...

    async def put_passkey(self, passkey: Passkey) -> None:
        """Replace the passkey with the same id."""
        ...

    async def drop_passkey(self, person_id: str, passkey_id: bytes) -> bool:
        """Delete a passkey of a person. Returns whether there was one."""
        ...

    async def challenge(self, challenge: bytes) -> Challenge | None:
        """The stored record of this challenge, or None."""
        ...

    async def add_challenge(self, challenge: Challenge) -> None:
        """Store a new challenge for a passkey."""
        ...

    async def drop_challenges(self, *, person_id: str, expired_at: int) -> bool:
        """Delete the challenges of a person, and all that have expired by ``expired_at`` (POSIX seconds). Returns
        whether there was one; of two concurrent transactions only one gets True."""
        ...


class AnswersTx(Protocol):
    """The part of a transaction that repeated requests use."""

    async def answer(self, key: bytes) -> Answer | None:
        """The answer stored under this key, or None."""
        ...

    async def add_answer(self, answer: Answer) -> None:
        """Store an answer; a second one with the same key is an integrity error."""
        ...

    async def drop_answers(self, before: int) -> int:
        """Delete the answers given before a POSIX second. Returns how many there were."""
        ...


class AuditTx(Protocol):
    """The part of a transaction that the audit log uses."""

    async def last_act(self) -> AuditRow | None:
        """The newest row of the audit log, or None."""
        ...

    async def newest_of(self, what: str) -> AuditRow | None:
        """The newest row with this kind of act, or None."""
        ...

    async def add_act(self, row: AuditRow) -> None:
        """Append a row; a second one with the same number is an integrity error."""
        ...

    async def acts(self, after: int, limit: int) -> Sequence[AuditRow]:
        """At most ``limit`` rows after number ``after``, in order."""
        ...

    async def done_to(self, target: str, whats: Sequence[str], limit: int) -> Sequence[AuditRow]:
        """The newest ``limit`` rows with acts of these kinds that were done to ``target``, in order."""
        ...


class PublishingTx(QuestionsTx, AuditTx, Protocol):
    """The part of a transaction that publishing uses."""


class AdminTx(QuestionsTx, PeopleTx, PasskeysTx, ConsentTx, AnswersTx, AuditTx, Protocol):
    """A transaction with all the parts that the admin service uses."""
