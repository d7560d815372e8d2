"""The looks at counts of filling batches, in SQL: what ``tacit.aggregator.filling`` requires of a transaction."""

from __future__ import annotations

from sqlalchemy import Table, select

from tacit.aggregator.filled import Look
from tacit.aggregator.outcomes import OutcomesTx


class LooksTx(OutcomesTx):
    """``tacit.aggregator.filling.LookTx`` beside the outcomes of the same database."""

    LOOKS: Table

    async def looks(self, task_id: bytes) -> list[Look]:
        table = self.LOOKS
        query = select(table.c.number, table.c.at, table.c.tenths).where(table.c.task_id == task_id)
        return [Look(*row) for row in await self.connection.execute(query.order_by(table.c.number))]

    async def keep_look(self, task_id: bytes, look: Look) -> None:
        self.spends = True  # noise must not be drawn again for a count that was already given out
        values = {"task_id": task_id, "number": look.number, "at": look.at, "tenths": look.tenths}
        await self.connection.execute(self.dialect.upsert(self.LOOKS).values(**values).on_conflict_do_nothing())
