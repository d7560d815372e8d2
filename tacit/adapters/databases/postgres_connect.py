"""Connections to the server that can write, wherever a name or an address leads at the moment.

Behind an address that moves (Patroni with HAProxy or a virtual address, a cloud's endpoint) stands now one server, now
another, and for seconds the old one as a standby. A standby answers reads, from the past; who is connected to it stays
there, since it never ends the connection. So:

* a connection is made only to a server that takes writes; a standby is refused as unreachable;
* each is checked before it is used by what the server has reported (``in_hot_standby`` and
  ``default_transaction_read_only``, PostgreSQL 14 and later), which costs no round trip;
* each belongs to a *generation*: once a connection is made to another server than the last one, or one server says that
  it cannot write or is going away, all of the older generation are left (``Server``);
* none that can be replaced is older than ``AGE_SECONDS``, so that a move is noticed where no statement fails.

The session's settings are made by a statement instead of by startup parameters, which PgBouncer refuses (it knows few).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tacit.adapters.network.happy_eyeballs import RacingLoop
from tacit.errors import Unavailable

AGE_SECONDS = 300.0
"""A connection that holds no lock is replaced at this age."""
SETTINGS = {
    "synchronous_commit": "on",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",  # writers wait for whoever stands still in a transaction
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",  # a plan made for few keys and rows must not serve a thousand of each
    "tcp_keepalives_idle": "30",  # a machine that has vanished must not hold its lock for hours
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
}
_BEGIN = "SELECT {}, pg_postmaster_start_time()::text"
_SETTING = "set_config('{}', '{}', false)"
NO_WRITES = "the server takes no writes; it is a standby, or set read-only"
_REPORTED = ("in_hot_standby", "default_transaction_read_only")


class Server:
    """The server that the connections of one engine lead to. ``generation`` grows whenever it may be another one."""

    def __init__(self) -> None:
        self.generation = 0
        self._identity = ""

    def leave(self) -> None:
        """Replace every connection before its next use: the server of one of them cannot write, or is going away."""
        self.generation += 1

    def found(self, identity: str) -> None:
        """A connection was made to the server ``identity``, which no other one has at any time."""
        if identity != self._identity:
            self.generation += bool(self._identity)  # the first connection is no move
            self._identity = identity


def connector(server: Server, protection: Callable[[], dict[str, Any]]) -> Callable[..., Any]:
    """What SQLAlchemy calls for each new connection of an engine to ``server``; ``protection`` gives the arguments that
    protect it."""
    import asyncpg

    class Connection(asyncpg.Connection):  # type: ignore[misc]
        """A connection that knows when and to which generation of its server it was made."""

        server: Server
        generation: int
        made_at: float

    async def connect(**named: Any) -> Any:
        named |= protection()
        loop = asyncio.get_running_loop()
        try:
            made = await asyncpg.connect(
                **named,
                loop=RacingLoop(loop),
                connection_class=Connection,
                target_session_attrs="read-write",
                # one of the few startup parameters that PgBouncer knows; all others follow in a statement
                server_settings={"application_name": "tacit"},
            )
        except asyncpg.TargetServerAttributeNotMatched as error:
            raise Unavailable(f"the database cannot be written: {NO_WRITES}") from error
        try:
            settings = ", ".join(_SETTING.format(*pair) for pair in SETTINGS.items())
            *_, identity = await made.fetchrow(_BEGIN.format(settings))
        except BaseException:
            made.terminate()
            raise
        # first: a connection to another server begins a generation, and belongs to it
        server.found(identity)
        made.server, made.generation, made.made_at = server, server.generation, loop.time()
        return made

    return connect


def is_left(driver: Any, *, for_long: bool = False) -> bool:
    """Whether an asyncpg connection of ``connector`` must not be used any more: it has ended, its server cannot write,
    or others lead elsewhere by now; or it is old, unless it is kept ``for_long`` because it holds locks."""
    if driver is None or driver.is_closed() or driver.generation != driver.server.generation:
        return True
    reported = driver.get_settings()
    if any(getattr(reported, name, "off") == "on" for name in _REPORTED):
        driver.server.leave()
        return True
    return not for_long and asyncio.get_running_loop().time() - driver.made_at > AGE_SECONDS
