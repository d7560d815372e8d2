"""A log's tree in files is the one in memory, also after its process ended at any moment, and believes no file."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.adapters.disk import kept_tree
from tacit.adapters.disk.kept_tree import FileTree
from tacit.errors import Fatal
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_inclusion

ENTRIES = [b"entry-%d" % number * (1 + number % 5) for number in range(300)]


def assert_same(tree: FileTree, size: int) -> None:
    right = MemoryTree(ENTRIES[:size])
    assert (tree.size, tree.root(), list(tree.entries)) == (size, right.root(), ENTRIES[:size])
    for index in range(0, size, 37):
        assert prove_inclusion(tree.read, index, size) == prove_inclusion(right.read, index, size)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(["append", "sync", "again", "end", "cut"]), st.integers(0, 60)), max_size=12))
def test_it_is_the_tree_in_memory_after_every_way_to_stop(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder, size, durable = tmp_path_factory.mktemp("tree"), 0, 0
    tree = FileTree(folder)
    for step, number in steps:
        if step == "append":
            for entry in ENTRIES[size : size + number]:
                assert tree.append(entry) == size
                size += 1
        elif step == "cut":
            size = min(size, number)
            tree.cut(size)
            durable = min(durable, size)
        elif step == "end":  # without a word: what was not made durable may be lost, and is
            tree.close()
            tree, size = FileTree(folder), durable
        else:
            tree.sync()
            durable = size
            if step == "again":
                tree.close()
                tree = FileTree(folder)
        assert_same(tree, size)
    tree.close()


def test_a_tree_that_is_larger_than_what_waits_in_memory_is_read_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_tree, "WAITING_BYTES", 100)
    tree = FileTree(tmp_path)
    for entry in ENTRIES:
        tree.append(entry)
    assert_same(tree, len(ENTRIES))
    assert tree.entries[-1] == ENTRIES[-1]
    assert list(tree.entries[290:999]) == ENTRIES[290:]
    with pytest.raises(IndexError):
        tree.entries[len(ENTRIES)]
    tree.clear()
    assert_same(tree, 0)
    tree.close()


@pytest.mark.parametrize("name", ["entries", "ends", "level-00", "level-03", "durable"])
def test_what_somebody_cut_off_is_read_from_the_log_anew(tmp_path: Path, name: str) -> None:
    written(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    tree = FileTree(tmp_path)
    assert_same(tree, 0)
    tree.close()


@pytest.mark.parametrize("name", ["entries", "ends", "level-00"])
def test_an_entry_that_somebody_changed_is_not_believed(tmp_path: Path, name: str) -> None:
    written(tmp_path)
    path = tmp_path / name
    changed = bytearray(path.read_bytes())
    changed[47] ^= 1
    path.write_bytes(changed)
    tree = FileTree(tmp_path)
    with pytest.raises(Fatal, match="has changed on the disk"):
        list(tree.entries)
    tree.close()


@pytest.mark.parametrize("end", [0, 2**64 - 1])
def test_an_entry_that_ends_before_it_begins_is_not_believed(tmp_path: Path, end: int) -> None:
    written(tmp_path)
    path = tmp_path / "ends"
    changed = bytearray(path.read_bytes())
    changed[40:48] = end.to_bytes(8, "big")
    path.write_bytes(changed)
    tree = FileTree(tmp_path)
    with pytest.raises(Fatal, match="has changed on the disk"):
        list(tree.entries)
    tree.close()


def written(folder: Path) -> None:
    tree = FileTree(folder)
    for entry in ENTRIES:
        tree.append(entry)
    tree.sync()
    tree.close()


def test_files_are_its_owners_alone_and_a_link_is_not_followed(tmp_path: Path) -> None:
    FileTree(tmp_path / "own").close()
    assert {oct(one.stat().st_mode & 0o777) for one in (tmp_path / "own").iterdir()} == {"0o600"}
    (tmp_path / "other").mkdir()
    (tmp_path / "target").write_bytes(b"precious")
    os.symlink(tmp_path / "target", tmp_path / "other" / "entries")
    with pytest.raises(OSError, match="symbolic links"):
        FileTree(tmp_path / "other")
    assert (tmp_path / "target").read_bytes() == b"precious"


def test_threads_read_beside_the_one_that_writes(tmp_path: Path) -> None:
    tree, wrong, seen, ended = FileTree(tmp_path), list[int](), set[int](), threading.Event()

    def read() -> None:
        last = False
        while not last:
            last, size = ended.is_set(), tree.size
            for index in range(max(0, size - 3), size):
                seen.add(index)
                if tree.entry(index) != ENTRIES[index]:
                    wrong.append(index)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(2) as readers:
        running = [readers.submit(read) for _ in range(2)]
        try:
            for number, entry in enumerate(ENTRIES):
                tree.append(entry)
                if number % 3 == 0:
                    tree.sync()
        finally:
            sys.setswitchinterval(before)
            ended.set()
        assert all(one.result(30) is None for one in running)
    assert (bool(seen), wrong) == (True, [])
    tree.close()
