"""The collector's releases in the order of release, which neither recipes nor times decide."""

from __future__ import annotations

import json

from services.collector.records import Result
from services.collector.releases import Releases
from services.collector.store import CollectorStore


async def test_releases_stand_in_the_order_in_which_they_were_stored() -> None:
    store, times = CollectorStore("sqlite+aiosqlite:///:memory:"), [30.5, 10.0, 20, 5]
    await store.open()
    for number, at in enumerate(times):
        async with store.transaction() as tx:
            await tx.add_result(Result(str(9 - number), bytes([9 - number]), 0, json.dumps({"released_at": at})))
    found, following = await Releases(store).page(0, 9)
    assert ([one["released_at"] for one in found], following) == (times, None)
    found, following = await Releases(store).page(1, 2)
    assert ([one["released_at"] for one in found], following) == (times[1:3], 3)
    await store.close()
