"""The replay window: which encapsulated keys were seen, remembered until no request that carries them has an acceptable
Date.

In the gateway's database it survives every crash. On Redis several gateways may share it; a crash of a server that
syncs its file every second may then let about one second of requests pass once more, which the aggregators' nullifiers
keep from counting twice. If the window does not answer, nothing passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from services.gateway.ports import SeenRequest
from tacit.adapters.databases.stored import DatabaseStore
from tacit.adapters.databases.upsert import Int64
from tacit.adapters.databases.watermark import Watermark
from tacit.errors import Unavailable
from tacit.ports import Clock
from tacit.service.stores import Durable

if TYPE_CHECKING:  # a gateway that uses no Redis imports no client of it
    from tacit.adapters.messaging.redis_replay import RedisSeen

METADATA = sa.MetaData()
MIGRATIONS = "services.gateway.migrations"
MARGIN = 120
"""Seconds by which the clocks of a gateway and of Redis may differ."""

SEEN = sa.Table(
    "seen_requests",
    METADATA,
    sa.Column("enc", sa.LargeBinary, primary_key=True),
    sa.Column("date", Int64, nullable=False),
    sa.Index("seen_requests_by_date", "date"),
    info={
        "holds": "an encapsulated key, and the request's Date",
        "kept": "until a request of that Date would be refused for its age, by a clock that is ten minutes behind too",
    },
)


class RedisReplayWindow:
    """The window on Redis. Each request expires there ``MARGIN`` seconds after its Date leaves ``date_window``, by the
    clock of Redis: one that is set ahead lets everything expire at once. So nothing passes while the two clocks differ,
    nor later what may have passed before."""

    def __init__(self, seen: RedisSeen, date_window: int, clock: Clock) -> None:
        self._seen = seen
        self._date_window = date_window
        self._clock = clock
        self.closed_until = 0

    @property
    def durable(self) -> Durable:
        """The connection to Redis, which a health probe uses to ask whether writes succeed."""
        return self._seen

    async def open(self) -> None:
        """Connect. Raises ``UsageError`` if the server does not answer, or may evict what it should remember."""
        await self._seen.open()

    async def close(self) -> None:
        await self._seen.close()

    async def remember(self, requests: Sequence[SeenRequest]) -> list[bool]:
        """For each request whether it is new, in order; all are remembered when it returns. Raises ``Unavailable``,
        also where the clocks differ by more than ``MARGIN`` seconds."""
        until = self._date_window + MARGIN - int(self._clock.now())
        fresh = await self._seen.add([(request.enc, request.date + until) for request in requests])
        now = self._clock.now()
        ahead = self._seen.time - now
        if abs(ahead) > MARGIN:
            self.closed_until = int(min(now, self._seen.time)) + 1
            raise Unavailable(f"the clock of Redis differs from this gateway's by {ahead:+.0f} s")
        return fresh

    async def forget(self, before: int) -> int:
        """Returns 0: Redis deletes expired requests by itself."""
        return 0


class ReplayStore(DatabaseStore):
    """The window in one database. What ``remember`` has answered survives every crash."""

    def __init__(self, url: str, mark: Watermark | None = None) -> None:
        super().__init__(url, METADATA, MIGRATIONS, mark)

    async def remember(self, requests: Sequence[SeenRequest]) -> list[bool]:
        """Remember ``requests`` in one transaction; returns for each whether it is new. Durable when it returns."""
        dates = {request.enc: request.date for request in requests}
        fresh = set(await self._database.insert_new(SEEN, ("enc", "date"), list(dates.items()), "enc"))
        answers: list[bool] = []
        # of the same request twice in one group only the first is new
        for request in requests:
            answers.append(request.enc in fresh)
            fresh.discard(request.enc)
        return answers

    async def forget(self, before: int) -> int:
        """Delete the requests dated earlier than ``before``; returns how many."""
        async with self._database.transaction() as connection:
            return (await connection.execute(sa.delete(SEEN).where(SEEN.c.date < before))).rowcount
