"""HPKE messages to one key, sealed many at a time: for simulations and benchmarks, since a client has one to seal.

Only keys that live for one message are handled here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit import hpke
from tacit.errors import CryptoError
from tacit.fast_paths import SEALED
from tacit.hpke import ENC_SIZE, NONCE_SIZE, SenderContext, Suite
from tacit.multibuffer.hpke import CIPHERS, MIN_BATCH, rows_of, setup_of
from tacit.multibuffer.library import kernels
from tacit.ports import Entropy

_BASE_POINT = bytes([9]).ljust(ENC_SIZE, b"\0")


class BatchSealer:
    """Seals messages to one public key under one suite and one info string."""

    def __init__(self, public_key: bytes, suite: Suite, info: bytes) -> None:
        """Raises ``CryptoError`` for an unsupported suite or a public key of another length."""
        self._public_key, self._suite, self._info = public_key, suite, info
        self._setup = setup_of(suite, public_key, info)

    def seal_all(self, messages: Sequence[tuple[bytes, bytes]], entropy: Entropy) -> list[tuple[bytes, bytes]]:
        """``(enc, ciphertext)`` of each ``(aad, plaintext)``, out of 32 bytes of ``entropy`` per message.

        Raises ``CryptoError`` for a public key of low order.
        """
        scalars = entropy(ENC_SIZE * len(messages))
        native = kernels() if len(messages) >= MIN_BATCH else None
        SEALED.items += len(messages)
        if native is None:
            SEALED.fallbacks += len(messages)
            return [
                self._seal_alone(aad, plaintext, scalars[ENC_SIZE * i : ENC_SIZE * (i + 1)])
                for i, (aad, plaintext) in enumerate(messages)
            ]
        encs, made = native.hpke_seal(self._setup, scalars)
        with made:
            if any(made.flags):
                raise CryptoError("the X25519 public key is of low order")
            cipher, keys = CIPHERS[self._suite.aead_id], rows_of(made.keys, self._setup.key_size)
            return [
                (encs[ENC_SIZE * i : ENC_SIZE * (i + 1)], cipher(key).encrypt(nonce, plaintext, aad))
                for i, (key, nonce, (aad, plaintext)) in enumerate(
                    zip(keys, rows_of(made.nonces, NONCE_SIZE), messages, strict=True)
                )
            ]

    def contexts(self, count: int, entropy: Entropy) -> list[SenderContext]:
        """Return ``count`` contexts of ``hpke.setup_sender``, from 32 bytes of ``entropy`` each: for messages that are
        answered under their exporter secret.

        Raises ``CryptoError`` for a public key of low order.
        """
        native = kernels() if count >= MIN_BATCH else None
        SEALED.items += count
        if native is None:
            SEALED.fallbacks += count
            return [hpke.setup_sender(self._suite, self._public_key, self._info, entropy) for _ in range(count)]
        scalars = entropy(ENC_SIZE * count)
        encs, _ = native.x25519(scalars, _BASE_POINT * count)
        shared, refused = native.x25519(scalars, self._public_key * count)
        if any(refused):
            raise CryptoError("the X25519 public key is of low order")
        return [
            hpke.sender_of(
                self._suite, self._public_key, self._info, encs[at : at + ENC_SIZE], shared[at : at + ENC_SIZE]
            )
            for at in range(0, ENC_SIZE * count, ENC_SIZE)
        ]

    def _seal_alone(self, aad: bytes, plaintext: bytes, scalar: bytes) -> tuple[bytes, bytes]:
        return hpke.seal(self._suite, self._public_key, self._info, aad, plaintext, lambda _: scalar)
