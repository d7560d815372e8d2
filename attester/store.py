"""What the attester keeps: challenges that wait, and the debit of every (device, slot).

A debit and the end of its challenge commit in one transaction, before anything goes to the issuer. Writes come
in groups; inside a group the order of arrival decides.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from attester.schema import CHALLENGES, METADATA, MIGRATIONS, QUOTAS
from tacit.adapters.sql import Database
from tacit.adapters.upsert import upsert


@dataclass(frozen=True, slots=True)
class NewChallenge:
    """A challenge (32 bytes) and the POSIX second in which it ends."""

    challenge: bytes = field(repr=False)
    expires: int


@dataclass(frozen=True, slots=True)
class Debit:
    """One device asks for its token of one slot, with a challenge that it answered before ``now``.

    ``expires`` is the POSIX second after which the row may be forgotten.
    """

    challenge: bytes = field(repr=False)
    now: float
    stable_id: bytes = field(repr=False)
    epoch: int
    slot: int
    request_hash: bytes = field(repr=False)
    expires: int

    @property
    def quota(self) -> tuple[bytes, int, int]:
        """What there is one token of."""
        return (self.stable_id, self.epoch, self.slot)


class Outcome(enum.Enum):
    """What became of a debit."""

    GRANTED = "granted"  # this request, now or before: forward it
    EXHAUSTED = "exhausted"  # the device had another request for this slot
    CHALLENGE_USED = "challenge-used"  # the challenge was used, ended or never given


class AttesterStore:
    """The attester's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, url: str) -> AttesterStore:
        """Open and migrate. Raises what ``Database.open`` raises."""
        return cls(await Database.open(url, METADATA, MIGRATIONS))

    async def close(self) -> None:
        """Close the database."""
        await self._database.close()

    async def add_challenges(self, challenges: Sequence[NewChallenge]) -> list[None]:
        """Store fresh challenges."""
        rows = [{"challenge": one.challenge, "expires": one.expires} for one in challenges]
        async with self._database.transaction() as connection:
            await connection.execute(sa.insert(CHALLENGES), rows)
        return [None] * len(rows)

    async def challenges_known(self, challenges: Sequence[bytes]) -> list[int | None]:
        """For each challenge the second in which it ends, or None where it is not waiting."""
        statement = sa.select(CHALLENGES.c.challenge, CHALLENGES.c.expires)
        async with self._database.read() as connection:
            rows = await connection.execute(statement.where(CHALLENGES.c.challenge.in_(set(challenges))))
            expires = {row.challenge: int(row.expires) for row in rows}
        return [expires.get(challenge) for challenge in challenges]

    async def debit(self, debits: Sequence[Debit]) -> list[Outcome]:
        """Burn each challenge and take each quota, all in one transaction."""
        async with self._database.transaction() as connection:
            burnt = await self._burn(connection, debits)
            outcomes: list[Outcome] = []
            paying: list[Debit] = []
            for one in debits:
                if burnt.get(one.challenge, float("-inf")) > one.now:
                    del burnt[one.challenge]
                    paying.append(one)
                    outcomes.append(Outcome.GRANTED)
                else:
                    outcomes.append(Outcome.CHALLENGE_USED)
            holders = await self._take(connection, paying)
        for position, one in enumerate(debits):
            if outcomes[position] is Outcome.GRANTED and holders[one.quota] != one.request_hash:
                outcomes[position] = Outcome.EXHAUSTED
        return outcomes

    @staticmethod
    async def _burn(connection: AsyncConnection, debits: Sequence[Debit]) -> dict[bytes, int]:
        statement = sa.delete(CHALLENGES).where(CHALLENGES.c.challenge.in_({one.challenge for one in debits}))
        rows = await connection.execute(statement.returning(CHALLENGES.c.challenge, CHALLENGES.c.expires))
        return {row.challenge: int(row.expires) for row in rows}

    @staticmethod
    async def _take(connection: AsyncConnection, debits: Sequence[Debit]) -> dict[tuple[bytes, int, int], bytes]:
        """Insert where there is no row yet; returns whose request holds each quota."""
        if not debits:
            return {}
        rows = [
            {
                "stable_id": one.stable_id,
                "epoch": one.epoch,
                "slot": one.slot,
                "request_hash": one.request_hash,
                "expires": one.expires,
            }
            for one in debits
        ]
        await connection.execute(upsert(connection, QUOTAS).on_conflict_do_nothing(), rows)
        key = sa.tuple_(QUOTAS.c.stable_id, QUOTAS.c.epoch, QUOTAS.c.slot)
        statement = sa.select(QUOTAS.c.stable_id, QUOTAS.c.epoch, QUOTAS.c.slot, QUOTAS.c.request_hash)
        held = await connection.execute(statement.where(key.in_([one.quota for one in debits])))
        return {(stable, epoch, slot): request_hash for stable, epoch, slot, request_hash in held}

    async def forget(self, now: float) -> int:
        """Delete what ended before ``now``; returns how many challenges still wait."""
        async with self._database.transaction() as connection:
            await connection.execute(sa.delete(CHALLENGES).where(CHALLENGES.c.expires <= now))
            await connection.execute(sa.delete(QUOTAS).where(QUOTAS.c.expires <= now))
            count = await connection.execute(sa.select(sa.func.count()).select_from(CHALLENGES))
            return count.scalar_one()

    async def debits_by_slot(self) -> dict[tuple[int, int], int]:
        """How many devices took their token, by (epoch, slot)."""
        statement = sa.select(QUOTAS.c.epoch, QUOTAS.c.slot, sa.func.count())
        async with self._database.read() as connection:
            rows = await connection.execute(statement.group_by(QUOTAS.c.epoch, QUOTAS.c.slot))
            return {(epoch, slot): count for epoch, slot, count in rows}
