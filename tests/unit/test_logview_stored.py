"""A log's live entries in a database: what is stored with what, and what a later reading is held against."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

import pytest

from infra.lab.kit.bundles import paged, signed_bundle
from infra.lab.kit.recipes import RecipeKit
from services.collector.store import CollectorStore
from tacit.errors import Refusal
from tacit.logview.contents import RememberedLog
from tacit.logview.stored import LeavesTx, StoredLog, stored_live
from tacit.logview.view import VerifiedEntry
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.log import MemoryTree

KIT = RecipeKit()
POLICY = KIT.policy.model_copy(update={"issuers": None})
"""Only a recipe names the issuer's key."""


class Served:
    """A log whose server leaves out what it is told to."""

    def __init__(self, *leaves: SignedLeaf) -> None:
        self.tree = MemoryTree(leaf.encode() for leaf in leaves)
        self.hidden: set[int] = set()

    def add(self, leaf: SignedLeaf) -> None:
        self.tree.append(leaf.encode())

    async def get(self, path: str) -> bytes | None:
        return paged(self.tree, signed_bundle(self.tree, 0, KIT.keys["log"], self.hidden), path)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[CollectorStore]:
    found = CollectorStore(f"sqlite+aiosqlite:///{tmp_path / 'collector.sqlite3'}")
    await found.open()
    yield found
    await found.close()


async def stored(store: CollectorStore) -> tuple[bytes | None, list[int]]:
    async with store.read() as tx:
        return await tx.log_state(), [index for index, _ in await tx.leaves()]


async def test_a_leaf_whose_signer_a_later_recipe_names_counts_from_then_on(store: CollectorStore) -> None:
    log = Served(KIT.directory_leaf(), KIT.ohttp_leaf())
    reader = StoredLog(store, log.get, KIT.log_policy, POLICY)
    assert (await reader.fetch(), (await stored(store))[1]) == (1, [1])
    assert await reader.fetch() == 0
    log.add(KIT.recipe_leaf(KIT.recipe()))
    assert (await reader.fetch(), (await stored(store))[1]) == (2, [0, 1, 2])
    async with store.read() as tx:
        assert (await stored_live(tx)).directories == (KIT.directory(),)
    log.hidden = {0}
    log.add(KIT.directory_leaf(slots=2))
    with pytest.raises(Refusal, match="log-second-leaf"):
        await reader.fetch()
    log.hidden = {0, 3}
    for again in (reader, StoredLog(store, log.get, KIT.log_policy, POLICY)):
        with pytest.raises(Refusal, match="log-second-leaf"):
            await again.fetch()
    assert (await stored(store))[1] == [0, 1, 2]


async def test_nothing_is_stored_of_what_is_not_admitted(store: CollectorStore) -> None:
    log = Served(KIT.ohttp_leaf())
    reader = StoredLog(store, log.get, KIT.log_policy, POLICY)
    shown: list[tuple[list[int], list[int]]] = []

    async def refused(_tx: LeavesTx, entries: Sequence[VerifiedEntry], before: Collection[int]) -> bool:
        shown.append(([entry.index for entry in entries], list(before)))
        return False

    assert await reader.fetch(refused) is None
    assert await stored(store) == (None, [])
    assert await reader.fetch() == 1
    log.add(KIT.recipe_leaf(KIT.recipe()))
    assert await reader.fetch(refused) is None
    assert shown == [([0], []), ([0, 1], [0])]


async def test_a_log_in_memory_must_extend_what_it_showed_before() -> None:
    log = Served(KIT.ohttp_leaf(), KIT.recipe_leaf(KIT.recipe()))
    reader = RememberedLog(log.get, KIT.log_policy, POLICY)
    found = await reader.read()
    assert [one.recipe for one in found.recipes] == [KIT.recipe()]
    assert await reader.read() is found
    log.tree = MemoryTree([KIT.ohttp_leaf().encode()])
    with pytest.raises(Refusal, match="log-rollback"):
        await reader.read()
