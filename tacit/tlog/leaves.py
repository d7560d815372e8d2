"""Typed signed leaves: the entries of the log.

An entry is the RFC 8785 JSON of {type, version, body, signer, signature}; the Ed25519 signature covers ``"tacit leaf
v1" NUL type NUL JCS(body)``. The body of a recipe leaf is the recipe (``tacit.recipe.model``), that of a series leaf
the series (``tacit.recipe.series``); the other bodies are the models below. The reader determines a signer's key: see
``LeafKeys``.
"""

from __future__ import annotations

import builtins
import enum
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.signing import SIGNATURE_SIZE, Signer, verify
from tacit.tlog.canonical import MAX_INTEGER, canonical_bytes, parse_canonical, validated
from tacit.tlog.tiles import MAX_ENTRY_SIZE

LEAF_VERSION = 1
LEAVES_KEPT = 256
LABEL = b"tacit leaf v1\0"
MIN_ROTATION_SECONDS = 60
MAX_ROTATION_SECONDS = 366 * 86400
MAX_LOOKAHEAD = 2
"""Most epochs by which an issuer publishes a directory ahead."""


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


def _base64_of(length: int | None) -> Any:
    def check(text: str) -> str:
        data = unb64url(text, length=length)
        if not data:
            raise DecodeError("value is empty")
        return text

    return AfterValidator(check)


def _described(pattern: str) -> Any:
    """The pattern for the JSON Schema; ``_base64_of`` checks the text itself."""
    return Field(json_schema_extra={"contentEncoding": "base64url", "pattern": pattern})


_OF_32 = _described("^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")
Hash = Annotated[str, _base64_of(32), _OF_32]
"""A hash as JSON text: base64url of 32 bytes."""
Key32 = Annotated[str, _base64_of(32), _OF_32]
"""base64url of a raw 32-byte key."""
Blob = Annotated[str, _base64_of(None), _described("^[A-Za-z0-9_-]{2,}$")]
"""base64url of at least one byte."""
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$")]
"""Operator, issuer or gateway name."""
Role = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")]
"""A party's role in a recipe, such as ``leader``."""


class Body(BaseModel):
    """Base of the leaf bodies: frozen, strict, no unknown members."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    def canonical(self) -> dict[str, Any]:
        """The body as JSON values, absent members left out."""
        return self.model_dump(mode="json", exclude_none=True)


class OptIn(Body):
    """The statement that a party required by the recipe's model, such as leader and helper, takes part (P5). Two
    aggregators of one task confirm its verify key by ``seed_id`` and ``verify_key_confirmation``."""

    recipe_hash: Hash
    task_id: Hash
    role: Role
    seed_id: Name | None = None
    verify_key_confirmation: Hash | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse one of the two without the other."""
        if (self.seed_id is None) != (self.verify_key_confirmation is None):
            raise ValueError("seed_id and verify_key_confirmation must be given together")


class Void(Body):
    """The statement that an aggregator has closed a recipe's task for good without a release (P22). A recipe is void
    once leader and helper have both published one."""

    recipe_hash: Hash
    task_id: Hash
    role: Role


class CensusShare(Body):
    """An aggregator's share of a census, in the clear, once its one batch was released: exactly the bytes that were
    sealed to the collector. The two shares add up to the randomised counts of ``report_count`` devices."""

    recipe_hash: Hash
    task_id: Hash
    role: Role
    report_count: Positive
    aggregate_share: Blob


class SeriesEnd(Body):
    """The statement that no further round of a series is asked (P38): by its analyst, or by the operator of the log,
    whose policy names who may ask. A round whose leaf comes later in the log is none. Rounds before it go on."""

    series_hash: Hash
    role: Literal["analyst", "log"]


class SlotKey(Body):
    """One slot's token key: base64url of its SubjectPublicKeyInfo (RFC 9578 section 6.5)."""

    slot: Count
    token_key: Blob


class IssuerDirectory(Body):
    """All token keys of one (issuer, epoch) (P8), slots strictly increasing."""

    issuer: Name
    epoch: Count
    epoch_seconds: Positive
    request_uri: Annotated[str, Field(min_length=1, max_length=512)]
    keys: Annotated[list[SlotKey], Field(min_length=1, max_length=256)]

    def model_post_init(self, context: Any, /) -> None:
        """Refuse repeated slots and repeated keys."""
        slots = [key.slot for key in self.keys]
        if any(later <= earlier for earlier, later in itertools.pairwise(slots)):
            raise ValueError("slots must be strictly increasing")
        if len({key.token_key for key in self.keys}) != len(self.keys):
            raise ValueError("two slots have the same key")

    @property
    def start(self) -> int:
        """POSIX second in which the spend window begins."""
        return self.epoch * self.epoch_seconds

    @property
    def end(self) -> int:
        """POSIX second in which the spend window is over."""
        return (self.epoch + 1) * self.epoch_seconds

    def spki(self, slot: int) -> bytes | None:
        """SubjectPublicKeyInfo of ``slot``'s key, or None."""
        for key in self.keys:
            if key.slot == slot:
                return unb64url(key.token_key)
        return None


class OhttpConfig(Body):
    """A gateway's key set of one period (P3): the OHTTP key configurations (RFC 9458 section 3) that are active in it
    and that were active in the period before. Period p begins at POSIX second p * rotation_seconds. A log holds one key
    set per (gateway, period), so that no client can be given a key of its own."""

    gateway: Name
    period: Count
    rotation_seconds: Annotated[int, Field(ge=MIN_ROTATION_SECONDS, le=MAX_ROTATION_SECONDS)]
    active: Blob
    previous: Blob | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a key that is both active and previous."""
        if self.active == self.previous:
            raise ValueError("the active key and the previous one are the same")

    @property
    def start(self) -> int:
        """POSIX second in which the period begins."""
        return self.period * self.rotation_seconds

    @property
    def end(self) -> int:
        """POSIX second from which the set is no longer used: the end of the following period."""
        return (self.period + 2) * self.rotation_seconds

    def usable(self, now: float) -> bool:
        """Whether ``now`` (POSIX seconds) lies in the set's period or the one after it."""
        return self.start <= now < self.end


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
        return _decoded(data)

    def body_as(self, model: builtins.type[B]) -> B:
        """The body as ``model``. Raises DecodeError."""
        if self._body_bytes:
            found: B = _body_of(model, self.type, self._body_bytes)  # type: ignore[assignment]
            return found
        return validated(model, dict(self.body), self.type.value)

    def body_bytes(self) -> bytes:
        """The body as canonical JSON (JCS), which is what is signed."""
        return self._body_bytes or canonical_bytes(dict(self.body))

    def verify(self, public: bytes) -> None:
        """Check the signature with the signer's 32-byte Ed25519 key. Raises CryptoError."""
        verify(public, self.signature, self.body_bytes(), label=leaf_label(self.type))


@lru_cache(maxsize=LEAVES_KEPT)
def _decoded(data: bytes) -> SignedLeaf:
    """The leaf in ``data``; cached, because readers of a log decode the same bytes at each fetch."""
    content = parse_canonical(data, "leaf")
    _check_known(content.get("type"), content.get("version"))
    envelope = validated(Envelope, content, "leaf")
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
    return validated(model, parse_canonical(body, leaf_type.value), leaf_type.value)


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
    """A leaf of ``body`` signed by ``signer``'s key."""
    plain = body.canonical() if isinstance(body, Body) else dict(body)
    return SignedLeaf(leaf_type, plain, signer, key.sign(leaf_label(leaf_type), canonical_bytes(plain)))


class LeafKeys(Protocol):
    """Determines the key with which each leaf must be signed."""

    def keys_of(self, leaves: Sequence[SignedLeaf]) -> Sequence[bytes | None]:
        """For each leaf the 32-byte Ed25519 key of its signer in that role; None: the signer has no such role
        for this reader. All leaves of a bundle are given at once, in the order of the log, because one leaf
        (a recipe) may name the keys of others; no signature has been checked yet."""
        ...
