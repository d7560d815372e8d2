"""Sends prepared contributions to a relay, or reports to a leader, as fast as it answers or at a given rate, and times
every answer."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

from tacit.errors import Fatal
from tacit.media_types import OHTTP_REQ

CONNECTIONS = 64
ANSWER_SECONDS = 60.0
TRIES = 20
OVERLOADED = frozenset({429, 503})


@dataclass(frozen=True)
class Load:
    """The result of a load: wall seconds from the first request to the last answer, the seconds of each answer, how
    often the server asked the sender to retry later, and how many answers had a body."""

    seconds: float
    latencies: Sequence[float] = field(repr=False)
    retries: int
    bodies: int = 0

    @property
    def rate(self) -> float:
        """Mean number of answers per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: int) -> float:
        """Seconds within which ``share`` percent of the answers came."""
        return statistics.quantiles(self.latencies, n=100)[share - 1]


async def send_all(
    url: str,
    messages: Sequence[bytes] | AsyncIterator[bytes],
    rate: float = 0.0,
    connections: int = CONNECTIONS,
    media_type: str = OHTTP_REQ,
) -> Load:
    """POST every message to ``url``, taken from a list or as they are made. With a ``rate`` (per second) messages are
    due at fixed times, and each latency counts from that time. Raises ``Fatal`` for an answer other than 2xx, 429 or
    503, or after ``TRIES`` answers of 429 or 503 to one message."""
    target = urlsplit(url)
    if target.hostname is None or target.port is None:
        raise ValueError(f"{url} names no host and port")
    head = f"POST {target.path or '/'} HTTP/1.1\r\nHost: {target.netloc}\r\nContent-Type: {media_type}\r\n".encode()
    plan = _Plan(time.perf_counter(), rate, messages)
    most = connections if isinstance(messages, AsyncIterator) else min(connections, len(messages))
    senders = [_Sender(target.hostname, target.port, head, plan) for _ in range(most)]
    await asyncio.gather(*(sender.run() for sender in senders))
    return Load(time.perf_counter() - plan.start, plan.latencies, plan.retries, plan.bodies)


class _Plan:
    """The next message to send, and when."""

    def __init__(self, start: float, rate: float, messages: Sequence[bytes] | AsyncIterator[bytes]) -> None:
        self.start = start
        self.rate = rate
        self.latencies: list[float] = []
        self.retries = 0
        self.bodies = 0
        self._left = messages if isinstance(messages, AsyncIterator) else iter(messages)
        self._taking = asyncio.Lock()
        self._number = 0

    async def take(self) -> tuple[int, bytes] | None:
        """The next message and its number, None after the last."""
        if isinstance(self._left, AsyncIterator):
            async with self._taking:  # an asynchronous generator cannot be asked twice at once
                message = await anext(self._left, None)
        else:
            message = next(self._left, None)
        self._number += 1
        return None if message is None else (self._number - 1, message)

    async def due(self, number: int) -> float:
        """Wait for the message's time; returns the moment from which its latency counts."""
        if not self.rate:
            return time.perf_counter()
        at = self.start + number / self.rate
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        return at


class _Sender:
    """One connection that sends the messages of a plan one by one."""

    def __init__(self, host: str, port: int, head: bytes, plan: _Plan) -> None:
        self._address = (host, port)
        self._head = head
        self._plan = plan
        self._connection: _Connection | None = None

    async def run(self) -> None:
        try:
            while (taken := await self._plan.take()) is not None:
                number, message = taken
                begun = await self._plan.due(number)
                await self._deliver(message)
                self._plan.latencies.append(time.perf_counter() - begun)
        finally:
            if self._connection is not None:
                self._connection.close()

    async def _deliver(self, message: bytes) -> None:
        for _ in range(TRIES):
            answer = await self._exchange(message)
            if 200 <= answer.status < 300:
                self._plan.bodies += answer.size > 0
                return
            if answer.status not in OVERLOADED:
                raise Fatal(f"the server answered {answer.status} to a contribution")
            self._plan.retries += 1
            await asyncio.sleep(answer.retry_after)
        raise Fatal(f"the server was overloaded {TRIES} times in a row")

    async def _exchange(self, message: bytes) -> _Response:
        if self._connection is None or self._connection.closed:
            loop = asyncio.get_running_loop()
            _, self._connection = await loop.create_connection(_Connection, *self._address)
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._connection.exchange(
                b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(message), message)
            )


@dataclass
class _Response:
    status: int = 0
    size: int = 0
    retry_after: float = 1.0


class _Connection(asyncio.Protocol):
    """A keep-alive HTTP/1.1 connection, one exchange at a time; bodies of answers are dropped."""

    def __init__(self) -> None:
        self.closed = False
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[_Response] | None = None
        self._answer = _Response()
        self._parser = httptools.HttpResponseParser(self)

    async def exchange(self, request: bytes) -> _Response:
        if self._transport is None:
            raise Fatal("the server is not connected")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class does not derive from it

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Fatal("the server closed a connection before it answered"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after" and value.isdigit():
            self._answer.retry_after = float(value)

    def on_body(self, body: bytes) -> None:
        self._answer.size += len(body)

    def on_message_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()
        answer, self._answer = self._answer, _Response()
        if not self._parser.should_keep_alive():
            self.closed = True
            self.close()
        else:
            self._parser = httptools.HttpResponseParser(self)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)
