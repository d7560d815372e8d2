"""The tables of a device's journal, and how a file comes to have them.

Statements lead from each revision to the next; those that have shipped are never edited. The table
``alembic_version`` has the file's revision under the name that it has in every database of Tacit.
"""

from __future__ import annotations

import sqlite3

from tacit.errors import Fatal, UsageError

_FACTS = """
CREATE TABLE facts (
    name TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (name)
)
"""
_PREFETCHES = """
CREATE TABLE prefetches (
    issuer TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    due_at FLOAT NOT NULL,
    key_id BLOB NOT NULL,
    preimages BLOB NOT NULL,
    pending BLOB NOT NULL,
    token BLOB NOT NULL,
    spent BOOLEAN NOT NULL,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (issuer, epoch, slot)
)
"""
_ENTRIES = """
CREATE TABLE entries (
    recipe_hash BLOB NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    decided_at FLOAT NOT NULL,
    detail TEXT NOT NULL,
    charged_epsilon TEXT NOT NULL,
    issuer TEXT,
    epoch INTEGER,
    slot INTEGER,
    send_at FLOAT NOT NULL,
    deadline FLOAT NOT NULL,
    attempts INTEGER NOT NULL,
    url TEXT NOT NULL,
    report BLOB NOT NULL,
    charged_delta TEXT DEFAULT '' NOT NULL,
    series_hash BLOB DEFAULT (x'') NOT NULL,
    series_index INTEGER,
    charged_until FLOAT DEFAULT 0 NOT NULL,
    charged_with_relay TEXT DEFAULT '' NOT NULL,
    model TEXT DEFAULT 'secure-aggregation' NOT NULL,
    PRIMARY KEY (recipe_hash)
)
"""
_SERIES = """
CREATE TABLE series (
    series_hash BLOB NOT NULL,
    name TEXT NOT NULL,
    drawn_at FLOAT NOT NULL,
    first_round INTEGER NOT NULL,
    chosen_round INTEGER,
    PRIMARY KEY (series_hash)
)
"""
_REVISION = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""
_ANALYSTS = "ALTER TABLE entries ADD COLUMN analyst TEXT DEFAULT '' NOT NULL"
REVISIONS = {"0006": (_REVISION, _FACTS, _PREFETCHES, _ENTRIES, _SERIES), "0007": (_ANALYSTS,)}
"""The statements that lead to each revision from the one before, the oldest first; the first lead there from an empty
file."""


KEPT = {
    "facts": (
        "single values: the last accepted state of the log, the gateway's keys, the issuer's directories of the epochs "
        "around now, present errors of the log or the data source",
        "replaced",
    ),
    "prefetches": (
        "key id, when to ask, preimages, pending blinded request, token, whether it is spent",
        "token and secrets until the next reading of the log after they are spent, the row until the epoch before the "
        "current one",
    ),
    "entries": (
        "decision, whose recipe, charged epsilon and until when it counts, series and index, slot, when and until when "
        "to send, in which model, the finished report",
        "the report until a server has stored it or it cannot be sent, the row always",
    ),
    "series": (
        "when its round was drawn, the first round, with donation the chosen round or none; in one transaction with "
        "the first round's entry, which holds the charge",
        "always",
    ),
}
"""What each table holds, and for how long."""


def bring_up(connection: sqlite3.Connection) -> None:
    """Bring a file to the newest revision, inside the connection's transaction. Raises ``UsageError`` for a file of
    another version that no step leads from, and ``Fatal`` for one that is no device's journal."""
    names = list(REVISIONS)
    steps = names[names.index(revision) + 1 :] if (revision := _revision_of(connection, names)) else names
    for name in steps:
        for statement in REVISIONS[name]:
            connection.execute(statement)
    if steps:
        connection.execute("DELETE FROM alembic_version")
        connection.execute("INSERT INTO alembic_version VALUES (?)", (names[-1],))


def _revision_of(connection: sqlite3.Connection, known: list[str]) -> str:
    """The file's revision, one of ``known``; empty for an empty file."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return ""
    if not {"alembic_version", "entries"} <= tables:
        raise Fatal("the database is not a device's journal")
    revisions = [str(name) for (name,) in connection.execute("SELECT version_num FROM alembic_version")]
    if len(revisions) != 1 or not revisions[0].isdecimal():
        raise Fatal("the database is not a device's journal")
    (revision,) = revisions
    if revision not in known:
        whose, then = ("a newer", "that version") if revision > known[-1] else ("an older", "one in between first")
        raise UsageError(f"the database was made by {whose} version of Tacit (revision {revision}); start {then}")
    return revision
