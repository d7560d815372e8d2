"""The public-key operations of a whole job: opening sealed shares and checking tokens' signatures.

``OPENSSL`` does one operation after the other; an implementation that does several at once in vector registers can
replace it where a deployment asks for it. Both give the same verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tacit import hpke
from tacit.errors import CryptoError
from tacit.tokens import blind_rsa
from tacit.tokens.slots import TokenVerifier
from tacit.tokens.structures import AUTHENTICATOR_SIZE

Sealed = tuple[bytes, bytes, bytes]
"""Encapsulated key, associated data, ciphertext."""


class JobCrypto(Protocol):
    """What ``tacit.roles.jobs`` needs; may be called from several threads at once."""

    def open_all(
        self, key_pair: hpke.KeyPair, suite: hpke.Suite, info: bytes, sealed: Sequence[Sealed]
    ) -> Sequence[bytes | CryptoError]:
        """``hpke.open_`` of every share, in order: its plaintext, or why it does not open."""

    def verify_tokens(self, verifier: TokenVerifier, tokens: Sequence[bytes]) -> Sequence[bool]:
        """Whether the issuer's signature on each token holds, in order.

        Precondition: each is an encoded token that ``verifier.parse`` takes.
        """


class _OneByOne:
    def open_all(
        self, key_pair: hpke.KeyPair, suite: hpke.Suite, info: bytes, sealed: Sequence[Sealed]
    ) -> Sequence[bytes | CryptoError]:
        try:
            opener = hpke.Opener(suite, key_pair, info)
        except CryptoError as error:
            return [error] * len(sealed)
        return [_open(opener, *share) for share in sealed]

    def verify_tokens(self, verifier: TokenVerifier, tokens: Sequence[bytes]) -> Sequence[bool]:
        return [_holds(verifier, token) for token in tokens]


OPENSSL: JobCrypto = _OneByOne()
"""One by one, through OpenSSL."""


def _open(opener: hpke.Opener, enc: bytes, aad: bytes, ciphertext: bytes) -> bytes | CryptoError:
    try:
        return opener.open(enc, aad, ciphertext)
    except CryptoError as error:
        return error


def _holds(verifier: TokenVerifier, token: bytes) -> bool:
    try:
        blind_rsa.verify(verifier.token_key, token[:-AUTHENTICATOR_SIZE], token[-AUTHENTICATOR_SIZE:])
    except CryptoError:
        return False
    return True
