"""RFC 6962 trees against the recursive definition, for every pair of sizes up to 70."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from tacit.errors import CryptoError
from tacit.tlog.log import MemoryTree, nodes_for_append, nodes_of_append
from tacit.tlog.merkle import (
    EMPTY_ROOT,
    leaf_hash,
    node_hash,
    prove_consistency,
    prove_inclusion,
    range_hash,
    root_hash,
    verify_consistency,
    verify_inclusion,
)

LARGEST = 70
ENTRIES = [f"entry {number}".encode() for number in range(LARGEST)]
TREE = MemoryTree(ENTRIES)


def mth(entries: Sequence[bytes]) -> bytes:
    """The definition of RFC 6962 section 2.1, word for word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return leaf_hash(entries[0])
    split = 1
    while split * 2 < len(entries):
        split *= 2
    return node_hash(mth(entries[:split]), mth(entries[split:]))


def audit_path(index: int, entries: Sequence[bytes]) -> list[bytes]:
    """PATH(m, D[n]) of RFC 6962 section 2.1.1."""
    if len(entries) == 1:
        return []
    split = 1
    while split * 2 < len(entries):
        split *= 2
    if index < split:
        return [*audit_path(index, entries[:split]), mth(entries[split:])]
    return [*audit_path(index - split, entries[split:]), mth(entries[:split])]


def subproof(old: int, entries: Sequence[bytes], *, whole: bool) -> list[bytes]:
    """SUBPROOF(m, D[n], b) of RFC 6962 section 2.1.2."""
    if old == len(entries):
        return [] if whole else [mth(entries)]
    split = 1
    while split * 2 < len(entries):
        split *= 2
    if old <= split:
        return [*subproof(old, entries[:split], whole=whole), mth(entries[split:])]
    return [*subproof(old - split, entries[split:], whole=False), mth(entries[:split])]


def test_roots_follow_the_recursive_definition() -> None:
    for size in range(LARGEST + 1):
        assert TREE.root(size) == mth(ENTRIES[:size])
    assert root_hash(TREE.read, 0) == EMPTY_ROOT == range_hash(TREE.read, 5, 5)


def test_known_roots_of_the_certificate_transparency_test_tree() -> None:
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    tree = MemoryTree(bytes.fromhex(text) for text in inputs)
    assert tree.root(1).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert tree.root(8).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


def test_every_inclusion_proof_up_to_70_is_the_rfc_path_and_verifies() -> None:
    for size in range(1, LARGEST + 1):
        root = TREE.root(size)
        for index in range(size):
            path = prove_inclusion(TREE.read, index, size)
            assert path == audit_path(index, ENTRIES[:size])
            verify_inclusion(leaf_hash(ENTRIES[index]), index, size, path, root)


def test_no_altered_inclusion_proof_verifies() -> None:
    for size in (1, 2, 3, 7, 8, 33, 70):
        root = TREE.root(size)
        for index in range(size):
            leaf = leaf_hash(ENTRIES[index])
            path = prove_inclusion(TREE.read, index, size)
            wrong = [
                (leaf_hash(b"other"), index, size, path, root),
                (leaf, index, size, [*path, bytes(32)], root),
                (leaf, index, size, path, bytes(32)),
                (leaf, size, size, path, root),
                (leaf, -1, size, path, root),
                (leaf, index, size, [item[:31] for item in path] or [b""], root),
            ]
            if path:
                wrong.append((leaf, index, size, path[:-1], root))
                wrong.append((leaf, index, size, path[1:], root))
            if index + 1 < size:
                wrong.append((leaf, index + 1, size, path, root))
            for at in range(len(path)):
                changed = list(path)
                changed[at] = bytes(32)
                wrong.append((leaf, index, size, changed, root))
            for case in wrong:
                with pytest.raises(CryptoError):
                    verify_inclusion(*case)


def test_every_consistency_proof_up_to_70_is_the_rfc_proof_and_verifies() -> None:
    for new in range(LARGEST + 1):
        new_root = TREE.root(new)
        for old in range(new + 1):
            proof = prove_consistency(TREE.read, old, new)
            if old:
                assert proof == subproof(old, ENTRIES[:new], whole=True)
            verify_consistency(old, TREE.root(old), new, new_root, proof)


def test_no_altered_consistency_proof_verifies() -> None:
    for new in range(1, LARGEST + 1):
        new_root = TREE.root(new)
        for old in range(1, new):
            old_root = TREE.root(old)
            proof = prove_consistency(TREE.read, old, new)
            wrong: list[tuple[int, bytes, int, bytes, list[bytes]]] = [
                (old, bytes(32), new, new_root, proof),
                (old, old_root, new, bytes(32), proof),
                (old, new_root, new, new_root, proof),
                (old, old_root, new, new_root, [*proof, bytes(32)]),
                (old, old_root, new, new_root, proof[:-1]),
                (new, old_root, old, new_root, proof),
                (old, old_root, new, new_root, [bytes(32), *proof[1:]]),
            ]
            for case in wrong:
                with pytest.raises(CryptoError):
                    verify_consistency(*case)


def test_consistency_between_equal_or_empty_trees_takes_no_proof() -> None:
    root = TREE.root(5)
    verify_consistency(5, root, 5, root, [])
    verify_consistency(0, EMPTY_ROOT, 5, root, [])
    for case in (
        (5, root, 5, TREE.root(6), []),
        (5, root, 5, root, [bytes(32)]),
        (0, EMPTY_ROOT, 5, root, [bytes(32)]),
        (0, bytes(32), 5, root, []),
        (3, TREE.root(3), 5, root, []),
        (4, TREE.root(4), 5, root, []),
    ):
        with pytest.raises(CryptoError):
            verify_consistency(*case)


def test_proofs_outside_the_tree_are_a_programmers_error() -> None:
    with pytest.raises(ValueError, match="no leaf 5"):
        prove_inclusion(TREE.read, 5, 5)
    with pytest.raises(ValueError, match="cannot extend"):
        prove_consistency(TREE.read, 6, 5)


def test_an_append_reads_the_right_edge_only() -> None:
    for size in range(LARGEST):
        allowed = set(nodes_for_append(size))

        def read(level: int, index: int, allowed: set[tuple[int, int]] = allowed) -> bytes:
            assert (level, index) in allowed
            return TREE.read(level, index)

        for node in nodes_of_append(read, size, ENTRIES[size]):
            assert node.hash == TREE.read(node.level, node.index)
