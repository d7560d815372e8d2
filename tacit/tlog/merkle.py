"""Merkle tree hashing and proofs of RFC 6962 section 2.1 (SHA-256), verified by the algorithms of RFC 9162
section 2.1.

Pure functions over hashes. A prover reads the tree through ``NodeReader``: a function that gives the hash of
a perfect subtree by (level, index), where level 0 are the leaf hashes; a tree of size n has such a node
wherever ``(index + 1) << level <= n``. Nothing else of a tree is ever stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from tacit.errors import CryptoError

HASH_SIZE = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()

NodeReader = Callable[[int, int], bytes]
"""``read(level, index)`` -> hash of the perfect subtree over leaves ``[index << level, (index + 1) <<
level)``."""


def leaf_hash(entry: bytes) -> bytes:
    """The leaf hash of RFC 6962: SHA-256(0x00 || entry), 32 bytes."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def range_nodes(start: int, end: int) -> list[tuple[int, int]]:
    """The perfect subtrees, as (level, index) from left to right, that RFC 6962 cuts ``[start, end)`` into.

    ``start`` must be a multiple of the largest power of two that is smaller than or equal to ``end - start``,
    which holds for every range that a proof names.
    """
    nodes = []
    while start < end:
        level = (end - start).bit_length() - 1
        nodes.append((level, start >> level))
        start += 1 << level
    return nodes


def range_hash(read: NodeReader, start: int, end: int) -> bytes:
    """MTH of the leaves ``[start, end)``; the empty range gives ``EMPTY_ROOT``."""
    hashes = [read(level, index) for level, index in range_nodes(start, end)]
    if not hashes:
        return EMPTY_ROOT
    result = hashes.pop()
    while hashes:
        result = node_hash(hashes.pop(), result)
    return result


def root_hash(read: NodeReader, size: int) -> bytes:
    """Root of the tree over the first ``size`` leaves."""
    return range_hash(read, 0, size)


def _split(count: int) -> int:
    """The largest power of two smaller than ``count`` (>= 2)."""
    return 1 << (count - 1).bit_length() - 1


def prove_inclusion(read: NodeReader, index: int, size: int) -> list[bytes]:
    """Audit path of leaf ``index`` in the tree of ``size`` leaves, from the leaf upwards."""
    if not 0 <= index < size:
        raise ValueError(f"no leaf {index} in a tree of {size}")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(range_hash(read, middle, end))
            end = middle
        else:
            path.append(range_hash(read, start, middle))
            start = middle
    path.reverse()
    return path


def prove_consistency(read: NodeReader, old: int, new: int) -> list[bytes]:
    """Proof that the tree of ``new`` leaves extends the one of ``old``; empty for old = 0 and old = new."""
    if not 0 <= old <= new:
        raise ValueError(f"a tree of {new} cannot extend one of {old}")
    if old in {0, new}:
        return []
    path: list[bytes] = []
    start, end = 0, new
    while old != end:
        middle = start + _split(end - start)
        if old <= middle:
            path.append(range_hash(read, middle, end))
            end = middle
        else:
            path.append(range_hash(read, start, middle))
            start = middle
    if start:
        path.append(range_hash(read, start, end))
    path.reverse()
    return path


def _check_sizes(hashes: Sequence[bytes]) -> None:
    if any(len(item) != HASH_SIZE for item in hashes):
        raise CryptoError("a hash of the proof has the wrong length")


def root_from_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root to which the audit path leads; ``leaf`` is a leaf hash. CryptoError if the path has the wrong shape."""
    if not 0 <= index < size:
        raise CryptoError("inclusion proof for a leaf outside the tree")
    _check_sizes([leaf, *path])
    inner, last, result = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise CryptoError("inclusion proof is too long")
        if inner & 1 or inner == last:
            result = node_hash(sibling, result)
            while not inner & 1 and inner:
                inner >>= 1
                last >>= 1
        else:
            result = node_hash(result, sibling)
        inner >>= 1
        last >>= 1
    if last:
        raise CryptoError("inclusion proof is too short")
    return result


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that leaf hash ``leaf`` is at ``index`` of the tree (size, root). Raises CryptoError."""
    if root_from_inclusion(leaf, index, size, path) != root:
        raise CryptoError("inclusion proof does not lead to the root")


def verify_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Check that tree (new, new_root) extends tree (old, old_root). Raises CryptoError."""
    if not 0 <= old <= new:
        raise CryptoError("consistency proof for a shrinking tree")
    _check_sizes([old_root, new_root, *proof])
    if old in {0, new}:
        _verify_trivial(old, old_root, new, new_root, proof)
        return
    hashes = list(proof)
    if old & (old - 1) == 0:
        hashes.insert(0, old_root)
    if not hashes:
        raise CryptoError("consistency proof is too short")
    inner, last = old - 1, new - 1
    while inner & 1:
        inner >>= 1
        last >>= 1
    before = after = hashes[0]
    for item in hashes[1:]:
        if last == 0:
            raise CryptoError("consistency proof is too long")
        if inner & 1 or inner == last:
            before, after = node_hash(item, before), node_hash(item, after)
            while not inner & 1 and inner:
                inner >>= 1
                last >>= 1
        else:
            after = node_hash(after, item)
        inner >>= 1
        last >>= 1
    if last or before != old_root or after != new_root:
        raise CryptoError("consistency proof does not join the two roots")


def _verify_trivial(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    if proof:
        raise CryptoError("consistency proof is too long")
    if old == 0 and old_root != EMPTY_ROOT:
        raise CryptoError("this is not the root of the empty tree")
    if old == new and old_root != new_root:
        raise CryptoError("two different roots for one tree size")


def reads_of(compute: Callable[[NodeReader], object]) -> set[tuple[int, int]]:
    """The (level, index) of every node that ``compute`` reads. The reads of a proof depend on sizes only, not on
    hashes, so a store first determines what to fetch, and then computes."""
    wanted: set[tuple[int, int]] = set()

    def note(level: int, index: int) -> bytes:
        wanted.add((level, index))
        return bytes(HASH_SIZE)

    compute(note)
    return wanted
