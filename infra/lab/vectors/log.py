"""Vectors of the transparency log: a small tree with every proof."""

from __future__ import annotations

import json
from typing import Any

from infra.lab.kit.bundles import ORIGIN, paged, signed_bundle
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, KEY_PERIOD, KEY_ROTATION
from infra.lab.vectors.cast import Cast, cast
from tacit.codec import b64url
from tacit.logview.view import Bundle
from tacit.tlog.checkpoint import COSIGNATURE, Checkpoint, Note, NoteKey, NoteSignature, sign_checkpoint
from tacit.tlog.cosignature import cosign
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import leaf_hash, prove_consistency, prove_inclusion
from tacit.tlog.token_directories import IssuerDirectory, SlotKey

WITNESS = "witness.example/tacit"
KNOWN = 3
"""Number of entries of the old tree in the consistency proof."""


def log() -> dict[str, Any]:
    """Return a log with a directory, a key set, a recipe and its opt-ins, then a second recipe with one opt-in,
    and a series that its analyst has ended."""
    people = cast()
    leaves = _leaves(people)
    tree = MemoryTree(leaf.encode() for leaf in leaves)
    key = people.kit.keys["log"]
    note = _cosigned(people, sign_checkpoint(Checkpoint(ORIGIN, tree.size, tree.root()), key))
    bundle = signed_bundle(tree, 0, key)
    bundle = Bundle(note, (), bundle.entries)
    head = json.loads(paged(tree, bundle, "/v1/bundle") or b"")
    return {
        "log_key": people.kit.log_policy.log_key.encode(),
        "witness_key": NoteKey(WITNESS, people.witness.public, COSIGNATURE).encode(),
        "leaves": [_leaf(leaf, tree, index) for index, leaf in enumerate(leaves)],
        "size": tree.size,
        "root": tree.root().hex(),
        "checkpoint": note.decode(),
        "head": head,
        "pages": [json.loads(paged(tree, bundle, f"/v1/bundle/{digest}") or b"") for digest in head["pages"]],
        "page_bytes": [(paged(tree, bundle, f"/v1/bundle/{digest}") or b"").hex() for digest in head["pages"]],
        "known_size": KNOWN,
        "known_root": tree.root(KNOWN).hex(),
        "hashes": json.loads(paged(tree, bundle, f"/v1/hashes/{tree.size}/0") or b""),
        "consistency_proof": [one.hex() for one in prove_consistency(tree.read, KNOWN, tree.size)],
    }


def _leaf(leaf: SignedLeaf, tree: MemoryTree, index: int) -> dict[str, Any]:
    entry = leaf.encode()
    return {
        "index": index,
        "type": leaf.type.value,
        "entry": entry.decode(),
        "signed": (b"tacit leaf v1\0" + leaf.type.value.encode() + b"\0" + leaf.body_bytes()).hex(),
        "leaf_hash": leaf_hash(entry).hex(),
        "inclusion_proof": [one.hex() for one in prove_inclusion(tree.read, index, tree.size)],
    }


def _leaves(people: Cast) -> list[SignedLeaf]:
    kit, (config, _) = people.kit, people.gateway
    first, second = (people.recipes[name] for name in ("doctor-visits", "crashed"))
    spki, series = b64url(people.issuer.token_key.spki), kit.series(slot=4)
    directory = IssuerDirectory(
        issuer="issuer.example",
        epoch=EPOCH,
        epoch_seconds=EPOCH_SECONDS,
        request_uri="/token-request",
        keys=[SlotKey(slot=0, token_key=spki)],
    )
    key_set = OhttpConfig(
        gateway="gateway.example",
        period=KEY_PERIOD,
        rotation_seconds=KEY_ROTATION,
        active=b64url(config.encode()),
    )
    return [
        sign_leaf(LeafType.ISSUER_DIRECTORY, directory, "issuer.example", kit.keys["issuer"]),
        sign_leaf(LeafType.OHTTP_CONFIG, key_set, "gateway.example", kit.keys["gateway"]),
        kit.recipe_leaf(first),
        kit.opt_in_leaf(first, "leader"),
        kit.opt_in_leaf(first, "helper"),
        kit.recipe_leaf(second),
        kit.opt_in_leaf(second, "leader"),
        kit.series_leaf(series),
        kit.series_end_leaf(series),
    ]


def _cosigned(people: Cast, data: bytes) -> bytes:
    note = Note.decode(data)
    line: NoteSignature = cosign(note.text, WITNESS, people.witness, people.now)
    return Note(note.text, (*note.signatures, line)).encode()
