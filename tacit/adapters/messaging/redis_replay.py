"""A replay window on Redis, the set of keys seen recently: SET NX with an expiry, one pipeline per group.

It remembers keys for as long as the server keeps its data. A server with an append-only file synced every second may
lose about one second of it in a crash; a server that evicts keys when it is full is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis.exceptions import BusyLoadingError, ClusterDownError, MasterDownError, ReadOnlyError, RedisError

from tacit.adapters.databases.durability import Durability
from tacit.adapters.messaging.redis_client import connect
from tacit.adapters.network.tls import tls_reason
from tacit.errors import Unavailable, UsageError

_SAFE_POLICY = "noeviction"
_PROBE = b"probe"
_ELSEWHERE = (ReadOnlyError, MasterDownError, ClusterDownError, BusyLoadingError)
"""READONLY and the like: the answers of a server that writes have moved away from."""


class RedisSeen:
    """Keys below ``{prefix}:{name}:seen:``."""

    def __init__(self, url: str, name: str, prefix: str = "tacit") -> None:
        self._redis = connect(url)
        self._prefix = f"{prefix}:{name}:seen:".encode()
        self._durability = Durability()
        self.time = 0.0
        """The server's time when it answered last (POSIX seconds)."""

    async def open(self) -> None:
        """Connect. Raises ``UsageError`` where the server does not answer or may evict keys."""
        try:
            memory = await self._redis.info("memory")
        except (RedisError, OSError) as error:
            await self.close()
            raise UsageError(f"Redis does not answer: {tls_reason(error) or type(error).__name__}") from error
        if memory["maxmemory"] and memory["maxmemory_policy"] != _SAFE_POLICY:
            await self.close()
            raise UsageError("Redis may evict keys, which a replay window must keep; set maxmemory-policy noeviction")

    async def close(self) -> None:
        await self._redis.aclose()

    async def add(self, entries: Sequence[tuple[bytes, int]]) -> list[bool]:
        """Remember each key for its number of seconds (at least one) by the server's clock; return for each entry
        whether it is new.

        Raises ``Unavailable`` where the server does not take them all; those that it took stay taken.
        """
        pipeline = self._redis.pipeline(transaction=False)
        for key, seconds in entries:
            pipeline.set(self._prefix + key, b"", nx=True, ex=max(1, seconds))
        pipeline.time()
        with self._durability.noting():
            async with self._translate_errors():
                *answers, (seconds, microseconds) = await pipeline.execute()
        self.time = seconds + microseconds / 1e6
        return [answer is not None for answer in answers]

    @property
    def trouble(self) -> str:
        """The problem that the last write met, where the server was unreachable or full."""
        return self._durability.trouble

    async def probe(self) -> None:
        """Write one key that expires at once. Raises ``Unavailable``."""
        with self._durability.noting():
            async with self._translate_errors():
                await self._redis.set(self._prefix + _PROBE, b"", ex=1)

    @asynccontextmanager
    async def _translate_errors(self) -> AsyncIterator[None]:
        """Turn every error into ``Unavailable``. A server that takes no writes, because it has become a replica or is
        being replaced, never ends a connection by itself: all are ended here, so that the next ones go where the
        address leads by then."""
        try:
            yield
        except (RedisError, OSError) as error:
            if isinstance(error, _ELSEWHERE):
                await self._redis.connection_pool.disconnect(inuse_connections=False)
            raise Unavailable(f"Redis did not take it: {type(error).__name__}") from error
