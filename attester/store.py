"""What the attester stores: used challenges, the debit of every (device, slot), and counts by slot.

A debit, the use of its challenge, and the count of the request that follows commit in one transaction, before anything
goes to the issuer. Writes are grouped; inside a group the order of arrival decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from attester.ports import Debit, DebitResult, Issued
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
from tacit.adapters.dialect import Dialect
from tacit.adapters.stored import DatabaseStore
from tacit.adapters.watermark import Watermark


class SqlAttesterStore(DatabaseStore):
    """``attester.ports.AttesterStore`` over a database."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    async def debit(self, debits: Sequence[Debit]) -> list[DebitResult]:
        """As in ``AttesterStore``. Challenges come first, then quotas, then counts."""
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
        """As in ``AttesterStore``, by INSERT ... ON CONFLICT."""
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
        """As in ``AttesterStore``. Challenges and quotas have separate floors."""
        dialect = self._database.dialect
        async with self._database.transaction() as connection:
            floor = await _forget(connection, dialect, USED_CHALLENGES, OF_CHALLENGES, now)
            await _forget(connection, dialect, QUOTAS, OF_QUOTAS, now)
        return floor

    async def issuance(self) -> dict[tuple[int, int], Issued]:
        """See ``AttesterStore.issuance``; reads one snapshot."""
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
