"""Stores work here as they do in the product, and on databases of every kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

import pytest

from tacit.adapters.databases.stored import DatabaseStore
from tests.kit import databases

S = TypeVar("S", bound=DatabaseStore)
Opening = Callable[[Callable[[str], S]], AbstractAsyncContextManager[S]]
"""Opens a store, given its class, on a database of its own."""


@asynccontextmanager
async def pair_of(store: Callable[[str], S], url: str) -> AsyncIterator[tuple[S, S]]:
    """Two processes' stores on one PostgreSQL database."""
    async with AsyncExitStack() as stack:
        found = store(url), store(url)
        for one in found:
            await one.open()
            stack.push_async_callback(one.close)
        yield found


@pytest.fixture(autouse=True)
def statements_run_in_their_thread() -> Iterator[None]:
    """The tests' shorter way to SQLite is not taken."""
    with databases.threads():
        yield


@pytest.fixture(params=["memory", "postgres"])
def opening(request: pytest.FixtureRequest) -> Opening[DatabaseStore]:
    """Opens stores in memory and in PostgreSQL. To SQLite, a file is as memory is; what has to outlive a process has
    tests of its own."""

    @asynccontextmanager
    async def opened(store: Callable[[str], DatabaseStore]) -> AsyncIterator[DatabaseStore]:
        is_postgres = request.param == "postgres"
        make = request.getfixturevalue("make_postgres_url") if is_postgres else lambda _: "sqlite+aiosqlite:///:memory:"
        found = store(make(store))
        await found.open()
        yield found
        await found.close()

    return opened
