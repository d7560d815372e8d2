"""The cryptography of an aggregator's job, many reports at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.errors import CryptoError
from tacit.hpke import KeyPair, Suite
from tacit.multibuffer import tokens
from tacit.multibuffer.hpke import BatchOpener, Sealed
from tacit.multibuffer.library import kernels
from tacit.roles.crypto import OPENSSL
from tacit.tokens.slots import TokenVerifier


class BatchCrypto:
    """Tokens are always verified in batches; ciphertexts are opened in batches where ``batch_hpke`` is set (see
    ``tacit.multibuffer.hpke`` for the consequences), else one by one through OpenSSL. Keeps no state; safe to share
    between threads."""

    def __init__(self, *, batch_hpke: bool = False) -> None:
        self._batch_hpke = batch_hpke

    def open_all(
        self, key_pair: KeyPair, suite: Suite, info: bytes, sealed: Sequence[Sealed]
    ) -> Sequence[bytes | CryptoError]:
        """Plaintext or error of each ``(enc, aad, ciphertext)``, in order."""
        if self._batch_hpke and suite.supported:
            return BatchOpener(key_pair, suite, info).open_all(sealed)
        return OPENSSL.open_all(key_pair, suite, info, sealed)

    def verify_tokens(self, verifier: TokenVerifier, encoded: Sequence[bytes]) -> list[bool]:
        """Whether the issuer's signature on each token holds, in order.

        Precondition: each is an encoded token that ``verifier.parse`` takes.
        """
        return tokens.verify_tokens(verifier, encoded)


def job_crypto() -> BatchCrypto | None:
    """A ``BatchCrypto`` that does everything in batches; None where the kernels do not run, so that OpenSSL would take
    messages one by one."""
    return None if kernels() is None else BatchCrypto(batch_hpke=True)
