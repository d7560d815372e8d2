"""The agent's state in one SQLite file of mode 0600."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Any, ClassVar

import sqlalchemy as sa

from client_agent.journal import DRAWN_TWICE, ENTRY_STATES, Entry, Fact, MemoryAgentStore, Prefetch, SeriesDraw, State
from tacit.adapters.databases.database import Database
from tacit.adapters.databases.dialect import Dialect
from tacit.adapters.databases.sql import glance_at, open_database
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal, Unavailable
from tacit.tokens.slots import Slot

METADATA = sa.MetaData()
MIGRATIONS = "client_agent.migrations"

FACTS = sa.Table(
    "facts",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
    info={
        "holds": (
            "single values: the last accepted state of the log, the gateway's keys, the issuer's directories"
            " of the epochs around now, present errors of the log or the data source"
        ),
        "kept": "replaced",
    },
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
    info={
        "holds": "key id, when to ask, preimages, pending blinded request, token, whether it is spent",
        "kept": (
            "token and secrets until the next reading of the log after they are spent, the row until the "
            "epoch before the current one"
        ),
    },
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
    info={
        "holds": (
            "decision, charged epsilon and until when it counts, series and index, slot, when and until when"
            " to send, in which model, the finished report"
        ),
        "kept": "the report until a server has stored it or it cannot be sent, the row always",
    },
)
SERIES = sa.Table(
    "series",
    METADATA,
    sa.Column("series_hash", sa.LargeBinary, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("drawn_at", sa.Float, nullable=False),
    sa.Column("first_round", sa.Integer, nullable=False),
    sa.Column("chosen_round", sa.Integer),
    info={
        "holds": (
            "when its round was drawn, the first round, with donation the chosen round or none; in one "
            "transaction with the first round's entry, which holds the charge"
        ),
        "kept": "always",
    },
)


class SqlAgentStore:
    """``client_agent.journal.AgentStore`` over a database; close it with ``close``."""

    errors: ClassVar[tuple[type[Exception], ...]] = (Unavailable, sa.exc.SQLAlchemyError)

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, url: str, mark: Watermark | None = None) -> SqlAgentStore:
        """Open or create the database behind ``url``, after checking that it is at least as new as ``mark`` says (P32).
        Raises ``UsageError`` or ``Fatal``."""
        return cls(await open_database(url, METADATA, MIGRATIONS, mark=mark, brief=True))

    @classmethod
    def look(cls, url: str) -> SqlAgentStore:
        """The store of an agent that may be at work, opened for reading as it is. If an older version made it, reading
        raises ``sqlalchemy.exc.OperationalError``."""
        return cls(glance_at(url))

    async def close(self) -> None:
        """Write everything out and close."""
        await self._database.close()

    async def contents(self) -> MemoryAgentStore:
        """The whole contents, in one snapshot."""
        async with self._database.read() as connection:
            facts = {row.name: row.content for row in await connection.execute(sa.select(FACTS))}
            rows = await connection.execute(sa.select(PREFETCHES).order_by(*PREFETCHES.primary_key))
            entries = await connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.decided_at))
            draws = await connection.execute(sa.select(SERIES))
            return MemoryAgentStore(
                {fact: facts[fact.value] for fact in Fact if fact.value in facts},
                [_prefetch(row) for row in rows],
                [_entry(row) for row in entries],
                [SeriesDraw(**row._asdict()) for row in draws],
            )

    async def fact(self, fact: Fact) -> bytes:
        """The value stored last under this name, or empty bytes."""
        async with self._database.read() as connection:
            content: bytes | None = await connection.scalar(sa.select(FACTS.c.content).where(FACTS.c.name == fact))
        return content or b""

    async def keep(self, facts: Mapping[Fact, bytes]) -> None:
        """Replace these values in one transaction."""
        async with self._database.transaction() as connection:
            rows = [{"name": name.value, "content": content} for name, content in facts.items()]
            await connection.execute(_upsert(self._database.dialect, FACTS), rows)

    async def prefetches(self) -> list[Prefetch]:
        """Every slot that this device knows of, by issuer, epoch and slot."""
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(PREFETCHES).order_by(*PREFETCHES.primary_key))
            return [_prefetch(row) for row in rows]

    async def put_prefetch(self, *prefetches: Prefetch) -> None:
        """Insert or update the rows of these slots in one transaction."""
        async with self._database.transaction() as connection:
            rows = [_values(prefetch) for prefetch in prefetches]
            await connection.execute(_upsert(self._database.dialect, PREFETCHES), rows)

    async def forget(self, before: int) -> None:
        """Delete the rows of epochs below ``before``, and empty those of spent tokens."""
        async with self._database.transaction() as connection:
            await connection.execute(sa.delete(PREFETCHES).where(PREFETCHES.c.epoch < before))
            spent = sa.update(PREFETCHES).where(PREFETCHES.c.spent.is_(True), PREFETCHES.c.token != b"")
            await connection.execute(spent.values(token=b"", preimages=b"", pending=b""))

    async def entries(self) -> list[Entry]:
        """The whole journal, oldest first."""
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.decided_at))
            return [_entry(row) for row in rows]

    async def decide(self, entry: Entry, spend: Slot | None = None, draw: SeriesDraw | None = None) -> bool:
        """Write a recipe's first entry, its draw and the mark on its token in one transaction; False if the recipe
        already has an entry. Raises ``Fatal`` if the token was used before or the series already has a draw."""
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
        """The stored draw for a series, or None."""
        async with self._database.read() as connection:
            found = await connection.execute(sa.select(SERIES).where(SERIES.c.series_hash == series_hash))
            row = found.first()
        return None if row is None else SeriesDraw(**row._asdict())

    async def update(self, entry: Entry) -> None:
        """Move an entry along ``ENTRY_STATES``, in the statement that checks its state. Raises ``Fatal`` for any other
        move."""
        async with self._database.transaction() as connection:
            same = ENTRIES.c.recipe_hash == entry.recipe_hash
            movable = ENTRIES.c.state.in_(ENTRY_STATES.names_before(entry.state))
            moved = await connection.execute(sa.update(ENTRIES).where(same, movable).values(_entry_values(entry)))
            if moved.rowcount != 1:
                raise Fatal(f"no entry of this recipe can become {entry.state}")


@cache
def _upsert(dialect: Dialect, table: sa.Table) -> sa.Insert:
    """The statement that inserts or replaces whole rows of ``table``."""
    keys = [column.name for column in table.primary_key]
    statement = dialect.upsert(table)
    changes = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changes)


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
