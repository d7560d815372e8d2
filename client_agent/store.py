"""The agent's state in one SQLite file of mode 0600."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from client_agent.journal import (
    DRAWN_TWICE,
    ENTRY_STATES,
    UNCHARGED,
    Entry,
    Fact,
    MemoryAgentStore,
    Prefetch,
    SeriesDraw,
    State,
)
from client_agent.schema import bring_up
from tacit.adapters.databases.sqlite_file import BriefFile, create_private, still_there
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Fatal, Unavailable
from tacit.tokens.slots import Slot


def _columns(kind: type[Any]) -> tuple[str, ...]:
    """The columns of a table whose rows are ``kind``: its fields, the slot in three parts."""
    parts = (("issuer", "epoch", "slot") if field.name == "slot" else (field.name,) for field in fields(kind))
    return tuple(chain.from_iterable(parts))


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)})"


def _changes(columns: Sequence[str], values: str) -> str:
    return ", ".join(f"{name} = {values}{name}" for name in columns)


_PREFETCH, _ENTRY, _DRAW = _columns(Prefetch), _columns(Entry), _columns(SeriesDraw)
# ruff: noqa: S608 - statements of own names
_READ_FACTS = "SELECT name, content FROM facts"
_READ_PREFETCHES = f"SELECT {', '.join(_PREFETCH)} FROM prefetches ORDER BY issuer, epoch, slot"
_READ_ENTRIES = f"SELECT {', '.join(_ENTRY)} FROM entries ORDER BY decided_at"
_READ_SERIES = f"SELECT {', '.join(_DRAW)} FROM series"
_KEEP_FACT = f"{_insert('facts', ('name', 'content'))} ON CONFLICT (name) DO UPDATE SET content = excluded.content"
_PUT_PREFETCH = (
    f"{_insert('prefetches', _PREFETCH)} ON CONFLICT (issuer, epoch, slot) DO UPDATE SET "
    f"{_changes(_PREFETCH, 'excluded.')}"
)
_FORGET = "DELETE FROM prefetches WHERE epoch < ?"
_EMPTY_SPENT = "UPDATE prefetches SET token = x'', preimages = x'', pending = x'' WHERE spent AND token != x''"
_IS_DECIDED = "SELECT 1 FROM entries WHERE recipe_hash = ?"
_IS_DRAWN = "SELECT 1 FROM series WHERE series_hash = ?"
_PUT_DRAW = f"{_insert('series', _DRAW)} ON CONFLICT DO NOTHING"
_SPEND = (
    "UPDATE prefetches SET spent = 1 "
    "WHERE issuer = :issuer AND epoch = :epoch AND slot = :slot AND token != x'' AND NOT spent"
)
_DECIDE = _insert("entries", _ENTRY)
_UPDATE = f"UPDATE entries SET {_changes(_ENTRY, ':')} WHERE recipe_hash = :recipe_hash AND state IN "


class SqlAgentStore:
    """``client_agent.journal.AgentStore`` over a file; close it with ``close``."""

    errors: ClassVar[tuple[type[Exception], ...]] = (Unavailable, sqlite3.Error)

    def __init__(self, file: BriefFile) -> None:
        self._file = file

    @classmethod
    async def open(cls, path: Path, mark: Watermark | None = None) -> SqlAgentStore:
        """Open or create the database ``path``, after checking that it is at least as new as ``mark`` says (P32).
        Raises ``UsageError`` or ``Fatal``."""
        create_private(path)
        file = BriefFile(path, mark)

        def checked(connection: sqlite3.Connection) -> None:
            bring_up(connection)
            if mark is not None:
                mark.check_file(connection)

        try:
            with still_there(path):
                await file.write(checked)
            if mark is not None:
                mark.settle()
        except BaseException as error:
            await file.close()
            if isinstance(error, sqlite3.Error):
                raise Fatal(f"the database cannot be opened: {type(error).__name__}") from error
            raise
        return cls(file)

    @classmethod
    def look(cls, path: Path) -> SqlAgentStore:
        """The store of an agent that may be at work, opened for reading as it is. If an older version made it, reading
        raises ``sqlite3.OperationalError``."""
        return cls(BriefFile(path, only_read=True))

    async def close(self) -> None:
        """Wait for the last write, and close the file."""
        await self._file.close()

    async def contents(self) -> MemoryAgentStore:
        """The whole contents, in one snapshot."""

        def read(connection: sqlite3.Connection) -> MemoryAgentStore:
            facts = dict(connection.execute(_READ_FACTS))
            return MemoryAgentStore(
                {fact: facts[fact.value] for fact in Fact if fact.value in facts},
                _prefetches(connection),
                _entries(connection),
                [SeriesDraw(*row) for row in connection.execute(_READ_SERIES)],
            )

        return await self._file.read(read)

    async def fact(self, fact: Fact) -> bytes:
        """The value stored last under this name, or empty bytes."""

        def read(connection: sqlite3.Connection) -> bytes:
            row = connection.execute(f"{_READ_FACTS} WHERE name = ?", (fact.value,)).fetchone()
            return b"" if row is None else bytes(row[1])

        return await self._file.read(read)

    async def keep(self, facts: Mapping[Fact, bytes]) -> None:
        """Replace these values in one transaction."""
        rows = [(name.value, content) for name, content in facts.items()]
        await self._file.write(_many(_KEEP_FACT, rows))

    async def prefetches(self) -> list[Prefetch]:
        """Every slot that this device knows of, by issuer, epoch and slot."""
        return await self._file.read(_prefetches)

    async def put_prefetch(self, *prefetches: Prefetch) -> None:
        """Insert or update the rows of these slots in one transaction."""
        rows = [_values(prefetch) for prefetch in prefetches]
        await self._file.write(_many(_PUT_PREFETCH, rows))

    async def forget(self, before: int) -> None:
        """Delete the rows of epochs below ``before``, and empty those of spent tokens."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_FORGET, (before,))
            connection.execute(_EMPTY_SPENT)

        await self._file.write(write)

    async def entries(self) -> list[Entry]:
        """The whole journal, oldest first."""
        return await self._file.read(_entries)

    async def decide(self, entry: Entry, spend: Slot | None = None, draw: SeriesDraw | None = None) -> bool:
        """Write a recipe's first entry, its draw and the mark on its token in one transaction; False if the recipe
        already has an entry. Raises ``Fatal`` as ``AgentStore.decide``."""

        def write(connection: sqlite3.Connection) -> bool:
            if connection.execute(_IS_DECIDED, (entry.recipe_hash,)).fetchone() is not None:
                return False
            ENTRY_STATES.check(None, entry.state)
            if draw is not None and connection.execute(_PUT_DRAW, asdict(draw)).rowcount != 1:
                raise Fatal(DRAWN_TWICE)
            if entry.answers_round and connection.execute(_IS_DRAWN, (entry.series_hash,)).fetchone() is None:
                raise Fatal(UNCHARGED)
            if spend is not None and connection.execute(_SPEND, _slot_values(spend)).rowcount != 1:
                raise Fatal("the token of the recipe's slot is missing or was used before")
            connection.execute(_DECIDE, _values(entry))
            self._file.spend(connection)
            return True

        return await self._file.write(write)

    async def draw(self, series_hash: bytes) -> SeriesDraw | None:
        """The stored draw for a series; None if this device has not drawn for it."""

        def read(connection: sqlite3.Connection) -> SeriesDraw | None:
            row = connection.execute(f"{_READ_SERIES} WHERE series_hash = ?", (series_hash,)).fetchone()
            return None if row is None else SeriesDraw(*row)

        return await self._file.read(read)

    async def update(self, entry: Entry) -> None:
        """Move an entry along ``ENTRY_STATES``, in the statement that checks its state. Raises ``Fatal`` for any other
        move."""
        movable = ", ".join(f"'{name}'" for name in ENTRY_STATES.names_before(entry.state))

        def write(connection: sqlite3.Connection) -> None:
            if connection.execute(f"{_UPDATE} ({movable})", _values(entry)).rowcount != 1:
                raise Fatal(f"no entry of this recipe can become {entry.state}")

        await self._file.write(write)


def _many(statement: str, rows: Sequence[Any]) -> Callable[[sqlite3.Connection], None]:
    def write(connection: sqlite3.Connection) -> None:
        connection.executemany(statement, rows)

    return write


def _prefetches(connection: sqlite3.Connection) -> list[Prefetch]:
    rows = (_parts(_PREFETCH, row) for row in connection.execute(_READ_PREFETCHES))
    return [Prefetch(**(row | {"spent": bool(row["spent"])})) for row in rows]


def _entries(connection: sqlite3.Connection) -> list[Entry]:
    rows = (_parts(_ENTRY, row) for row in connection.execute(_READ_ENTRIES))
    return [Entry(**(row | {"state": State(row["state"])})) for row in rows]


def _parts(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    values = dict(zip(columns, row, strict=True))
    issuer, epoch, slot = (values.pop(name) for name in ("issuer", "epoch", "slot"))
    return values | {"slot": None if issuer is None else Slot(issuer, epoch, slot)}


def _values(item: Prefetch | Entry) -> dict[str, Any]:
    """A row by column; an enumeration is the text that it stands for."""
    return {field.name: getattr(item, field.name) for field in fields(item)} | _slot_values(item.slot)


def _slot_values(slot: Slot | None) -> dict[str, Any]:
    if slot is None:
        return {"issuer": None, "epoch": None, "slot": None}
    return {"issuer": slot.issuer, "epoch": slot.epoch, "slot": slot.slot}
