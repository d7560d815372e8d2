"""The append-only tree, without its storage: what an append adds, and a tree in memory.

A store keeps two things: entries by index and hashes of perfect subtrees by (level, index). ``nodes_of_append`` returns
the rows that a new entry adds; a store writes them, with the new size, in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tacit.tlog.merkle import NodeReader, leaf_hash, node_hash, range_nodes, root_hash


@dataclass(frozen=True, slots=True)
class Node:
    """Hash of the perfect subtree ``index`` at ``level``."""

    level: int
    index: int
    hash: bytes


def nodes_of_append(read: NodeReader, size: int, entry: bytes) -> list[Node]:
    """The nodes that ``entry`` adds to a tree of ``size`` entries: its leaf and every subtree it completes."""
    level, index, current = 0, size, leaf_hash(entry)
    added = [Node(level, index, current)]
    while index & 1:
        current = node_hash(read(level, index - 1), current)
        level, index = level + 1, index >> 1
        added.append(Node(level, index, current))
    return added


def nodes_for_append(size: int) -> list[tuple[int, int]]:
    """The (level, index) of every node that ``nodes_of_append`` may read at ``size``: the tree's right edge."""
    return range_nodes(0, size)


class Tree(Protocol):
    """A whole tree with its entries, wherever it is stored."""

    @property
    def size(self) -> int:
        """Number of entries in the tree."""
        ...

    @property
    def entries(self) -> Sequence[bytes]:
        """All entries of the tree, in order."""
        ...

    def read(self, level: int, index: int, /) -> bytes:
        """Hash of a perfect subtree that is in the tree."""
        ...

    def root(self, size: int | None = None) -> bytes:
        """Root of the first ``size`` entries (default: all)."""
        ...

    def append(self, entry: bytes) -> int:
        """Add an entry; returns its index, counted from 0."""
        ...

    def clear(self) -> None:
        """Remove every entry, so that the next one has index 0 again."""
        ...


class MemoryTree:
    """A tree held in memory: ``read`` is its NodeReader; also the oracle in tests."""

    def __init__(self, entries: Iterable[bytes] = ()) -> None:
        self._nodes: dict[tuple[int, int], bytes] = {}
        self.entries: list[bytes] = []
        for entry in entries:
            self.append(entry)

    @property
    def size(self) -> int:
        return len(self.entries)

    def read(self, level: int, index: int) -> bytes:
        """Hash of a perfect subtree that is in the tree."""
        return self._nodes[level, index]

    def root(self, size: int | None = None) -> bytes:
        """Root of the first ``size`` entries (default: all)."""
        return root_hash(self.read, self.size if size is None else size)

    def clear(self) -> None:
        self._nodes.clear()
        self.entries.clear()

    def append(self, entry: bytes) -> int:
        index = self.size
        for node in nodes_of_append(self.read, index, entry):
            self._nodes[node.level, node.index] = node.hash
        self.entries.append(entry)
        return index
