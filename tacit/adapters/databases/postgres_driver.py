"""Statements on asyncpg's own connection, for those that run so often, or return so many rows, that SQLAlchemy's
overhead would matter; and the classification of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tacit.adapters.databases.postgres_connect import NO_WRITES
from tacit.adapters.databases.postgres_tls import speaks_no_tls
from tacit.adapters.network.tls import tls_reason
from tacit.errors import Fatal, NoRoom, TacitError, Unavailable

_VIOLATION = "23"
"""The class of SQLSTATE for a violated constraint, including a missing partition."""
_DISK_FULL = "53100"
_REFUSALS = frozenset({"08", "0A", "25", "28", "3D", "40", "53", "55", "57", "58"})
"""Classes of SQLSTATE that concern the server or its disk, our access or other writers, not a statement: among them a
server that cannot write (25006, 0A000), one that shuts down or ends a session (57P01 to 57P05), a statement that took
too long (57014) and a transaction that waited too long (25P03)."""
_READ_ONLY = frozenset({"25006", "0A000"})
"""What a standby answers, or a primary that was set read-only, to a transaction that would write."""
_STALE_PLAN = "InvalidCachedStatementError"
"""What the driver, and SQLAlchemy, call the error for a statement prepared before a migration. They then prepare it
anew, but cannot repeat it within a transaction."""


async def driver_of(connection: AsyncConnection) -> Any:
    """The asyncpg connection behind ``connection``."""
    known = connection.sync_connection
    if known is None or known.invalidated:
        return (await connection.get_raw_connection()).driver_connection
    return known.connection.driver_connection  # what takes a detour through a greenlet otherwise


async def fetch(connection: AsyncConnection, statement: str, *values: Any) -> list[Any]:
    """Run a statement within the open transaction and return its rows; $1 is the first of ``values``. Raises
    ``IntegrityError`` for a violated constraint."""
    return await fetch_alone(await driver_of(connection), statement, *values)


async def fetch_alone(driver: Any, statement: str, *values: Any) -> list[Any]:
    """``fetch`` on an asyncpg connection, whether or not it has a transaction."""
    with constraints(statement):
        found: list[Any] = await driver.fetch(statement, *values)
    return found


@contextmanager
def constraints(statement: str) -> Iterator[None]:
    """Turn the driver's error for a violated constraint into SQLAlchemy's, without values."""
    try:
        yield
    except Exception as error:
        if _sqlstate(error).startswith(_VIOLATION):
            raise sa.exc.IntegrityError(statement, None, error) from error
        raise


def cannot_write(error: BaseException | None) -> bool:
    """Whether a server said that it takes no writes."""
    while error is not None:
        # a stale plan has SQLSTATE 0A000 as well, and says nothing about the server
        if _sqlstate(error) in _READ_ONLY and type(error).__name__ != _STALE_PLAN:
            return True
        # from SQLAlchemy's error to its adapter's, and from there to the driver's
        error = getattr(error, "orig", None) or error.__cause__
    return False


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn errors of the connection or the server, and of a plan from before a migration, into ``Unavailable``, and
    those of a statement into ``Fatal``, without its text; a violated constraint passes unchanged."""
    try:
        yield
    except TacitError:
        raise
    except sa.exc.DBAPIError as error:
        # before its class, 53: what is full has to prove that it has room again (`Durability`)
        if _sqlstate(error.orig) == _DISK_FULL:
            raise NoRoom("there is no room for the database") from error
        if isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) or error.connection_invalidated:
            raise Unavailable(f"the database does not answer: {reason(error.orig)}") from error
        if _passes(error.orig):
            raise Unavailable(f"the database refuses: {reason(error.orig)}") from error
        if isinstance(error, sa.exc.IntegrityError):
            raise
        raise Fatal(f"the database refuses a statement: {reason(error.orig)}") from error
    except sa.exc.PendingRollbackError as error:  # the transaction was rolled back when its connection broke
        raise Fatal("the database does not answer: the connection broke within a transaction") from error
    except sa.exc.TimeoutError as error:
        raise Unavailable("every connection to the database is busy") from error
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"the database cannot be reached: {reason(error)}") from error
    except Exception as error:
        # by name: the driver is an extra, and only `connector` imports it
        if not type(error).__module__.startswith("asyncpg"):
            raise
        # without an SQLSTATE the error is the driver's own, as a rule that the connection has ended
        kind = NoRoom if _sqlstate(error) == _DISK_FULL else Unavailable
        raise (kind if _passes(error) or not _sqlstate(error) else Fatal)(
            f"the database refuses: {reason(error)}"
        ) from error


def _passes(error: BaseException | None) -> bool:
    """Whether the server may accept the same statement later."""
    return _sqlstate(error)[:2] in _REFUSALS or type(error).__name__ == _STALE_PLAN


def _sqlstate(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or "")


_WORDS = {
    "ReadOnlySQLTransactionError": NO_WRITES,
    "QueryCanceledError": "a statement took too long, or was cancelled",
    "IdleInTransactionSessionTimeoutError": "a transaction waited too long",
    "AdminShutdownError": "the server, or its administrator, ended the session",
    "ProtocolViolationError": "the session's start violates the protocol; a PgBouncer before the server has to pool by "
    "session (pool_mode = session), and to list in ignore_startup_parameters what it names in its log",
}


_NOT_NOW = "CannotConnectNowError"
"""What the driver calls SQLSTATE 57P03: the server answers, and takes no connections yet, or no more."""
_STAGES = {
    "shutting down": "the server is shutting down",
    "in recovery mode": "the server recovers from the crash of one of its processes, and replays its log",
    "not yet accepting": "the server is starting up and replays its log; it has not reached a consistent state yet",
    "starting up": "the server is starting up; after a crash it replays its log, which may take long",
}


def _stage(error: BaseException | None) -> str:
    """What a server that takes no connections now is doing, as far as it says; its words hold nothing of ours."""
    said = str(error)
    known = next((words for sign, words in _STAGES.items() if sign in said), None)
    return known or "the server takes no connections now: it is starting up, recovers or is shutting down"


def reason(error: BaseException | None) -> str:
    """Describe an error by its kind: its text may quote rows, addresses or statements. TLS errors are described in
    full."""
    known = "it does not speak TLS" if speaks_no_tls(error) else tls_reason(error)
    if known is not None:
        return known
    cause = error if error is None or error.__cause__ is None else error.__cause__
    if type(cause).__name__ == _NOT_NOW:
        return _stage(cause)
    return _WORDS.get(type(cause).__name__) or type(cause).__name__
