"""What the shuffler's store promises beside what every store of its kind does (``test_aggregator_stores``)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.shuffler.records import Outgoing
from services.shuffler.store import ShufflerStore
from tests.kit.postgres import MakeDatabase

TASK, OTHER = bytes(32), bytes([1] * 32)
MANY = 200
"""More rows than are read or written at once."""


@pytest.fixture(params=["memory", "postgres"])
async def shuffler(request: pytest.FixtureRequest) -> AsyncIterator[ShufflerStore]:
    url = "sqlite+aiosqlite:///:memory:"
    if request.param == "postgres":
        make: MakeDatabase = request.getfixturevalue("make_postgres_url")
        url = make(ShufflerStore)
    found = ShufflerStore(url)
    await found.open()
    yield found
    await found.close()


async def test_all_bundles_of_a_recipe_are_read_once_and_each_request_is_stored_in_their_place(
    shuffler: ShufflerStore,
) -> None:
    bundles = [number.to_bytes(4, "big") for number in range(MANY)]
    async with shuffler.transaction() as tx:
        for bundle in bundles:
            await tx.keep_records(TASK, bundle * 4, bundle)
        await tx.keep_records(OTHER, bytes(16), b"another")
    async with shuffler.read() as tx:
        together = await tx.kept_together(TASK)
        assert sorted(together[at : at + 4] for at in range(0, len(together), 4)) == bundles
        assert await tx.kept_together(bytes([2] * 32)) == b""
    async with shuffler.transaction() as tx:
        assert await tx.fix(TASK, (Outgoing(at, bundles[-at]) for at in range(MANY))) == MANY
    async with shuffler.read() as tx:
        assert [bytes(await tx.kept_together(one)) for one in (TASK, OTHER)] == [b"", b"another"]
        assert (await tx.left(TASK), await tx.next_outgoing(TASK)) == (MANY, Outgoing(0, bundles[0]))
