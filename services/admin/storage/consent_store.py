"""Changes of approvers and administrators, and the consent rule, as rows of the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import sqlalchemy as sa

from services.admin.storage.records import Change, KeptRule
from services.admin.storage.rows import Rows
from services.admin.storage.schema import CHANGES, CONSENT_RULE


class ConsentTx(Rows):
    """The part of a transaction that changes which need consent use."""

    async def changes(self) -> Sequence[Change]:
        """All stored changes in the order in which they were asked for, past ones too until they are dropped."""
        return [Change(**row) for row in await self._all(sa.select(CHANGES).order_by(CHANGES.c.asked, CHANGES.c.id))]

    async def change(self, change_id: str) -> Change | None:
        row = await self._one(sa.select(CHANGES).where(CHANGES.c.id == change_id))
        return None if row is None else Change(**row)

    async def put_change(self, change: Change) -> None:
        """Store the change; it replaces the row of the same id."""
        await self.drop_change(change.id)
        await self._run(sa.insert(CHANGES).values(asdict(change)))

    async def drop_change(self, change_id: str) -> bool:
        """Delete a change. Returns whether there was one."""
        return await self._run(sa.delete(CHANGES).where(CHANGES.c.id == change_id)) == 1

    async def drop_past_changes(self, now: int) -> None:
        """Delete the changes that nobody consented to by ``now`` (POSIX seconds), and those that count by then."""
        waits = CHANGES.c.counts_from == 0
        over = sa.or_(sa.and_(waits, CHANGES.c.expires <= now), sa.and_(~waits, CHANGES.c.counts_from <= now))
        await self._run(sa.delete(CHANGES).where(over))

    async def kept_rule(self) -> KeptRule | None:
        """The rule that ``put_rule`` stored last; None in a new database."""
        row = await self._one(sa.select(CONSENT_RULE))
        return None if row is None else KeptRule(**row)

    async def put_rule(self, rule: KeptRule) -> None:
        """Store the only rule, in place of the one before."""
        await self._run(sa.delete(CONSENT_RULE))
        await self._run(sa.insert(CONSENT_RULE).values(asdict(rule)))
