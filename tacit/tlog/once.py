"""What one log must never hold twice (P3, P8, P26): the first leaf wins, every party refuses the second.

``claims_of`` returns what a leaf claims exclusively. Two leaves of one log with a claim in common are evidence that the
log, or one of its signers, shows different things to different readers. This module reads plain members and not the
models, so that a leaf of a later version, or one that this reader could not decode, still counts with its claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.errors import DecodeError
from tacit.tlog.canonical import parse_canonical
from tacit.tlog.leaves import LeafType, SignedLeaf

MAX_CLAIM = 1024
"""Most bytes of a claim: names have at most 253, hashes 43."""

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
    LeafType.SERIES_END: {"series-end": ("series_hash",)},
}

KINDS = frozenset(kind for kinds in _NAMES.values() for kind in kinds)
"""The first words of all claims."""
_SIGNERS = frozenset({LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG})


def signers_claims_of(leaf: SignedLeaf) -> tuple[str, ...]:
    """The claims of ``leaf`` that its signer may make only once, in any log: two leaves with different bodies prove
    that the signer shows different keys to different readers."""
    return claims_of(leaf) if leaf.type in _SIGNERS else ()


def claims_of(leaf: SignedLeaf) -> tuple[str, ...]:
    """What ``leaf`` claims exclusively, as texts like ``slot issuer.example 19000 3``; a claim with a member that is
    missing, or is not a name or number, is ignored."""
    return _claims(leaf.type, leaf.body)


def claims_in(entry: bytes) -> tuple[str, ...]:
    """What an entry of the log claims exclusively, whatever its version and signer."""
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
    """The name or number at ``path``; texts must not contain spaces, so that different lists of members never give the
    same claim."""
    value: Any = body
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value and not any(char.isspace() for char in value) else None
