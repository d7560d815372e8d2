"""A log in memory as a reader meets it: signed bundles of a ``MemoryTree``."""

from __future__ import annotations

from tacit.signing import SigningKey
from tacit.tlog.checkpoint import Checkpoint, sign_checkpoint
from tacit.tlog.client import Bundle, BundleEntry
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_consistency, prove_inclusion

ORIGIN = "log.example/tacit"


def signed_bundle(tree: MemoryTree, since: int, key: SigningKey) -> bytes:
    """Every entry of ``tree`` with proofs, for a reader who last saw ``since`` entries; the log is ORIGIN."""
    entries = tuple(
        BundleEntry(index, leaf, tuple(prove_inclusion(tree.read, index, tree.size)))
        for index, leaf in enumerate(tree.entries)
    )
    note = sign_checkpoint(Checkpoint(ORIGIN, tree.size, tree.root()), key)
    return Bundle(note, tuple(prove_consistency(tree.read, since, tree.size)), entries).encode()
