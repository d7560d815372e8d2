"""What the admin service's parts ask of the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from services.admin.core.records import (
    Answer,
    ApiKey,
    AuditRow,
    Challenge,
    Failures,
    Invitation,
    Passkey,
    Person,
    Question,
    QuestionState,
    Session,
)


class QuestionsTx(Protocol):
    """What the life of a question asks of a transaction."""

    async def question(self, question_id: str) -> Question | None:
        """One question."""
        ...

    async def questions(
        self, after: int, limit: int, state: QuestionState | None = None, recipe_hash: str = ""
    ) -> Sequence[Question]:
        """At most ``limit`` questions behind number ``after`` in the order in which they were written."""
        ...

    async def questions_of(self, recipe_hashes: Sequence[str]) -> Mapping[str, str]:
        """Of these recipes those that came from a question here, with its id."""
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
        """Keep a new question; its number is given to it."""
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
        """The person whose account of the sign-in provider it is."""
        ...

    async def names(self, person_ids: Collection[str]) -> Mapping[str, str]:
        """The names of those of them that there are, by id."""
        ...

    async def people(self, after: int, limit: int) -> Sequence[Person]:
        """At most ``limit`` people behind number ``after``, in order."""
        ...

    async def active_with_role(self, role: str) -> int:
        """How many people who are not disabled have the role."""
        ...

    async def add_person(self, person: Person) -> None:
        """Keep a new person; the number is given."""
        ...

    async def put_person(self, person: Person) -> None:
        """Replace one."""
        ...

    async def key_holder(self, digest: bytes) -> tuple[ApiKey, Person] | None:
        """The key with this digest, and whose it is."""
        ...

    async def keys(self, person_id: str) -> Sequence[ApiKey]:
        """A person's keys, the oldest first."""
        ...

    async def add_key(self, key: ApiKey) -> None:
        """Keep a new key."""
        ...

    async def drop_key(self, person_id: str, key_id: str) -> bool:
        """Delete a person's key; whether there was one."""
        ...

    async def drop_access(self) -> None:
        """Delete every key, session, password, passkey, bound account and invitation, and let nobody in any more."""
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
        """The same with whose it is."""
        ...

    async def put_session(self, session: Session) -> None:
        """Keep a new session, or when one was seen last."""
        ...

    async def drop_sessions(self, *, digest: bytes = b"", person_id: str = "", began_before: int = 0) -> int:
        """End one session, all of a person's, or all that began earlier; how many."""
        ...

    async def invitation(self, digest: bytes) -> Invitation | None:
        """The invitation with this digest."""
        ...

    async def add_invitation(self, invitation: Invitation) -> None:
        """Keep a new one."""
        ...

    async def drop_invitations(self, *, person_id: str, expired_at: int) -> None:
        """Delete those of a person, and all that are over at a POSIX second."""
        ...

    async def use_flow(self, digest: bytes, now: int, forget_before: int) -> bool:
        """Remember a completed sign-in, and forget those of before a POSIX second; False where it is remembered."""
        ...

    async def failures(self, account: bytes) -> Failures | None:
        """What is remembered of failures to sign in."""
        ...

    async def put_failures(self, failures: Failures) -> None:
        """Remember it."""
        ...

    async def drop_failures(self, *, account: bytes = b"", last_before: int = 0) -> None:
        """Forget those of an account, or all that ended earlier."""
        ...


class PasskeysTx(Protocol):
    """What passkeys ask of a transaction."""

    async def passkeys(self, person_id: str) -> Sequence[Passkey]:
        """A person's, the oldest first."""
        ...

    async def passkey(self, passkey_id: bytes) -> Passkey | None:
        """One, by the id that its authenticator gave it."""
        ...

    async def add_passkey(self, passkey: Passkey) -> None:
        """Keep a new one."""
        ...

    async def put_passkey(self, passkey: Passkey) -> None:
        """Replace one."""
        ...

    async def drop_passkey(self, person_id: str, passkey_id: bytes) -> bool:
        """Delete a person's; whether there was one."""
        ...

    async def challenge(self, challenge: bytes) -> Challenge | None:
        """What it was made of."""
        ...

    async def add_challenge(self, challenge: Challenge) -> None:
        """Keep a new one."""
        ...

    async def drop_challenges(self, *, person_id: str, expired_at: int) -> bool:
        """Delete those of a person, and all that are over at a POSIX second; whether there was one, which of two
        transactions only one is told."""
        ...


class AnswersTx(Protocol):
    """What repeated requests ask of a transaction."""

    async def answer(self, key: bytes) -> Answer | None:
        """What was answered under this key."""
        ...

    async def add_answer(self, answer: Answer) -> None:
        """Keep it; a second one of the same key is an integrity error."""
        ...

    async def drop_answers(self, before: int) -> int:
        """Forget those given before a POSIX second; how many."""
        ...


class AuditTx(Protocol):
    """What the audit log asks of a transaction."""

    async def last_act(self) -> AuditRow | None:
        """The newest row."""
        ...

    async def newest_of(self, what: str) -> AuditRow | None:
        """The newest row of what was done."""
        ...

    async def add_act(self, row: AuditRow) -> None:
        """Append a row; a second one of its number is an integrity error."""
        ...

    async def acts(self, after: int, limit: int) -> Sequence[AuditRow]:
        """At most ``limit`` rows behind number ``after``, in order."""
        ...

    async def done_to(self, target: str, whats: Sequence[str], limit: int) -> Sequence[AuditRow]:
        """The newest ``limit`` rows of these kinds that were done to ``target``, in order."""
        ...


class PublishingTx(QuestionsTx, AuditTx, Protocol):
    """What publishing asks of a transaction."""


class AdminTx(QuestionsTx, PeopleTx, PasskeysTx, AnswersTx, AuditTx, Protocol):
    """Everything."""
