"""Issuance of a token of type 0x0002 (RFC 9578 section 6) on the client's side, without a network; the issuer's side is
in ``tacit.tokens.issuer_key``.

The client makes a request and keeps a ``PendingToken``; the same request bytes may be sent again, and the answer to any
of them completes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.codec import Reader
from tacit.errors import CryptoError
from tacit.ports import Entropy
from tacit.tokens import blinding
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.blinding import BlindState
from tacit.tokens.structures import (
    AUTHENTICATOR_SIZE,
    BLIND_RSA_2048,
    TOKEN_REQUEST_SIZE,
    Token,
    TokenChallenge,
    TokenRequest,
    TokenResponse,
    token_input,
)


@dataclass(frozen=True)
class PendingToken:
    """A token that waits for its signature: request, nonce, challenge digest, key id and the unblinding factor."""

    request: TokenRequest = field(repr=False)
    nonce: bytes = field(repr=False)
    challenge_digest: bytes
    token_key_id: bytes
    state: BlindState = field(repr=False)

    def finalize(self, token_key: TokenKey, response: TokenResponse) -> Token:
        """The verified token. Raises ``CryptoError`` where the answer is not a signature of ``token_key``."""
        if token_key.token_key_id != self.token_key_id:
            raise CryptoError("token response is for another key")
        message = token_input(BLIND_RSA_2048, self.nonce, self.challenge_digest, self.token_key_id)
        signature = blinding.finalize(token_key, message, response.blind_sig, self.state)
        return Token(self.nonce, self.challenge_digest, self.token_key_id, signature)

    def encode(self) -> bytes:
        """611 bytes for the client's own journal: request, nonce, digest, key id, inverse."""
        inverse = self.state.inverse.to_bytes(AUTHENTICATOR_SIZE, "big")
        return self.request.encode() + self.nonce + self.challenge_digest + self.token_key_id + inverse

    @classmethod
    def decode(cls, data: bytes) -> PendingToken:
        """Strict inverse of ``encode``. Raises ``DecodeError``."""
        reader = Reader(data, "PendingToken")
        request = TokenRequest.decode(reader.raw(TOKEN_REQUEST_SIZE))
        nonce, digest, key_id = reader.raw(32), reader.raw(32), reader.raw(32)
        state = BlindState(reader.uint(AUTHENTICATOR_SIZE))
        reader.end()
        return cls(request, nonce, digest, key_id, state)


def request_token(token_key: TokenKey, challenge: TokenChallenge, nonce: bytes, entropy: Entropy) -> PendingToken:
    """Blind one token input. ``nonce`` has 32 bytes and is the client's choice. Run by the client."""
    digest = challenge.digest()
    message = token_input(BLIND_RSA_2048, nonce, digest, token_key.token_key_id)
    blinded, state = blinding.blind(token_key, message, entropy)
    request = TokenRequest(token_key.truncated_token_key_id, blinded)
    return PendingToken(request, nonce, digest, token_key.token_key_id, state)
