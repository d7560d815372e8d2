"""The agent's state in one SQLite file of mode 0600."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from client_agent.journal import DRAWN_TWICE, ENTRY_STATES, Entry, Fact, Prefetch, SeriesDraw, State
from tacit.adapters.database import Database
from tacit.adapters.dialect import Dialect
from tacit.adapters.sql import glance_at, open_database
from tacit.adapters.watermark import Watermark
from tacit.errors import Fatal, Unavailable
from tacit.tokens.slots import Slot

METADATA = sa.MetaData()
MIGRATIONS = "client_agent.migrations"

FACTS = sa.Table(
    "facts",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
PREFETCHES = sa.Table(
    "prefetches",
    METADATA,
    sa.Column("issuer", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("due_at", sa.Float, nullable=False),
    sa.Column("key_id", sa.LargeBinary, nullable=False),
    sa.Column("preimages", sa.LargeBinary, nullable=False),
    sa.Column("pending", sa.LargeBinary, nullable=False),
    sa.Column("token", sa.LargeBinary, nullable=False),
    sa.Column("spent", sa.Boolean, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
)
ENTRIES = sa.Table(
    "entries",
    METADATA,
    sa.Column("recipe_hash", sa.LargeBinary, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("decided_at", sa.Float, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("charged_epsilon", sa.Text, nullable=False),
    sa.Column("charged_delta", sa.Text, nullable=False, server_default=sa.text("''")),
    sa.Column("charged_with_relay", sa.Text, nullable=False, server_default=sa.text("''")),
    sa.Column("charged_until", sa.Float, nullable=False, server_default=sa.text("0")),
    sa.Column("issuer", sa.Text),
    sa.Column("epoch", sa.Integer),
    sa.Column("slot", sa.Integer),
    sa.Column("series_hash", sa.LargeBinary, nullable=False, server_default=sa.text("x''")),
    sa.Column("series_index", sa.Integer),
    sa.Column("send_at", sa.Float, nullable=False),
    sa.Column("deadline", sa.Float, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False, server_default=sa.text("'secure-aggregation'")),
    sa.Column("report", sa.LargeBinary, nullable=False),
)
SERIES = sa.Table(
    "series",
    METADATA,
    sa.Column("series_hash", sa.LargeBinary, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("drawn_at", sa.Float, nullable=False),
    sa.Column("first_round", sa.Integer, nullable=False),
    sa.Column("chosen_round", sa.Integer),
)


class SqlAgentStore:
    """``client_agent.journal.AgentStore`` over a database; close it with ``close``."""

    errors: ClassVar[tuple[type[Exception], ...]] = (Unavailable, sa.exc.SQLAlchemyError)

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, url: str, mark: Watermark | None = None) -> SqlAgentStore:
        """Open or create the database behind ``url``, which is at least as new as ``mark`` says (P32). Raises
        ``UsageError`` or ``Fatal``."""
        return cls(await open_database(url, METADATA, MIGRATIONS, mark=mark))

    @classmethod
    def look(cls, url: str) -> SqlAgentStore:
        """The store of an agent that may be at work, to be read as it is. Where an older version made it, reading
        raises ``sqlalchemy.exc.OperationalError``."""
        return cls(glance_at(url))

    async def close(self) -> None:
        """Write everything out and close."""
        await self._database.close()

    async def fact(self, fact: Fact) -> bytes:
        """See ``AgentStore``."""
        async with self._database.read() as connection:
            content: bytes | None = await connection.scalar(sa.select(FACTS.c.content).where(FACTS.c.name == fact))
        return content or b""

    async def keep(self, facts: Mapping[Fact, bytes]) -> None:
        """See ``AgentStore``."""
        async with self._database.transaction() as connection:
            for name, content in facts.items():
                await _upsert(connection, self._database.dialect, FACTS, {"name": name.value, "content": content})

    async def prefetches(self) -> list[Prefetch]:
        """See ``AgentStore``."""
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(PREFETCHES).order_by(*PREFETCHES.primary_key))
            return [_prefetch(row) for row in rows]

    async def put_prefetch(self, prefetch: Prefetch) -> None:
        """See ``AgentStore``."""
        async with self._database.transaction() as connection:
            await _upsert(connection, self._database.dialect, PREFETCHES, _values(prefetch))

    async def forget(self, before: int) -> None:
        """See ``AgentStore``."""
        async with self._database.transaction() as connection:
            await connection.execute(sa.delete(PREFETCHES).where(PREFETCHES.c.epoch < before))
            spent = sa.update(PREFETCHES).where(PREFETCHES.c.spent.is_(True), PREFETCHES.c.token != b"")
            await connection.execute(spent.values(token=b"", preimages=b"", pending=b""))

    async def entries(self) -> list[Entry]:
        """See ``AgentStore``."""
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.decided_at))
            return [_entry(row) for row in rows]

    async def decide(self, entry: Entry, spend: Slot | None = None, draw: SeriesDraw | None = None) -> bool:
        """See ``AgentStore``."""
        async with self._database.transaction() as connection:
            known = sa.select(ENTRIES.c.name).where(ENTRIES.c.recipe_hash == entry.recipe_hash)
            if (await connection.execute(known)).first() is not None:
                return False
            ENTRY_STATES.check(None, entry.state)
            if draw is not None:
                drawn = self._database.dialect.upsert(SERIES).values(asdict(draw)).on_conflict_do_nothing()
                if (await connection.execute(drawn)).rowcount != 1:
                    raise Fatal(DRAWN_TWICE)
            if spend is not None:
                taken = await connection.execute(
                    sa.update(PREFETCHES)
                    .where(
                        PREFETCHES.c.issuer == spend.issuer,
                        PREFETCHES.c.epoch == spend.epoch,
                        PREFETCHES.c.slot == spend.slot,
                        PREFETCHES.c.token != b"",
                        PREFETCHES.c.spent.is_(False),
                    )
                    .values(spent=True)
                )
                if taken.rowcount != 1:
                    raise Fatal("the token of the recipe's slot is missing or was used before")
            await connection.execute(sa.insert(ENTRIES).values(_entry_values(entry)))
            await self._database.spend(connection)
        return True

    async def draw(self, series_hash: bytes) -> SeriesDraw | None:
        """See ``AgentStore``."""
        async with self._database.read() as connection:
            found = await connection.execute(sa.select(SERIES).where(SERIES.c.series_hash == series_hash))
            row = found.first()
        return None if row is None else SeriesDraw(**row._asdict())

    async def update(self, entry: Entry) -> None:
        """See ``AgentStore``."""
        async with self._database.transaction() as connection:
            same = ENTRIES.c.recipe_hash == entry.recipe_hash
            movable = ENTRIES.c.state.in_(ENTRY_STATES.names_before(entry.state))
            moved = await connection.execute(sa.update(ENTRIES).where(same, movable).values(_entry_values(entry)))
            if moved.rowcount != 1:
                raise Fatal(f"no entry of this recipe can become {entry.state}")


async def _upsert(connection: AsyncConnection, dialect: Dialect, table: sa.Table, values: dict[str, Any]) -> None:
    keys = [column.name for column in table.primary_key]
    statement = dialect.upsert(table).values(values)
    changes = {name: statement.excluded[name] for name in values if name not in keys}
    await connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes))


def _slot_values(slot: Slot | None) -> dict[str, Any]:
    if slot is None:
        return {"issuer": None, "epoch": None, "slot": None}
    return {"issuer": slot.issuer, "epoch": slot.epoch, "slot": slot.slot}


def _values(item: Prefetch | Entry) -> dict[str, Any]:
    return {f.name: getattr(item, f.name) for f in fields(item)} | _slot_values(item.slot)


def _parts(row: Any) -> dict[str, Any]:
    values: dict[str, Any] = row._asdict()
    issuer, epoch, slot = (values.pop(name) for name in ("issuer", "epoch", "slot"))
    return values | {"slot": None if issuer is None else Slot(issuer, epoch, slot)}


def _prefetch(row: Any) -> Prefetch:
    return Prefetch(**_parts(row))


def _entry_values(entry: Entry) -> dict[str, Any]:
    return _values(entry) | {"state": entry.state.value}


def _entry(row: Any) -> Entry:
    values = _parts(row)
    return Entry(**(values | {"state": State(values["state"])}))
