"""``JobQueue`` on a Redis Stream with one consumer group (XADD, XREADGROUP, XACK, XAUTOCLAIM).

One stream per service instance, ``{prefix}:{name}:jobs``, read by that service's processes only. A delivery that is not
done within ``visibility`` seconds goes to the next ``take``. The stream holds about ``bound`` entries; the oldest are
dropped first. A stream or group that vanished (a flush, a restart without its file) is created again, empty: the
database knows which jobs are due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

from redis.asyncio import Redis
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from tacit.adapters.messaging.memory import BOUND, checked_ids
from tacit.adapters.messaging.outage import Outage, TellOutage, unreported
from tacit.adapters.network.tls import LiveContext, private_context
from tacit.errors import UsageError
from tacit.ports import MAX_JOB_ID, Clock, Delivery, Entropy

TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
GROUP = "workers"
FIELD = b"id"
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 10.0
LONGEST_BLOCK = 5.0
VISIBILITY = 60.0
CONSUMERS_KEPT = 20
"""A consumer that is not heard of any more stays in the group for this many visibility times."""
_NO_GROUP = ("NOGROUP", "UNBLOCKED")
_GROUP_EXISTS = "BUSYGROUP"
_START = "0-0"


class _TlsConnection(SSLConnection):
    """A connection that uses the newest TLS context of its files."""

    def __init__(self, *, live: LiveContext, **options: Any) -> None:
        super().__init__(**options)
        self._live = live

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._live.current()}


def connect(url: str) -> Redis:
    """Make a client that connects on first use, answers or fails in bounded time, and never sends a command twice by
    itself.

    A ``rediss://`` server must show a certificate for its host, signed by an authority of ``ssl_ca_certs`` (without it
    by one of the system's); ``ssl_certfile`` and ``ssl_keyfile`` (0600) are shown to it. Raises ``UsageError`` for any
    other option in the URL and for files that cannot be used.
    """
    bare, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options).difference(TLS_OPTIONS))
    if unknown or (options and not url.startswith("rediss:")):
        raise UsageError(f"a Redis URL may have {', '.join(TLS_OPTIONS)} with rediss://, and no other option")
    client = Redis.from_url(
        bare,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,  # the shape of answers below
    )
    if url.startswith("rediss:"):
        files = [Path(options[name]) if name in options else None for name in TLS_OPTIONS]
        live = LiveContext("TLS of Redis", files, partial(private_context, *files))
        live.current()
        client.connection_pool.connection_class = _TlsConnection
        client.connection_pool.connection_kwargs["live"] = live
    return client


class RedisJobQueue:
    """The queue called ``name`` on the Redis server of ``url``."""

    def __init__(
        self,
        url: str,
        name: str,
        clock: Clock,
        entropy: Entropy,
        *,
        prefix: str = "tacit",
        visibility: float = VISIBILITY,
        bound: int = BOUND,
        report: TellOutage = unreported,
    ) -> None:
        self.outage = Outage(clock, entropy, report)
        self._redis = connect(url)
        self._stream = f"{prefix}:{name}:jobs"
        self._consumer = entropy(8).hex()
        self._clock = clock
        self._visibility = visibility
        self._bound = bound
        self._grouped = False
        self._closed = False
        self._next_claim = clock.now() + visibility

    async def put(self, ids: Sequence[bytes]) -> None:
        """Append ``ids`` (each at most ``MAX_JOB_ID`` bytes, else ``ValueError``); in an outage they are dropped."""
        if not checked_ids(ids) or self._closed or self.outage.pause():
            return
        pipeline = self._redis.pipeline(transaction=False)
        for one in ids:
            pipeline.xadd(self._stream, {FIELD: one}, maxlen=self._bound, approximate=True)
        try:
            await pipeline.execute()
        except (RedisError, OSError) as error:
            self.outage.failed(error)
        else:
            self.outage.over()

    async def take(self, seconds: float) -> Delivery | None:
        """Take the next id, or one that its taker has held for too long; None when none came within ``seconds``, or the
        server is unreachable."""
        if self._closed:
            return None
        pause = self.outage.pause()
        if pause:
            await self._clock.sleep(min(pause, seconds))
            return None
        try:
            found = await self._found(seconds)
        except (RedisError, OSError) as error:
            self._failed(error)
            return None
        self.outage.over()
        return found

    async def done(self, receipt: object) -> None:
        """Acknowledge the delivery and delete it; during an outage this is dropped, and the id is delivered a second
        time."""
        if self._closed or self.outage.pause():
            return
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xack(self._stream, GROUP, cast("bytes", receipt))
        pipeline.xdel(self._stream, cast("bytes", receipt))
        try:
            await pipeline.execute()
        except (RedisError, OSError) as error:
            self._failed(error)

    async def close(self) -> None:
        """Close the connections; nothing is taken any more."""
        self._closed = True
        await self._redis.aclose()

    def _failed(self, error: Exception) -> None:
        """Handle an error: a missing group is created again at the next take; everything else is an outage."""
        if isinstance(error, ResponseError) and str(error).startswith(_NO_GROUP):
            self._grouped = False
        elif not self._closed:
            self.outage.failed(error)

    async def _found(self, seconds: float) -> Delivery | None:
        await self._ensure_group()
        claimed = await self._claimed()
        if claimed is not None:
            return claimed
        block = max(1, int(1000 * min(seconds, LONGEST_BLOCK))) if seconds > 0 else None
        read = self._redis.xreadgroup(GROUP, self._consumer, {self._stream: ">"}, count=1, block=block)
        answer = cast("list[tuple[bytes, list[Any]]]", await read)
        return await self._delivery(answer[0][1]) if answer else None

    async def _ensure_group(self) -> None:
        if self._grouped:
            return
        try:
            await self._redis.xgroup_create(self._stream, GROUP, id=_START, mkstream=True)
        except ResponseError as error:
            if not str(error).startswith(_GROUP_EXISTS):
                raise
        self._grouped = True

    async def _claimed(self) -> Delivery | None:
        """Now and then, a delivery that another consumer, or this one, did not finish in time."""
        if self._clock.now() < self._next_claim:
            return None
        answer = await self._redis.xautoclaim(
            self._stream, GROUP, self._consumer, int(1000 * self._visibility), start_id=_START, count=1
        )
        delivery = await self._delivery(answer[1])
        if delivery is None:
            self._next_claim = self._clock.now() + self._visibility / 2
            await self._forget_consumers()
        return delivery

    async def _forget_consumers(self) -> None:
        """Drop consumers of processes that ended long ago and left nothing unfinished."""
        limit = 1000 * self._visibility * CONSUMERS_KEPT
        for consumer in await self._redis.xinfo_consumers(self._stream, GROUP):
            if consumer["pending"] == 0 and consumer["idle"] > limit:
                await self._redis.xgroup_delconsumer(self._stream, GROUP, consumer["name"])

    async def _delivery(self, entries: Sequence[Any]) -> Delivery | None:
        """The first entry; an entry that this service cannot read is removed."""
        for entry_id, fields in entries:
            found = (fields or {}).get(FIELD, b"")
            if 0 < len(found) <= MAX_JOB_ID:
                return Delivery(found, entry_id)
            await self.done(entry_id)
        return None
