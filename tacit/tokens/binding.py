"""Binds a token to one report (rule P10): the report extension that both aggregators check.

A token is a bearer value, and an aggregator that opens its own share of a report sees it. So the token's
nonce is made from two secrets, one per aggregator: each aggregator gets its own secret and the hash of the
other's and recomputes the nonce. The other aggregator's secret travels only inside a ciphertext whose
associated data fix task, report id and public share, so nobody can put the token into another report.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tacit.codec import Reader
from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import DecodeError
from tacit.ports import Entropy
from tacit.tokens.slots import TokenVerifier
from tacit.tokens.structures import AUTHENTICATOR_SIZE, NONCE_SIZE, TOKEN_SIZE

TOKEN_EXTENSION_TYPE = 0xFF54
"""Code point from DAP's private-use range."""

PREIMAGE_SIZE = 32
EXTENSION_SIZE = TOKEN_SIZE + 2 * PREIMAGE_SIZE
_NONCE_LABEL = b"sa2-tok"
_SIGNED_SIZE = TOKEN_SIZE - AUTHENTICATOR_SIZE
_NONCE = slice(2, 2 + NONCE_SIZE)
_OWN = slice(TOKEN_SIZE, TOKEN_SIZE + PREIMAGE_SIZE)
_OTHER = slice(TOKEN_SIZE + PREIMAGE_SIZE, EXTENSION_SIZE)
_FORGED = ReportRejected(ReportError.INVALID_MESSAGE, "token-signature")
_MOVED = ReportRejected(ReportError.INVALID_MESSAGE, "token-binding")


class Holder(enum.IntEnum):
    """Whose share an extension is in; the values are DAP's role codes."""

    LEADER = 2
    HELPER = 3


def nonce_of(hash_leader: bytes, hash_helper: bytes) -> bytes:
    """The token nonce: SHA-256("sa2-tok" || SHA-256(r_L) || SHA-256(r_H))."""
    return hashlib.sha256(_NONCE_LABEL + hash_leader + hash_helper).digest()


@dataclass(frozen=True, slots=True)
class Preimages:
    """The two secrets (32 bytes each) behind one token's nonce. Only the client holds both."""

    r_leader: bytes = field(repr=False)
    r_helper: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if (len(self.r_leader), len(self.r_helper)) != (PREIMAGE_SIZE, PREIMAGE_SIZE):
            raise ValueError("preimages must have 32 bytes each")

    @classmethod
    def draw(cls, entropy: Entropy) -> Preimages:
        """Draw two fresh secrets of 32 bytes."""
        return cls(entropy(PREIMAGE_SIZE), entropy(PREIMAGE_SIZE))

    @property
    def nonce(self) -> bytes:
        """The nonce that a token bound to these secrets carries."""
        return nonce_of(hashlib.sha256(self.r_leader).digest(), hashlib.sha256(self.r_helper).digest())

    def extension(self, token: bytes, holder: int) -> bytes:
        """The extension data for the share of ``holder`` (DAP role code 2 or 3)."""
        own, other = (self.r_leader, self.r_helper)
        if Holder(holder) is Holder.HELPER:
            own, other = other, own
        return extension_data(token, own, hashlib.sha256(other).digest())


def extension_data(token: bytes, r_own: bytes, other_hash: bytes) -> bytes:
    """418 bytes: token, the receiver's own secret, SHA-256 of the other's."""
    if (len(token), len(r_own), len(other_hash)) != (TOKEN_SIZE, PREIMAGE_SIZE, PREIMAGE_SIZE):
        raise ValueError("the parts of an extension must have 354, 32 and 32 bytes")
    return token + r_own + other_hash


@dataclass(frozen=True, slots=True)
class TokenExtension:
    """The decoded extension of one share: the token, the receiver's own secret, and SHA-256 of the other's."""

    token: bytes = field(repr=False)
    r_own: bytes = field(repr=False)
    other_hash: bytes = field(repr=False)


def open_extension(data: bytes, role: int) -> TokenExtension:
    """Decode the extension of the share of ``role`` (DAP role code).

    Raises ``ReportRejected`` with cause "token-malformed".
    """
    Holder(role)
    reader = Reader(data, "token extension")
    try:
        extension = TokenExtension(reader.raw(TOKEN_SIZE), reader.raw(PREIMAGE_SIZE), reader.raw(PREIMAGE_SIZE))
        reader.end()
    except DecodeError as error:
        raise ReportRejected(ReportError.INVALID_MESSAGE, "token-malformed") from error
    return extension


def check(extension: TokenExtension, role: int, verifier: TokenVerifier) -> bytes:
    """Make every check of one token in the order type, key, challenge, signature, binding; return its nullifier.

    Raises ``ReportRejected`` with cause "token-malformed", "token-key", "token-challenge", "token-signature" or
    "token-binding".
    """
    token = verifier.verify(extension.token)
    own_hash = hashlib.sha256(extension.r_own).digest()
    pair = (own_hash, extension.other_hash)
    if Holder(role) is Holder.HELPER:
        pair = (extension.other_hash, own_hash)
    if not hmac.compare_digest(nonce_of(*pair), token.nonce):
        raise ReportRejected(ReportError.INVALID_MESSAGE, "token-binding")
    return nullifier(token.token_type, token.nonce, token.challenge_digest, token.token_key_id)


def check_all(
    extensions: Sequence[bytes],
    role: int,
    verifier: TokenVerifier,
    verify: Callable[[Sequence[bytes]], Sequence[bool]],
) -> list[bytes | ReportRejected]:
    """``open_extension`` and ``check`` for many extensions: the nullifier of each, or why it is rejected.

    ``verify`` returns, for each encoded token, whether the issuer's signature is valid. The nullifier is the hash of
    the signed input.
    """
    is_leader = Holder(role) is Holder.LEADER
    sha256 = hashlib.sha256
    tokens = [data[:TOKEN_SIZE] if len(data) == EXTENSION_SIZE else b"" for data in extensions]
    results = check_tokens(tokens, verifier, verify)
    for at, found in enumerate(results):
        if isinstance(found, bytes):
            data = extensions[at]
            own, other = sha256(data[_OWN]).digest(), data[_OTHER]
            nonce = nonce_of(own, other) if is_leader else nonce_of(other, own)
            if not hmac.compare_digest(nonce, data[_NONCE]):
                results[at] = _MOVED
    return results


def check_tokens(
    tokens: Sequence[bytes],
    verifier: TokenVerifier,
    verify: Callable[[Sequence[bytes]], Sequence[bool]],
) -> list[bytes | ReportRejected]:
    """The nullifier of each token that is the slot's and that the issuer signed, or why it is rejected, whatever it is
    bound to; ``verify`` as in ``check_all``."""
    results: list[bytes | ReportRejected] = [_FORGED] * len(tokens)
    due: list[int] = []
    for at, token in enumerate(tokens):
        if verifier.takes(token):
            due.append(at)
        else:
            results[at] = _why_not(token, verifier)
    for at, holds in zip(due, verify([tokens[at] for at in due]), strict=True):
        if holds:
            results[at] = hashlib.sha256(tokens[at][:_SIGNED_SIZE]).digest()
    return results


def _why_not(token: bytes, verifier: TokenVerifier) -> ReportRejected:
    try:
        verifier.parse(token)
    except ReportRejected as rejected:
        return rejected
    raise ValueError("the token is one that the verifier accepts")


def nullifier(token_type: int, nonce: bytes, challenge_digest: bytes, key_id: bytes) -> bytes:
    """The spend-once tag of a token: SHA-256 of type (uint16), nonce, challenge digest and key id (32 bytes each). It
    excludes the authenticator: a second valid signature over the same input must not be a second token."""
    return hashlib.sha256(token_type.to_bytes(2, "big") + nonce + challenge_digest + key_id).digest()
