"""A log in memory as a reader sees it: signed bundles of a ``MemoryTree``, whole or in pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tacit.codec import b64url
from tacit.logview.view import Bundle
from tacit.signing import SigningKey
from tacit.tlog.checkpoint import Checkpoint, sign_checkpoint
from tacit.tlog.entries import BundleEntry
from tacit.tlog.hashes import Hashes
from tacit.tlog.key_sets import KeySets
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import prove_consistency, prove_inclusion
from tacit.tlog.pages import Head, encode_pages

ORIGIN = "log.example/tacit"


def signed_bundle(tree: MemoryTree, since: int, key: SigningKey, hidden: Iterable[int] = ()) -> Bundle:
    """Return every entry of ``tree`` except the ``hidden`` ones, with proofs, for a reader who last saw ``since``
    entries. The log's origin is ORIGIN."""
    left_out = set(hidden)
    entries = tuple(
        BundleEntry(index, leaf, tuple(prove_inclusion(tree.read, index, tree.size)))
        for index, leaf in enumerate(tree.entries)
        if index not in left_out
    )
    note = sign_checkpoint(Checkpoint(ORIGIN, tree.size, tree.root()), key)
    proof = prove_consistency(tree.read, since, tree.size) if since <= tree.size else ()
    return Bundle(note, tuple(proof), entries)


def paged(tree: MemoryTree, bundle: Bundle, path: str) -> bytes | None:
    """Return what a log with ``tree`` and the live entries of ``bundle`` answers for ``path``, one of the paths of
    ``tacit.tlog.pages``; None for one that it does not have."""
    pages = {b64url(hashlib.sha256(page).digest()): page for page in encode_pages(bundle.entries)}
    if path == "/v1/bundle":
        return Head(bundle.checkpoint, tuple(hashlib.sha256(page).digest() for page in pages.values())).encode()
    if path == "/v1/key-sets":
        sets = (entry for entry in bundle.entries if SignedLeaf.decode(entry.leaf).type is LeafType.OHTTP_CONFIG)
        return KeySets(bundle.checkpoint, tuple(sets)).encode()
    if path.startswith("/v1/hashes/"):
        size, block = map(int, path.removeprefix("/v1/hashes/").split("/"))
        try:
            return Hashes.read(tree.read, size, block).encode()
        except ValueError:
            return None
    return pages.get(path.removeprefix("/v1/bundle/"))
