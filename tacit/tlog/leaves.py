"""Typed signed leaves: the entries of the log.

An entry is the RFC 8785 JSON of {type, version, body, signer, signature}; the Ed25519 signature covers ``"tacit leaf
v1" NUL type NUL JCS(body)``. The body of a recipe leaf is the recipe (``tacit.recipe.model``), that of a series leaf
the series (``tacit.recipe.series``); the models of the others are in ``statements``, ``token_directories`` and
``key_sets``, so that a reader holds those that it reads. The reader determines a signer's key: see ``LeafKeys``.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import Field

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.signing import SIGNATURE_SIZE, Signer, verify
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validate
from tacit.tlog.fields import Blob, Body, Name

LEAF_VERSION = 1
LEAVES_KEPT = 256
LABEL = b"tacit leaf v1\0"
MAX_ENTRY_SIZE = 0xFFFF
"""Most bytes of an entry: its length in an entry bundle has 16 bits."""


class UnknownLeafError(DecodeError):
    """A leaf of a type or version newer than this reader: it may be left out, but never acted on."""


class LeafType(enum.StrEnum):
    """The types of entry that a log holds."""

    RECIPE = "recipe"
    SERIES = "series"
    OPT_IN = "opt-in"
    ISSUER_DIRECTORY = "issuer-directory"
    OHTTP_CONFIG = "ohttp-config"
    VOID = "void"
    CENSUS_SHARE = "census-share"
    SERIES_END = "series-end"


B = TypeVar("B", bound=Body)


@dataclass(frozen=True, slots=True)
class SignedLeaf:
    """A decoded entry. ``body`` is plain JSON; ``body_as`` gives its model."""

    type: LeafType
    body: Mapping[str, Any]
    signer: str
    signature: bytes
    _body_bytes: bytes = field(default=b"", repr=False, compare=False)

    def encode(self) -> bytes:
        """Encode the entry as canonical JSON, as the log holds it."""
        return canonical_bytes(
            {
                "type": self.type.value,
                "version": LEAF_VERSION,
                "body": dict(self.body),
                "signer": self.signer,
                "signature": b64url(self.signature),
            }
        )

    @staticmethod
    def decode(data: bytes) -> SignedLeaf:
        """Strict inverse of ``encode``. Raises DecodeError, or ``UnknownLeafError`` where a later reader may understand
        the leaf; the signature is checked by ``verify``."""
        if len(data) > MAX_ENTRY_SIZE:
            raise DecodeError(f"leaf has {len(data)} bytes, but an entry holds at most {MAX_ENTRY_SIZE}")
        return _decode(data)

    def body_as(self, model: builtins.type[B]) -> B:
        """The body as ``model``. Raises DecodeError."""
        if self._body_bytes:
            found: B = _body_of(model, self.type, self._body_bytes)  # type: ignore[assignment]
            return found
        return validate(model, dict(self.body), self.type.value)

    def body_bytes(self) -> bytes:
        """The body as canonical JSON (JCS), which is what is signed."""
        return self._body_bytes or canonical_bytes(dict(self.body))

    def verify(self, public: bytes) -> None:
        """Check the signature with the signer's 32-byte Ed25519 key. Raises CryptoError."""
        verify(public, self.signature, self.body_bytes(), label=leaf_label(self.type))


@lru_cache(maxsize=LEAVES_KEPT)
def _decode(data: bytes) -> SignedLeaf:
    """The leaf in ``data``; cached, because readers of a log decode the same bytes at each fetch."""
    content = parse_canonical(data, "leaf")
    _check_known(content.get("type"), content.get("version"))
    envelope = validate(Envelope, content, "leaf")
    return SignedLeaf(
        LeafType(envelope.type),
        envelope.body,
        envelope.signer,
        unb64url(envelope.signature, length=SIGNATURE_SIZE, what="leaf signature"),
        _body_within(data, content),
    )


def _body_within(data: bytes, content: Mapping[str, Any]) -> bytes:
    """The body of an entry ``data``, whose ``content`` is known, in canonical JSON: what precedes the other members,
    which are sorted and so stand behind it."""
    others = canonical_bytes({name: value for name, value in content.items() if name != "body"})
    return data[len(b'{"body":') : -len(others)]


@lru_cache(maxsize=LEAVES_KEPT)
def _body_of(model: type[Body], leaf_type: LeafType, body: bytes) -> Body:
    """The model of these canonical bytes: frozen, and a pure function of them, asked for again at each fetch."""
    return validate(model, parse_canonical(body, leaf_type.value), leaf_type.value)


def _check_known(leaf_type: object, version: object) -> None:
    if not isinstance(leaf_type, str) or not isinstance(version, int) or isinstance(version, bool):
        return
    if leaf_type not in set(LeafType) or version > LEAF_VERSION:
        raise UnknownLeafError(f"leaf: type {leaf_type[:32]!r}, version {version} is not known")


class Envelope(Body):
    """An entry as JSON. The signature is Ed25519 over ``"tacit leaf v1" NUL type NUL JCS(body)``."""

    type: Literal[
        "recipe", "series", "opt-in", "issuer-directory", "ohttp-config", "void", "census-share", "series-end"
    ]
    version: Annotated[int, Field(ge=1, le=1)]
    body: dict[str, Any]
    signer: Name
    signature: Blob


def leaf_label(leaf_type: LeafType) -> bytes:
    """Domain separation of a leaf's signature."""
    return LABEL + leaf_type.value.encode() + b"\0"


def sign_leaf(leaf_type: LeafType, body: Mapping[str, Any] | Body, signer: str, key: Signer) -> SignedLeaf:
    """A leaf of ``body`` in the name of ``signer``, signed with ``key`` over the canonical form. Raises as
    ``Signer.sign``."""
    plain = body.canonical() if isinstance(body, Body) else dict(body)
    return SignedLeaf(leaf_type, plain, signer, key.sign(leaf_label(leaf_type), canonical_bytes(plain)))


class LeafKeys(Protocol):
    """Determines the key with which each leaf must be signed."""

    def keys_of(self, leaves: Sequence[SignedLeaf]) -> Sequence[bytes | None]:
        """For each leaf the 32-byte Ed25519 key of its signer in that role; None: the signer has no such role
        for this reader. All leaves of a bundle are given at once, in the order of the log, because one leaf
        (a recipe) may name the keys of others; no signature has been checked yet."""
        ...
