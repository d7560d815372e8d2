"""Every table of every database: its key, its columns, what it holds and for how long."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping

from sqlalchemy import MetaData, Table, UniqueConstraint

import attester.schema
import recipe_server.schema
import services.admin.storage.schema
import services.analyzer.schema
import services.collector.schema
import services.gateway.store
import services.helper.schema
import services.issuer.schema
import services.leader.schema
import services.shuffler.schema
import services.witness.schema
from client_agent.schema import KEPT, bring_up
from infra.tools.documents.words import MADE, page, table

DATABASES: Mapping[str, MetaData] = {
    "Leader": services.leader.schema.METADATA,
    "Helper": services.helper.schema.METADATA,
    "Analyzer": services.analyzer.schema.METADATA,
    "Shuffler": services.shuffler.schema.METADATA,
    "Collector": services.collector.schema.METADATA,
    "Admin service": services.admin.storage.schema.METADATA,
    "Recipe server": recipe_server.schema.METADATA,
    "Witness": services.witness.schema.METADATA,
    "Issuer": services.issuer.schema.METADATA,
    "Attester": attester.schema.METADATA,
    "Gateway": services.gateway.store.METADATA,
}
DEVICE = "Device"
_HEAD = ("table", "key", "other columns", "holds", "kept")


def tables_page() -> str:
    """The page of tables: those that several parties have first, then each party's own."""
    rows = {party: [_row(one) for one in metadata.sorted_tables] for party, metadata in DATABASES.items()}
    rows[DEVICE] = _journal()
    owners: dict[tuple[str, ...], list[str]] = {}
    for party, own in rows.items():
        for row in own:
            owners.setdefault(row, []).append(party)
    return page(
        "# Tables",
        f"{MADE} What every database has in common, and why: [data model](../data_model.md). In the key, columns after "
        '"unique" are unique, too. *Always* is as long as the database.',
        *_sections(owners),
    )


def _sections(owners: Mapping[tuple[str, ...], list[str]]) -> Iterator[str]:
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row, parties in owners.items():
        groups.setdefault(tuple(parties), []).append(row)
    order = [*DATABASES, DEVICE]
    for together, members in sorted(groups.items(), key=lambda group: (-len(group[0]), order.index(group[0][0]))):
        yield f"## {', '.join(together)}"
        yield table(_HEAD, sorted(members))


def _row(one: Table) -> tuple[str, ...]:
    key = [column.name for column in one.primary_key]
    unique = [
        " and ".join(column.name for column in constraint.columns)
        for constraint in one.constraints
        if isinstance(constraint, UniqueConstraint)
    ]
    unique += [" and ".join(column.name for column in index.columns) for index in one.indexes if index.unique]
    others = [column.name for column in one.columns if column.name not in key]
    parts = [_names(key) or "one row", *([f"unique: {_names(sorted(unique))}"] if unique else [])]
    return f"`{one.name}`", "; ".join(parts), _names(others), one.info["holds"], one.info["kept"]


def _journal() -> list[tuple[str, ...]]:
    """The tables of a device's journal, as SQLite has them."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        bring_up(connection)
        found: list[tuple[str, ...]] = []
        for name, (holds, kept) in KEPT.items():
            columns = connection.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
            key = [column for column, place in columns if place]
            others = [column for column, place in columns if not place]
            found.append((f"`{name}`", _names(key), _names(others), holds, kept))
        return found


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
