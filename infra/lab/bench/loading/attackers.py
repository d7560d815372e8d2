"""Clients that attack a service on this machine's loopback, bounded in count, rate and time.

This runs as a process of its own, so that it does not slow down the measuring process: ``python -m
infra.lab.bench.loading.attackers`` with a plan as one JSON argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from tacit.adapters.network.origins import is_loopback
from tacit.errors import UsageError

KINDS = ("silent", "slow head", "slow body", "flood")
MOST_CONNECTIONS, MOST_SECONDS, MOST_RATE = 2048, 120.0, 5000.0
OPENED_PER_SECOND = 500.0
"""Most connections opened a second, including those reopened after the service has closed them."""
DRIP_SECONDS = 2.0


@dataclass(frozen=True)
class Attack:
    """``connections`` to ``url`` from ``sources`` addresses for ``seconds``. A flood sends ``rate`` whole requests of
    ``body`` bytes a second; other kinds only announce a body of that size. Raises ``UsageError`` beyond the bounds
    above."""

    kind: str
    url: str
    media_type: str
    connections: int
    seconds: float
    sources: int = 1
    rate: float = 2000.0
    body: int = 4096

    def __post_init__(self) -> None:
        target = urlsplit(self.url)
        if self.kind not in KINDS or not is_loopback(target.hostname or "") or target.port is None:
            raise UsageError("an attack needs one of the known kinds and a loopback URL with a port")
        if not (0 < self.connections <= MOST_CONNECTIONS and 0 < self.seconds <= MOST_SECONDS):
            raise UsageError(f"an attack has 1 to {MOST_CONNECTIONS} connections and lasts up to {MOST_SECONDS:g} s")
        if not (0 < self.rate <= MOST_RATE and 0 < self.sources <= 100):
            raise UsageError(f"an attack has a rate of up to {MOST_RATE:g} a second and 1 to 100 sources")

    def encode(self) -> str:
        """The JSON argument of the process."""
        return json.dumps(asdict(self))


class _Attackers:
    def __init__(self, attack: Attack) -> None:
        target = urlsplit(attack.url)
        self._attack = attack
        self._host, self._port = target.hostname or "", target.port or 0
        self._head = (
            f"POST {target.path or '/'} HTTP/1.1\r\nHost: {target.netloc}\r\nContent-Type: {attack.media_type}\r\n"
            f"Content-Length: {attack.body}\r\n\r\n"
        ).encode()
        self._until = time.monotonic() + attack.seconds
        self._next_open = self._next_request = time.monotonic()

    async def run(self) -> None:
        """Keep every connection going until the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._attack.seconds):
                await asyncio.gather(*(self._keep(number) for number in range(self._attack.connections)))

    async def _keep(self, number: int) -> None:
        """Keep one connection going, reopening it."""
        address = f"127.0.0.{100 + number % self._attack.sources}"
        while time.monotonic() < self._until:
            self._next_open = max(self._next_open, time.monotonic()) + 1 / OPENED_PER_SECOND
            await asyncio.sleep(max(0.0, self._next_open - time.monotonic()))
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(self._host, self._port, local_addr=(address, 0))
                try:
                    await self._misbehave(reader, writer)
                finally:
                    writer.transport.abort()

    async def _misbehave(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._attack.kind == "flood":
            await self._flood(reader, writer)
            return
        writer.write(self._head.removesuffix(b"\r\n") + b"X-Drip: " if self._attack.kind == "slow head" else self._head)
        ended = asyncio.ensure_future(reader.read())
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=DRIP_SECONDS)
                if self._attack.kind != "silent" and not ended.done():
                    writer.write(b"x")
        finally:
            ended.cancel()

    async def _flood(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Whole requests, each sent once the previous one was answered and its time has come."""
        message = self._head + bytes(self._attack.body)
        while True:
            self._next_request = max(self._next_request, time.monotonic() - 1) + 1 / self._attack.rate
            await asyncio.sleep(max(0.0, self._next_request - time.monotonic()))
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            await reader.readexactly(next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0))


async def attack_with(attack: Attack) -> None:
    """Run ``attack`` until its time is over."""
    await _Attackers(attack).run()


if __name__ == "__main__":
    asyncio.run(attack_with(Attack(**json.loads(sys.argv[1]))))
