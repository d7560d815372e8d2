"""Privacy Pass structures: challenge and token (RFC 9577 section 2), request and response (RFC 9578 section
6).

Tokens, requests and responses are those of type 0x0002 (Blind RSA, 2048 bits). A challenge may name any type:
a client skips those that it does not know.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError

BLIND_RSA_2048 = 0x0002
NONCE_SIZE = 32
AUTHENTICATOR_SIZE = 256
TOKEN_SIZE = 354
TOKEN_REQUEST_SIZE = 259
TOKEN_RESPONSE_SIZE = 256


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError(f"{what} is not ASCII") from error


def _blind_rsa(reader: Reader, what: str) -> None:
    if reader.uint(2) != BLIND_RSA_2048:
        raise DecodeError(f"{what} is not of type 0x0002")


@dataclass(frozen=True, slots=True)
class TokenChallenge:
    """What a token is for. ``redemption_context`` has 0 or 32 bytes, ``origin_info`` is a comma-separated
    list of origins or empty."""

    token_type: int
    issuer_name: str
    redemption_context: bytes
    origin_info: str

    def __post_init__(self) -> None:
        if len(self.redemption_context) not in {0, 32}:
            raise ValueError("a redemption context must have 0 or 32 bytes")
        if not self.issuer_name:
            raise ValueError("a challenge must name its issuer")

    def encode(self) -> bytes:
        """The wire form of RFC 9577 section 2.1.1."""
        return (
            Writer()
            .uint(self.token_type, 2)
            .opaque(self.issuer_name.encode("ascii"), 2)
            .opaque(self.redemption_context, 1)
            .opaque(self.origin_info.encode("ascii"), 2)
            .bytes()
        )

    @classmethod
    def decode(cls, data: bytes) -> TokenChallenge:
        """Strict inverse of ``encode``. Raises ``DecodeError``."""
        reader = Reader(data, "TokenChallenge")
        token_type = reader.uint(2)
        issuer = _text(reader.opaque(2, minimum=1), "issuer name")
        context = reader.opaque(1, maximum=32)
        origin = _text(reader.opaque(2), "origin info")
        reader.end()
        if len(context) not in {0, 32}:
            raise DecodeError(f"redemption context has {len(context)} bytes, not 0 or 32")
        return cls(token_type, issuer, context, origin)

    def digest(self) -> bytes:
        """SHA-256 of the wire form, which a token includes."""
        return hashlib.sha256(self.encode()).digest()


def token_input(token_type: int, nonce: bytes, challenge_digest: bytes, token_key_id: bytes) -> bytes:
    """The bytes that the issuer's signature covers: the token without its authenticator."""
    return Writer().uint(token_type, 2).raw(nonce).raw(challenge_digest).raw(token_key_id).bytes()


@dataclass(frozen=True, slots=True)
class Token:
    """A token of type 0x0002, 354 bytes: type, nonce, challenge digest and key id, and the issuer's signature over
    them."""

    nonce: bytes = field(repr=False)
    challenge_digest: bytes
    token_key_id: bytes
    authenticator: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if (len(self.nonce), len(self.challenge_digest), len(self.token_key_id)) != (32, 32, 32):
            raise ValueError("nonce, challenge digest and key id must have 32 bytes each")
        if len(self.authenticator) != AUTHENTICATOR_SIZE:
            raise ValueError("an authenticator must have 256 bytes")

    @property
    def token_type(self) -> int:
        """Always 0x0002, a publicly verifiable blind RSA token."""
        return BLIND_RSA_2048

    def authenticator_input(self) -> bytes:
        """The 98 bytes that the authenticator signs: everything before it in the token (RFC 9577 section 2.2)."""
        return token_input(BLIND_RSA_2048, self.nonce, self.challenge_digest, self.token_key_id)

    def encode(self) -> bytes:
        """The wire form of RFC 9577 section 2.2."""
        return self.authenticator_input() + self.authenticator

    @classmethod
    def decode(cls, data: bytes) -> Token:
        """Strict inverse of ``encode``. Raises ``DecodeError``."""
        reader = Reader(data, "Token")
        _blind_rsa(reader, "Token")
        token = cls(reader.raw(32), reader.raw(32), reader.raw(32), reader.raw(AUTHENTICATOR_SIZE))
        reader.end()
        return token


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What a client asks the issuer to sign, 259 bytes: the key by its last id byte, the blinded message."""

    truncated_token_key_id: int
    blinded_msg: bytes = field(repr=False)

    def encode(self) -> bytes:
        """The wire form of RFC 9578 section 6.1."""
        if len(self.blinded_msg) != AUTHENTICATOR_SIZE:
            raise ValueError("a blinded message must have 256 bytes")
        return Writer().uint(BLIND_RSA_2048, 2).uint(self.truncated_token_key_id, 1).raw(self.blinded_msg).bytes()

    @classmethod
    def decode(cls, data: bytes) -> TokenRequest:
        """Strict inverse of ``encode``. Raises ``DecodeError``."""
        reader = Reader(data, "TokenRequest")
        _blind_rsa(reader, "TokenRequest")
        request = cls(reader.uint(1), reader.raw(AUTHENTICATOR_SIZE))
        reader.end()
        return request


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """The issuer's answer, 256 bytes."""

    blind_sig: bytes = field(repr=False)

    def encode(self) -> bytes:
        """The wire form of RFC 9578 section 6.2."""
        if len(self.blind_sig) != AUTHENTICATOR_SIZE:
            raise ValueError("a blind signature must have 256 bytes")
        return self.blind_sig

    @classmethod
    def decode(cls, data: bytes) -> TokenResponse:
        """Strict inverse of ``encode``. Raises ``DecodeError``."""
        if len(data) != TOKEN_RESPONSE_SIZE:
            raise DecodeError(f"TokenResponse has {len(data)} bytes, not {TOKEN_RESPONSE_SIZE}")
        return cls(data)
