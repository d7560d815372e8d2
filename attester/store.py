"""What the attester stores: used challenges, the debit of every (device, slot), and counts by slot.

A debit, the use of its challenge, and the count of the request that follows commit in one transaction, before anything
goes to the issuer. Writes are grouped; inside a group the order of arrival decides.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from attester.schema import (
    CHALLENGE_FLOOR,
    ISSUANCE,
    METADATA,
    MIGRATIONS,
    OF_CHALLENGES,
    OF_QUOTAS,
    QUOTAS,
    USED_CHALLENGES,
)
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.stored import DatabaseStore
from tacit.adapters.databases.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Debit:
    """A device's request for its token of one slot, with a challenge that it answered in time.

    ``challenge_expires`` is the POSIX second in which the challenge expires; ``expires`` is the POSIX second after
    which the quota's row may be deleted.
    """

    challenge: bytes = field(repr=False)
    challenge_expires: int
    stable_id: bytes = field(repr=False)
    epoch: int
    slot: int
    request_hash: bytes = field(repr=False)
    expires: int

    @property
    def place(self) -> tuple[int, int]:
        """The epoch and the slot of the token."""
        return (self.epoch, self.slot)

    @property
    def quota(self) -> tuple[bytes, int, int]:
        """(stable id, epoch, slot): the key for which there is one token."""
        return (self.stable_id, self.epoch, self.slot)


class DebitResult(enum.Enum):
    """The outcome of a debit against a device's quota."""

    GRANTED = "granted"  # granted, now or before, for this very request: forward it
    EXHAUSTED = "exhausted"  # the device already sent another request for this slot
    FORGOTTEN = "forgotten"  # the slot is closed: the record of which devices had its tokens may have been deleted
    CHALLENGE_USED = (
        "challenge-used"  # the challenge was used before, or expired so long ago that its record may have been deleted
    )


@dataclass(frozen=True, slots=True)
class Issued:
    """Totals of one slot (P15), which never decrease. ``devices`` counts the devices whose token was debited,
    ``requested`` the requests that were released to the issuer (a repeated request counts again), ``answered`` the
    tokens that the issuer returned and that were passed on."""

    devices: int = 0
    requested: int = 0
    answered: int = 0


class AttesterStore(DatabaseStore):
    """Used challenges, quotas and counts. Every method is one transaction, durable when it returns."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    async def debit(self, debits: Sequence[Debit]) -> list[DebitResult]:
        """Burn each challenge, take each quota, and count what is granted, in this order and in one transaction. The
        results are in the order of ``debits``."""
        async with self._database.transaction() as connection:
            burnt = await self._burn(connection, debits)
            floor = await _floor(connection, OF_QUOTAS)
            outcomes: list[DebitResult] = []
            paying: list[Debit] = []
            for one in debits:
                if one.challenge in burnt:
                    burnt.remove(one.challenge)
                    if one.expires > floor:
                        paying.append(one)
                    outcomes.append(DebitResult.GRANTED if one.expires > floor else DebitResult.FORGOTTEN)
                else:
                    outcomes.append(DebitResult.CHALLENGE_USED)
            fresh, holders = await self._take(connection, paying)
            for position, one in enumerate(debits):
                if outcomes[position] is DebitResult.GRANTED and holders[one.quota] != one.request_hash:
                    outcomes[position] = DebitResult.EXHAUSTED
            granted = [one for one, outcome in zip(debits, outcomes, strict=True) if outcome is DebitResult.GRANTED]
            requested = Counter(one.place for one in granted)
            await self._add(connection, {place: Issued(fresh[place], count) for place, count in requested.items()})
            await self._database.spend(connection)
        return outcomes

    async def _burn(self, connection: AsyncConnection, debits: Sequence[Debit]) -> set[bytes]:
        """The challenges that nobody used before. The floor is read after the insert: a process that deleted the row of
        one of them in the meantime has raised the floor by then."""
        rows = {one.challenge: {"challenge": one.challenge, "expires": one.challenge_expires} for one in debits}
        insert = self._database.dialect.upsert(USED_CHALLENGES).values(list(rows.values())).on_conflict_do_nothing()
        added = await connection.execute(insert.returning(USED_CHALLENGES.c.challenge, USED_CHALLENGES.c.expires))
        fresh = {row.challenge: int(row.expires) for row in added}
        floor = await _floor(connection, OF_CHALLENGES)
        return {challenge for challenge, expires in fresh.items() if expires > floor}

    async def _take(
        self, connection: AsyncConnection, debits: Sequence[Debit]
    ) -> tuple[Counter[tuple[int, int]], dict[tuple[bytes, int, int], bytes]]:
        """Insert rows for free quotas. Returns the number of new rows by (epoch, slot), and the hash of the request
        that holds each quota."""
        if not debits:
            return Counter(), {}
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
        insert = self._database.dialect.upsert(QUOTAS).values(rows).on_conflict_do_nothing()
        added = await connection.execute(insert.returning(QUOTAS.c.epoch, QUOTAS.c.slot))
        fresh = Counter((epoch, slot) for epoch, slot in added)
        key = sa.tuple_(QUOTAS.c.stable_id, QUOTAS.c.epoch, QUOTAS.c.slot)
        statement = sa.select(QUOTAS.c.stable_id, QUOTAS.c.epoch, QUOTAS.c.slot, QUOTAS.c.request_hash)
        held = await connection.execute(statement.where(key.in_([one.quota for one in debits])))
        return fresh, {(stable, epoch, slot): request_hash for stable, epoch, slot, request_hash in held}

    async def add_answered(self, answered: Mapping[tuple[int, int], int]) -> None:
        """Add the numbers of tokens, by (epoch, slot), that the issuer returned."""
        async with self._database.transaction() as connection:
            await self._add(connection, {place: Issued(answered=count) for place, count in answered.items()})

    async def _add(self, connection: AsyncConnection, more: Mapping[tuple[int, int], Issued]) -> None:
        if not more:
            return
        rows = [{"epoch": epoch, "slot": slot, **asdict(counts)} for (epoch, slot), counts in more.items()]
        added = self._database.dialect.upsert(ISSUANCE)
        sums = {name: ISSUANCE.c[name] + added.excluded[name] for name in ("devices", "requested", "answered")}
        await connection.execute(
            added.on_conflict_do_update(index_elements=[ISSUANCE.c.epoch, ISSUANCE.c.slot], set_=sums), rows
        )

    async def forget(self, now: float) -> int:
        """Delete the rows that ended by ``now``. Returns the floor in POSIX seconds, at or below which no challenge is
        accepted any more: the latest end among all rows that were ever deleted, stored together with the deletion.
        Quotas have a floor of their own."""
        dialect = self._database.dialect
        async with self._database.transaction() as connection:
            floor = await _forget(connection, dialect, USED_CHALLENGES, OF_CHALLENGES, now)
            await _forget(connection, dialect, QUOTAS, OF_QUOTAS, now)
        return floor

    async def issuance(self) -> dict[tuple[int, int], Issued]:
        """Totals so far, by (epoch, slot)."""
        columns = ISSUANCE.c
        statement = sa.select(columns.epoch, columns.slot, columns.devices, columns.requested, columns.answered)
        async with self._database.read() as connection:
            rows = await connection.execute(statement.order_by(columns.epoch, columns.slot))
            return {(epoch, slot): Issued(*counts) for epoch, slot, *counts in rows}


async def _floor(connection: AsyncConnection, of: int) -> int:
    return int(await connection.scalar(sa.select(CHALLENGE_FLOOR.c.expires).where(CHALLENGE_FLOOR.c.only == of)) or 0)


async def _forget(connection: AsyncConnection, dialect: Dialect, table: sa.Table, of: int, now: float) -> int:
    """Delete the rows of ``table`` that ended by ``now``; returns the latest end among all rows that were ever
    deleted."""
    ended = table.c.expires <= now
    latest = await connection.scalar(sa.select(sa.func.max(table.c.expires)).where(ended))
    floor = await _floor(connection, of)
    if latest is None:
        return floor
    floor = max(floor, int(latest))
    raised = dialect.upsert(CHALLENGE_FLOOR).values(only=of, expires=floor)
    keys = [CHALLENGE_FLOOR.c.only]
    await connection.execute(
        raised.on_conflict_do_update(index_elements=keys, set_={"expires": raised.excluded.expires})
    )
    await connection.execute(sa.delete(table).where(table.c.expires <= floor))
    return floor
