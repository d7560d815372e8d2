"""The issuer's store: keys until their epoch is over, one directory leaf per epoch for ever, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from services.issuer.schema import DIRECTORIES, ISSUANCE, METADATA, MIGRATIONS, SLOT_KEYS
from tacit.adapters.databases.stored import DatabaseStore
from tacit.adapters.databases.watermark import Watermark


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One slot's private key (PKCS#8 DER)."""

    epoch: int
    slot: int
    private_key: bytes = field(repr=False)


class IssuerStore(DatabaseStore):
    """Keys, one directory leaf per epoch, and counts. Every method is one transaction, durable when it returns."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    async def keys(self) -> list[StoredKey]:
        """Every key that is not yet destroyed, by epoch and slot."""
        statement = sa.select(SLOT_KEYS.c.epoch, SLOT_KEYS.c.slot, SLOT_KEYS.c.private_key)
        async with self._database.read() as connection:
            rows = await connection.execute(statement.order_by(SLOT_KEYS.c.epoch, SLOT_KEYS.c.slot))
            return [StoredKey(*row) for row in rows]

    async def epochs(self) -> set[int]:
        """Every epoch whose keys were ever made: those of the directories, which are kept for ever."""
        async with self._database.read() as connection:
            return set((await connection.execute(sa.select(DIRECTORIES.c.epoch))).scalars())

    async def epochs_at(self, log_index: int) -> frozenset[int]:
        """The epochs whose leaf has exactly this log index recorded, or what stands in place of one (``NOT_OURS``)."""
        statement = sa.select(DIRECTORIES.c.epoch).where(DIRECTORIES.c.log_index == log_index)
        async with self._database.read() as connection:
            return frozenset((await connection.execute(statement)).scalars())

    async def add_epoch(self, epoch: int, keys: Sequence[StoredKey], leaf: bytes) -> None:
        """Store an epoch's keys and its one directory leaf together. Raises ``IntegrityError`` for an epoch that has
        them. Counts as a write that must not be lost."""
        async with self._database.transaction() as connection:
            await connection.execute(sa.insert(DIRECTORIES).values(epoch=epoch, leaf=leaf))
            await connection.execute(
                sa.insert(SLOT_KEYS),
                [{"epoch": key.epoch, "slot": key.slot, "private_key": key.private_key} for key in keys],
            )
            await self._database.spend(connection)

    async def unpublished(self) -> tuple[int, bytes] | None:
        """The earliest epoch whose leaf the log has not acknowledged, with the leaf; or None."""
        statement = sa.select(DIRECTORIES.c.epoch, DIRECTORIES.c.leaf).where(DIRECTORIES.c.log_index.is_(None))
        async with self._database.read() as connection:
            row = (await connection.execute(statement.order_by(DIRECTORIES.c.epoch).limit(1))).first()
            return None if row is None else (row.epoch, row.leaf)

    async def leaf(self, epoch: int) -> bytes | None:
        """The encoded directory leaf of ``epoch``, whether or not the log has it; None if the epoch's keys were never
        made."""
        async with self._database.read() as connection:
            statement = sa.select(DIRECTORIES.c.leaf).where(DIRECTORIES.c.epoch == epoch)
            leaf: bytes | None = (await connection.execute(statement)).scalar()
            return leaf

    async def published(self, epoch: int, log_index: int) -> None:
        """Record that the log holds the leaf of ``epoch`` at ``log_index``."""
        async with self._database.transaction() as connection:
            statement = sa.update(DIRECTORIES).where(DIRECTORIES.c.epoch == epoch)
            await connection.execute(statement.values(log_index=log_index))

    async def destroy_before(self, epoch: int) -> int:
        """Delete the keys of earlier epochs; returns how many. Deleted rows are overwritten if the database does that.
        Counts as a write that must not be lost."""
        async with self._database.transaction() as connection:
            destroyed = (await connection.execute(sa.delete(SLOT_KEYS).where(SLOT_KEYS.c.epoch < epoch))).rowcount
            await self._database.spend(connection)
            return destroyed

    async def counts(self) -> dict[tuple[int, int], int]:
        """The issuance counts by (epoch, slot)."""
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(ISSUANCE.c.epoch, ISSUANCE.c.slot, ISSUANCE.c.count))
            return {(epoch, slot): count for epoch, slot, count in rows}

    async def add_counts(self, counts: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        """Add to the issuance counts by (epoch, slot); returns the new totals of these slots. Counts as a write that
        must not be lost."""
        rows = [{"epoch": epoch, "slot": slot, "count": count} for (epoch, slot), count in counts.items()]
        async with self._database.transaction() as connection:
            if rows:
                added = self._database.dialect.upsert(ISSUANCE)
                total = added.on_conflict_do_update(
                    index_elements=[ISSUANCE.c.epoch, ISSUANCE.c.slot],
                    set_={"count": ISSUANCE.c.count + added.excluded.count},
                )
                await connection.execute(total, rows)
            moved = sa.tuple_(ISSUANCE.c.epoch, ISSUANCE.c.slot).in_(list(counts))
            totals = await connection.execute(
                sa.select(ISSUANCE.c.epoch, ISSUANCE.c.slot, ISSUANCE.c.count).where(moved)
            )
            sums = {(epoch, slot): count for epoch, slot, count in totals}
            await self._database.spend(connection)
            return sums
