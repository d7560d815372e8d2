"""Publishing depends on a port of its store: whatever satisfies it may stand in for a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from services.collector.config import PublishConfig
from services.collector.drivers import PublishDriver
from services.collector.records import Result
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv
from tacit.service.http.live_tokens import NO_TOKEN


class Releases:
    """Results in a list: a store, and each of its transactions."""

    def __init__(self, *results: Result) -> None:
        self.results = list(results)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Releases]:
        yield self

    read = transaction

    async def unpublished(self, limit: int) -> Sequence[Result]:
        return [result for result in self.results if not result.published][:limit]

    async def set_published(self, collection: str) -> None:
        self.results = [replace(one, published=one.published or one.collection == collection) for one in self.results]


class Server:
    """A recipe server that takes everything."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    async def request(self, _method: str, _url: str, *, headers: object = None, body: bytes = b"") -> HttpResponse:
        self.taken.append(body)
        return HttpResponse(201, {}, b"")


async def test_results_are_published_from_a_store_that_is_no_database() -> None:
    store, server = Releases(*(Result(str(number), bytes(32), number, f"{number}") for number in range(20))), Server()
    deps = ServiceEnv(SimClock(0.0), SeededEntropy(1), server, background=False)
    driver = PublishDriver(store, PublishConfig(url="http://127.0.0.1:1", token=Path("token")), NO_TOKEN, deps)
    assert [await driver.step() for _ in range(3)] == [16, 4, 0]
    assert server.taken == [b"%d" % number for number in range(20)]
