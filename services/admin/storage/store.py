"""The admin service's database. One transaction stores an act, its audit row and the answer that was given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from services.admin.storage.consent_store import ConsentTx
from services.admin.storage.question_store import QuestionsTx, columns_of
from services.admin.storage.records import (
    Act,
    Answer,
    ApiKey,
    AuditRow,
    Challenge,
    Failures,
    Invitation,
    Passkey,
    Person,
    Session,
)
from services.admin.storage.rows import Rows
from services.admin.storage.schema import (
    ANSWERS,
    AUDIT,
    CHALLENGES,
    CHANGES,
    FAILURES,
    FLOWS,
    INVITATIONS,
    KEYS,
    METADATA,
    MIGRATIONS,
    PASSKEYS,
    PEOPLE,
    SECRETS,
    SESSIONS,
)
from tacit.adapters.databases.stored import DatabaseStore
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal

DONE = "done"
"""The outcome of an act that was not refused."""
_ROW = sa.select(*(AUDIT.c[name] for name in ("number", "previous", "hash", *(one.name for one in fields(Act)))))
"""A query for rows of the audit log, with the columns in the order that ``_audit_row`` expects."""


def _with_person(table: sa.Table) -> sa.Select[Any]:
    """A query for the row of ``table`` with a digest, joined with its person. It is built once, because every request
    needs it."""
    joined = table.join(PEOPLE, PEOPLE.c.id == table.c.person)
    return sa.select(table, PEOPLE).select_from(joined).where(table.c.digest == sa.bindparam("digest"))


_WAYS_IN = (KEYS, SESSIONS, INVITATIONS, PASSKEYS, CHALLENGES)
_KEYED, _BEGUN = _with_person(KEYS), _with_person(SESSIONS)


class PeopleTx(Rows):
    """The part of a transaction that people, their keys and their sessions use."""

    async def person(self, person_id: str) -> Person | None:
        """The person with this id, also a disabled one; None if there is none."""
        row = await self._one(sa.select(PEOPLE).where(PEOPLE.c.id == person_id))
        return None if row is None else Person(**row)

    async def person_named(self, name: str) -> Person | None:
        """The person with exactly this name, also a disabled one; None if there is none."""
        row = await self._one(sa.select(PEOPLE).where(PEOPLE.c.name == name))
        return None if row is None else Person(**row)

    async def person_identified(self, identity: str) -> Person | None:
        """The person to whom this account is bound, or None."""
        row = await self._one(sa.select(PEOPLE).where(PEOPLE.c.identity == identity))
        return None if row is None else Person(**row)

    async def names(self, person_ids: Collection[str]) -> Mapping[str, str]:
        """Names by id, without the ids that nobody has."""
        query = sa.select(PEOPLE.c.id, PEOPLE.c.name).where(PEOPLE.c.id.in_(sorted(person_ids)))
        return {row.id: row.name for row in await self._connection.execute(query)}

    async def people(self, after: int, limit: int) -> Sequence[Person]:
        """At most ``limit`` people after number ``after``, in order."""
        query = sa.select(PEOPLE).where(PEOPLE.c.number > after).order_by(PEOPLE.c.number).limit(limit)
        return [Person(**row) for row in await self._all(query)]

    async def active_with_role(self, role: str) -> int:
        """The number of people with this role who are not disabled."""
        query = sa.select(sa.func.count()).where(PEOPLE.c.role == role, PEOPLE.c.disabled.is_(False))
        return int((await self._connection.execute(query)).scalar_one())

    async def counting_with_role(self, role: str, now: int) -> int:
        """The number of those whose approvals and consents count at ``now`` (POSIX seconds)."""
        active = (PEOPLE.c.role == role) & PEOPLE.c.disabled.is_(False) & (PEOPLE.c.counts_from <= now)
        return int((await self._connection.execute(sa.select(sa.func.count()).where(active))).scalar_one())

    async def add_person(self, person: Person) -> None:
        """Store a new person, who gets the next number. Raises ``IntegrityError`` if the id, name or account is
        taken."""
        await self._run(sa.insert(PEOPLE).values(columns_of(person)))

    async def put_person(self, person: Person) -> None:
        """Replace the person with the same id. Raises ``Fatal`` if there is none."""
        if await self._run(sa.update(PEOPLE).where(PEOPLE.c.id == person.id).values(columns_of(person))) != 1:
            raise Fatal("no person has this id")

    async def key_holder(self, digest: bytes) -> tuple[ApiKey, Person] | None:
        """The key with this SHA-256 and its person, in one query, whether or not the key is over or the person
        disabled."""
        row = (await self._connection.execute(_KEYED, {"digest": digest})).first()
        return None if row is None else (ApiKey(**_taken(KEYS, row)), Person(**_taken(PEOPLE, row[len(KEYS.c) :])))

    async def keys(self, person_id: str) -> Sequence[ApiKey]:
        """The person's API keys, the oldest first, those that are over too."""
        query = sa.select(KEYS).where(KEYS.c.person == person_id).order_by(KEYS.c.created, KEYS.c.id)
        return [ApiKey(**row) for row in await self._all(query)]

    async def add_key(self, key: ApiKey) -> None:
        """Store a new API key. Raises ``IntegrityError`` if its id or digest is taken."""
        await self._run(sa.insert(KEYS).values(asdict(key)))

    async def drop_key(self, person_id: str, key_id: str) -> bool:
        """Delete a person's key. Returns whether there was one."""
        return await self._run(sa.delete(KEYS).where(KEYS.c.id == key_id, KEYS.c.person == person_id)) == 1

    async def drop_access(self) -> None:
        """Delete everything with which anybody can sign in, and all changes, and disable everybody."""
        for table in (*_WAYS_IN, CHANGES):
            await self._run(sa.delete(table))
        await self._run(sa.update(PEOPLE).values(password="", disabled=True, identity=None))

    async def drop_ways_in(self, person_id: str) -> None:
        """Delete everything with which this person can sign in."""
        for table in _WAYS_IN:
            await self._run(sa.delete(table).where(table.c.person == person_id))
        await self._run(sa.update(PEOPLE).where(PEOPLE.c.id == person_id).values(password="", identity=None))

    async def secret(self, name: str) -> bytes | None:
        """A key (32 bytes) that the service made for itself; None before it is made."""
        row = await self._one(sa.select(SECRETS.c.value).where(SECRETS.c.name == name))
        return None if row is None else bytes(row["value"])

    async def add_secret(self, name: str, value: bytes) -> None:
        """Store a key that the service made for itself. Raises ``IntegrityError`` if there is one of this name."""
        await self._run(sa.insert(SECRETS).values(name=name, value=value))

    async def session(self, digest: bytes) -> Session | None:
        """The session whose cookie has this SHA-256, which may be over; None if none is stored."""
        row = await self._one(sa.select(SESSIONS).where(SESSIONS.c.digest == digest))
        return None if row is None else Session(**row)

    async def session_holder(self, digest: bytes) -> tuple[Session, Person] | None:
        """The session whose cookie has this digest and its owner, or None, in one query."""
        row = (await self._connection.execute(_BEGUN, {"digest": digest})).first()
        if row is None:
            return None
        return Session(**_taken(SESSIONS, row)), Person(**_taken(PEOPLE, row[len(SESSIONS.c) :]))

    async def put_session(self, session: Session) -> None:
        """Store the session; it replaces the one with the same digest."""
        await self._run(sa.delete(SESSIONS).where(SESSIONS.c.digest == session.digest))
        await self._run(sa.insert(SESSIONS).values(asdict(session)))

    async def drop_sessions(self, *, digest: bytes = b"", person_id: str = "", began_before: int = 0) -> int:
        """Delete every session that any of the three arguments selects. Returns how many there were."""
        named = (SESSIONS.c.digest == digest) | (SESSIONS.c.person == person_id) | (SESSIONS.c.began < began_before)
        return await self._run(sa.delete(SESSIONS).where(named))

    async def invitation(self, digest: bytes) -> Invitation | None:
        """The invitation with this SHA-256, which may have expired; None if it was used or revoked, or never was."""
        row = await self._one(sa.select(INVITATIONS).where(INVITATIONS.c.digest == digest))
        return None if row is None else Invitation(**row)

    async def add_invitation(self, invitation: Invitation) -> None:
        """Store an invitation beside those that there are. Raises ``IntegrityError`` if its digest is taken."""
        await self._run(sa.insert(INVITATIONS).values(asdict(invitation)))

    async def drop_invitations(self, *, person_id: str, expired_at: int) -> None:
        """Delete the person's invitations, and everybody's that have expired by ``expired_at`` (POSIX seconds)."""
        over = (INVITATIONS.c.person == person_id) | (INVITATIONS.c.expires <= expired_at)
        await self._run(sa.delete(INVITATIONS).where(over))

    async def use_flow(self, digest: bytes, now: int, forget_before: int) -> bool:
        """Remember a completed sign-in. Returns False if it was already remembered."""
        await self._run(sa.delete(FLOWS).where(FLOWS.c.at < forget_before))
        if await self._one(sa.select(FLOWS).where(FLOWS.c.digest == digest)) is not None:
            return False
        await self._run(sa.insert(FLOWS).values(digest=digest, at=now))
        return True

    async def failures(self, account: bytes) -> Failures | None:
        """The record of failed sign-ins to the account with this digest, or None."""
        row = await self._one(sa.select(FAILURES).where(FAILURES.c.account == account))
        return None if row is None else Failures(**row)

    async def put_failures(self, failures: Failures) -> None:
        """Store the record of an account, in place of the one before."""
        await self.drop_failures(account=failures.account)
        await self._run(sa.insert(FAILURES).values(asdict(failures)))

    async def drop_failures(self, *, account: bytes = b"", last_before: int = 0) -> None:
        """Delete the record of the account with this digest, and all whose last failure was before ``last_before``
        (POSIX seconds). With the default of one argument only the other selects."""
        await self._run(sa.delete(FAILURES).where((FAILURES.c.account == account) | (FAILURES.c.last < last_before)))


class PasskeysTx(Rows):
    """The part of a transaction that passkeys use."""

    async def passkeys(self, person_id: str) -> Sequence[Passkey]:
        """The person's passkeys, the oldest first."""
        query = sa.select(PASSKEYS).where(PASSKEYS.c.person == person_id).order_by(PASSKEYS.c.created, PASSKEYS.c.id)
        return [Passkey(**row) for row in await self._all(query)]

    async def passkey(self, passkey_id: bytes) -> Passkey | None:
        """The passkey with this credential id, whosever it is; None if there is none."""
        row = await self._one(sa.select(PASSKEYS).where(PASSKEYS.c.id == passkey_id))
        return None if row is None else Passkey(**row)

    async def add_passkey(self, passkey: Passkey) -> None:
        """Store a new passkey. Raises ``IntegrityError`` if anybody has one of its id."""
        await self._run(sa.insert(PASSKEYS).values(asdict(passkey)))

    async def put_passkey(self, passkey: Passkey) -> None:
        """Replace the passkey with the same id."""
        await self._run(sa.update(PASSKEYS).where(PASSKEYS.c.id == passkey.id).values(asdict(passkey)))

    async def drop_passkey(self, person_id: str, passkey_id: bytes) -> bool:
        """Delete a person's passkey. Returns whether there was one."""
        named = (PASSKEYS.c.id == passkey_id) & (PASSKEYS.c.person == person_id)
        return await self._run(sa.delete(PASSKEYS).where(named)) == 1

    async def challenge(self, challenge: bytes) -> Challenge | None:
        """The record of this challenge, which may have expired and be another person's; None once it is used or
        replaced."""
        row = await self._one(sa.select(CHALLENGES).where(CHALLENGES.c.challenge == challenge))
        return None if row is None else Challenge(**row)

    async def add_challenge(self, challenge: Challenge) -> None:
        """Store a challenge beside those that there are. Raises ``IntegrityError`` if the same one is stored."""
        await self._run(sa.insert(CHALLENGES).values(asdict(challenge)))

    async def drop_challenges(self, *, person_id: str, expired_at: int) -> bool:
        """Delete the person's challenges and all that have expired. Returns whether there was any."""
        over = (CHALLENGES.c.person == person_id) | (CHALLENGES.c.expires <= expired_at)
        return await self._run(sa.delete(CHALLENGES).where(over)) > 0


class AdminTx(QuestionsTx, PeopleTx, PasskeysTx, ConsentTx):
    """A transaction: the parts above, the answers that repeated requests use, and the audit log."""

    async def answer(self, key: bytes) -> Answer | None:
        """The answer given under this digest of person and ``Idempotency-Key``; None before, and once it is dropped."""
        row = await self._one(sa.select(ANSWERS).where(ANSWERS.c.key == key))
        return None if row is None else Answer(**row)

    async def add_answer(self, answer: Answer) -> None:
        """Store an answer with the audit row of its act. Raises ``IntegrityError`` if there is one under its key."""
        await self._run(sa.insert(ANSWERS).values(asdict(answer)))

    async def drop_answers(self, before: int) -> int:
        """Delete the answers given before a POSIX second. Returns how many there were."""
        return await self._run(sa.delete(ANSWERS).where(ANSWERS.c.at < before))

    async def last_act(self) -> AuditRow | None:
        """The newest row of the audit log, to which the next one is chained; None while the log is empty."""
        row = (await self._connection.execute(_ROW.order_by(AUDIT.c.number.desc()).limit(1))).first()
        return None if row is None else _audit_row(row)

    async def newest_of(self, what: str) -> AuditRow | None:
        """The newest row with this kind of act, whatever its outcome; None if there is none."""
        query = _ROW.where(AUDIT.c.what == what).order_by(AUDIT.c.number.desc()).limit(1)
        row = (await self._connection.execute(query)).first()
        return None if row is None else _audit_row(row)

    async def add_act(self, row: AuditRow) -> None:
        """Append a row with its hash, which the caller has computed. Raises ``IntegrityError`` if its number is
        taken."""
        values = {"number": row.number, "previous": row.previous, "hash": row.hash, **asdict(row.act)}
        await self._run(sa.insert(AUDIT).values(values))

    async def acts(self, after: int, limit: int) -> Sequence[AuditRow]:
        """At most ``limit`` rows after number ``after``, in order."""
        query = _ROW.where(AUDIT.c.number > after).order_by(AUDIT.c.number).limit(limit)
        return [_audit_row(row) for row in await self._connection.execute(query)]

    async def done_to(self, target: str, whats: Sequence[str], limit: int) -> Sequence[AuditRow]:
        """The newest ``limit`` rows with acts of these kinds that were done to ``target``, in order."""
        done = _ROW.where(AUDIT.c.target == target, AUDIT.c.what.in_(whats), AUDIT.c.outcome == DONE)
        rows = await self._connection.execute(done.order_by(AUDIT.c.number.desc()).limit(limit))
        return [_audit_row(row) for row in reversed(rows.all())]


def _taken(table: sa.Table, values: Sequence[Any]) -> dict[str, Any]:
    """The first of ``values``, by the names of the table's columns."""
    return dict(zip(table.c.keys(), values, strict=False))


def _audit_row(row: Sequence[Any]) -> AuditRow:
    number, previous, own, *act = row
    return AuditRow(number, previous, Act(*act), own)


class AdminStore(DatabaseStore):
    """The admin service's database: questions, people, how they sign in, given answers, and the audit log."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AdminTx]:
        """A transaction that commits everything in the block, or nothing. Every transaction is durable, because nothing
        here may be lost."""
        async with self._database.transaction() as connection:
            yield AdminTx(connection)
            await self._database.spend(connection)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AdminTx]:
        """A read transaction: one consistent view of the database."""
        async with self._database.read() as connection:
            yield AdminTx(connection)
