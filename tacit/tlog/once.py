"""What one log must never hold twice (P3, P8, P26): the first leaf wins, every party refuses the second.

``claims_of`` names what a leaf takes for itself. Two leaves of one log with a claim in common are evidence that the
log, or one of its signers, shows different things to different readers. It reads plain members and not the models, so
that a leaf of a later version, or one that this reader could not decode, still counts for what it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.errors import DecodeError
from tacit.tlog.canonical import parse_canonical
from tacit.tlog.leaves import LeafType, SignedLeaf

MAX_CLAIM = 1024
"""Bytes of the longest claim: names have at most 253, hashes 43."""

_NAMES: Mapping[LeafType, Mapping[str, tuple[str, ...]]] = {
    LeafType.RECIPE: {
        "slot": ("token.issuer", "token.epoch", "token.slot"),
        "round": ("series.hash", "series.index"),
    },
    LeafType.ISSUER_DIRECTORY: {"directory": ("issuer", "epoch")},
    LeafType.OHTTP_CONFIG: {"key-set": ("gateway", "period")},
    LeafType.OPT_IN: {"opt-in": ("recipe_hash", "role")},
    LeafType.VOID: {"void": ("recipe_hash", "role")},
    LeafType.CENSUS_SHARE: {"census-share": ("recipe_hash", "role")},
}

KINDS = frozenset(kind for kinds in _NAMES.values() for kind in kinds)
"""The first words of all claims."""
_SIGNERS = frozenset({LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG})


def signers_claims_of(leaf: SignedLeaf) -> tuple[str, ...]:
    """Those claims of ``leaf`` that its signer can make once in all its time, whatever else the log holds: two leaves
    with different bodies prove that the signer shows different keys to different readers."""
    return claims_of(leaf) if leaf.type in _SIGNERS else ()


def claims_of(leaf: SignedLeaf) -> tuple[str, ...]:
    """What ``leaf`` takes for itself, as texts like ``slot issuer.example 19000 3``; a claim of which a member is
    missing or is no name or number is none."""
    return _claims(leaf.type, leaf.body)


def claims_in(entry: bytes) -> tuple[str, ...]:
    """What an entry of the log takes for itself, of whatever version it is and whoever signed it."""
    try:
        content = parse_canonical(entry, "leaf")
    except DecodeError:
        return ()
    leaf_type, body = content.get("type"), content.get("body")
    if not isinstance(leaf_type, str) or leaf_type not in set(LeafType) or not isinstance(body, Mapping):
        return ()
    return _claims(LeafType(leaf_type), body)


def _claims(leaf_type: LeafType, body: Mapping[str, Any]) -> tuple[str, ...]:
    found = []
    for kind, paths in _NAMES.get(leaf_type, {}).items():
        values = [_member(body, path) for path in paths]
        if all(value is not None for value in values):
            claim = " ".join((kind, *map(str, values)))
            if len(claim.encode()) <= MAX_CLAIM:
                found.append(claim)
    return tuple(found)


def _member(body: Mapping[str, Any], path: str) -> str | None:
    """The name or number at ``path``: a text has no space in it, so that no two lists of members read alike."""
    value: Any = body
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value and not any(char.isspace() for char in value) else None
