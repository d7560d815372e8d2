"""What a log answers to readers in pieces: heads, pages, hashes, and a reader whose log changes or lies."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.bundles import paged, signed_bundle
from infra.lab.kit.recipes import EPOCH, RecipeKit
from tacit.codec import b64url
from tacit.errors import DecodeError, Refusal
from tacit.logview.paged import ATTEMPTS, PagedReader
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogState, LogView
from tacit.ohttp import SIZE_CLASSES
from tacit.ports import TransportError
from tacit.tlog.entries import PAGE_SIZE, BundleEntry
from tacit.tlog.hashes import BLOCK, Hashes, block_of
from tacit.tlog.leaves import MAX_ENTRY_SIZE
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_consistency
from tacit.tlog.pages import CAPACITY, MAX_PAGES, PROOF_RESERVE, Head, decode_page, encode_pages, entry_bytes

KIT = RecipeKit()
KEY = KIT.keys["log"]
TREE = MemoryTree(number.to_bytes(4, "big") for number in range(1700))


class Log:
    """A log in memory that counts what it is asked for."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.asked: list[str] = []

    def publish(self, first: int, count: int) -> None:
        for epoch in range(first, first + count):
            self.tree.append(KIT.directory_leaf(EPOCH + epoch, 1).encode())

    async def get(self, path: str) -> bytes | None:
        self.asked.append(path)
        return paged(self.tree, signed_bundle(self.tree, 0, KEY), path)


def new_view(state: LogState | None = None) -> LogView:
    return LogView(KIT.log_policy, state)


SIGNERS = LeafSigners(KIT.policy)


@pytest.mark.parametrize("step", [31, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 512, 513, 1024, 1029, 1700])
def test_hashes_prove_every_earlier_tree_from_its_block(size: int, step: int) -> None:
    made: dict[int, Hashes] = {}
    for known in sorted({*range(1, size, step), *(at for at in (2, 255, 256, 257, 512, size - 1) if 0 < at < size)}):
        block = block_of(known, size)
        hashes = made.setdefault(block, Hashes.decode(Hashes.read(TREE.read, size, block).encode()))
        assert hashes.prove(known) == tuple(prove_consistency(TREE.read, known, size))
    assert all(len(hashes.encode()) < SIZE_CLASSES[2] - 200 for hashes in made.values())


def test_readers_of_the_last_block_all_ask_for_the_same_hashes() -> None:
    assert {block_of(known, 1700) for known in range(5 * BLOCK, 1700)} == {5}
    assert [block_of(known, 1700) for known in (1, BLOCK, 5 * BLOCK - 1)] == [0, 1, 4]


def test_hashes_that_lack_one_or_have_too_many_are_refused() -> None:
    hashes = Hashes.read(TREE.read, 1700, 5)
    for leaves, nodes in ((hashes.leaves[:100], hashes.nodes), (hashes.leaves, ())):
        with pytest.raises(DecodeError, match="missing"):
            Hashes(1700, hashes.start, leaves, nodes).prove(1500)
    with pytest.raises(DecodeError, match="missing"):
        Hashes(1 << 40, 0, hashes.leaves, ()).prove(1 << 39)
    plain = json.loads(hashes.encode())
    for change in ({"leaves": b64url(bytes(33))}, {"leaves": b64url(bytes(32 * 513))}, {"nodes": [[65, 0, "A" * 43]]}):
        with pytest.raises(DecodeError):
            Hashes.decode(json.dumps({**plain, **change}).encode())


hashes_lists = st.lists(st.binary(min_size=32, max_size=32), max_size=4).map(tuple)


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(min_size=1, max_size=20), hashes_lists), min_size=1))
def test_any_entries_round_trip_through_pages(entries: list[tuple[int, bytes, tuple[bytes, ...]]]) -> None:
    whole = [BundleEntry(*entry) for entry in entries]
    assert [entry for page in encode_pages(whole) for entry in decode_page(page)] == whole
    head = Head(b"note\n", tuple(hashlib.sha256(page).digest() for page in encode_pages(whole)))
    assert Head.decode(head.encode()) == head


@given(st.lists(st.integers(1, MAX_ENTRY_SIZE), min_size=1, max_size=12))
def test_entries_within_the_room_fit_the_pages_and_pages_fit_the_largest_message(sizes: list[int]) -> None:
    proof = (bytes(32),) * PROOF_RESERVE
    entries = [BundleEntry(index, bytes(size), proof) for index, size in enumerate(sizes)]
    pages = encode_pages(entries)
    assert max(map(len, pages)) <= PAGE_SIZE < SIZE_CLASSES[-1] - 512
    assert sum(map(len, pages)) <= sum(map(entry_bytes, sizes)) + 16 * len(pages)
    room = CAPACITY // MAX_PAGES
    assert len(pages) <= 1 + sum(map(entry_bytes, sizes)) / room


def test_what_is_too_large_or_has_too_many_pages_is_refused_before_it_is_parsed() -> None:
    for decode in (Head.decode, decode_page, Hashes.decode):
        with pytest.raises(DecodeError, match="at most"):
            decode(b"[" * (PAGE_SIZE + 1))
    digests = ['"' + b64url(number.to_bytes(32, "big")) + '"' for number in range(MAX_PAGES + 1)]
    with pytest.raises(DecodeError, match="head"):
        Head.decode(('{"checkpoint":"x","pages":[' + ",".join(digests) + "]}").encode())


async def test_a_reader_fetches_pages_once_and_again_only_when_they_change() -> None:
    log, view = Log(), new_view()
    log.publish(0, 300)
    reader = PagedReader(log.get)
    assert len(await reader.read(view, SIGNERS) or ()) == 300
    assert len(log.asked) == 4
    log.asked.clear()
    assert await reader.read(view, SIGNERS) is None
    assert log.asked == ["/v1/bundle"]
    log.publish(300, 1)
    assert len(await reader.read(view, SIGNERS) or ()) == 301
    assert view.state.size == 301


async def test_readers_who_last_saw_different_trees_ask_for_the_same_things() -> None:
    log = Log()
    log.publish(0, 5)
    views = []
    for grown in (0, 40, 0):
        log.publish(log.tree.size, grown)
        views.append(new_view())
        await PagedReader(log.get).read(views[-1], SIGNERS)
    log.publish(log.tree.size, 9)
    asked = []
    for view in views:
        log.asked.clear()
        await PagedReader(log.get).read(view, SIGNERS)
        asked.append(tuple(log.asked))
    assert len(set(asked)) == 1


async def test_a_new_reader_and_one_that_knows_the_tree_ask_for_what_everybody_asks_for() -> None:
    """Else a log would see who is here for the first time, and whose last tree it was that it shows again."""
    log = Log()
    log.publish(0, 2 * BLOCK + 20)
    known = new_view()
    await PagedReader(log.get).read(known, SIGNERS)
    older = LogState(2 * BLOCK + 3, log.tree.root(2 * BLOCK + 3))
    asked = []
    for view in (new_view(), known, new_view(older)):
        log.asked.clear()
        await PagedReader(log.get).read(view, SIGNERS)
        asked.append(tuple(log.asked))
    assert len(set(asked)) == 1


async def test_a_log_that_grows_between_two_pages_is_read_again_and_one_that_never_rests_is_given_up() -> None:
    log = Log()
    log.publish(0, 2)
    turns = 2

    async def growing(path: str) -> bytes | None:
        nonlocal turns
        if path.startswith("/v1/bundle/") and turns:
            turns -= 1
            log.publish(log.tree.size, 1)
        return await log.get(path)

    view = new_view()
    assert len(await PagedReader(growing).read(view, SIGNERS) or ()) == 4
    turns = 1000
    with pytest.raises(TransportError, match="changed each time"):
        await PagedReader(growing).read(view, SIGNERS)
    assert turns == 1000 - ATTEMPTS
    assert view.state.size == 4


async def test_another_page_than_the_one_asked_for_is_refused() -> None:
    log = Log()
    log.publish(0, 2)
    other = encode_pages(signed_bundle(log.tree, 0, KEY, hidden=[0]).entries)[0]

    async def swapping(path: str) -> bytes | None:
        return other if path.startswith("/v1/bundle/") else await log.get(path)

    with pytest.raises(DecodeError, match="not the one"):
        await PagedReader(swapping).read(new_view(), SIGNERS)


async def test_false_hashes_prove_nothing_and_end_no_trust() -> None:
    log, view = Log(), new_view()
    log.publish(0, 3)
    await PagedReader(log.get).read(view, SIGNERS)
    log.publish(3, 3)

    async def lying(path: str) -> bytes | None:
        if not path.startswith("/v1/hashes/"):
            return await log.get(path)
        return Hashes(6, 0, (bytes(32),) * 6, ()).encode()

    with pytest.raises(Refusal, match="log-consistency"):
        await PagedReader(lying).read(view, SIGNERS)
    assert not view.state.failure
    assert len(await PagedReader(log.get).read(view, SIGNERS) or ()) == 6
