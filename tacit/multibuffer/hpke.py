"""HPKE messages to one key, opened many at a time: X25519 and the key schedule in C, the AEAD in OpenSSL.

Using this means that our own code handles a private key. The kernels that read it neither branch on nor index memory by
secrets, which the tests check on the compiled code; they overwrite what they leave on the stack and in registers. They
are newer and less reviewed than OpenSSL's, they are not hardened against faults or power analysis, and the key lies in
process memory as raw bytes, as it does for ``tacit.hpke``. So nothing uses ``BatchOpener`` unless its operator asks for
it.

A wrong key can only fail to open a message, and every message that fails is tried again by ``tacit.hpke`` before it is
refused: a fault of the kernels costs time, but loses no message.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from tacit import hpke
from tacit.errors import CryptoError
from tacit.fast_paths import OPENED
from tacit.hpke import ENC_SIZE, NONCE_SIZE, KeyPair, KeySchedule, RecipientContext, Suite
from tacit.multibuffer.interface import EXPORTER_SIZE, DerivedKeys, Setup
from tacit.multibuffer.library import kernels

MIN_BATCH = 2
"""Least number of messages for the kernels: a batch that fills one register costs less than two messages in OpenSSL,
whether or not the other lanes are used."""

CIPHERS: dict[int, type[AESGCM] | type[ChaCha20Poly1305]] = {
    hpke.AEAD_AES128GCM: AESGCM,
    hpke.AEAD_CHACHA20POLY1305: ChaCha20Poly1305,
}

Sealed = tuple[bytes, bytes, bytes]
"""Encapsulated key, associated data, ciphertext."""


class BatchOpener:
    """Opens messages to one key pair under one suite and one info string."""

    def __init__(self, key_pair: KeyPair, suite: Suite, info: bytes) -> None:
        """Raises ``CryptoError`` for an unsupported suite."""
        self._key_pair, self._suite, self._info = key_pair, suite, info
        self._setup = setup_of(suite, key_pair.public, info)

    def open_all(self, sealed: Sequence[Sealed]) -> list[bytes | CryptoError]:
        """Return, for each message in order, what ``hpke.open_`` returns for it, or the error that it raises."""
        made = self._derive([enc for enc, _, _ in sealed])
        if made is None:
            return [self._open_alone(*message) for message in sealed]
        with made:
            opened = _decrypt(self._suite, made, sealed)
        return [
            self._open_alone(*message) if plaintext is None else plaintext
            for plaintext, message in zip(opened, sealed, strict=True)
        ]

    def contexts(self, encs: Sequence[bytes]) -> list[RecipientContext | CryptoError]:
        """Return, for each encapsulated key in order, what ``hpke.setup_recipient`` returns, or the error that it
        raises.

        If a message does not open under its context, the caller must try ``hpke.setup_recipient`` before refusing it.
        """
        made = self._derive(encs, exporters=True)
        if made is None:
            return [self._setup_alone(enc) for enc in encs]
        with made:
            key_size, found = self._setup.key_size, []
            for i, refused in enumerate(made.flags):
                schedule = KeySchedule(
                    bytes(made.keys[key_size * i : key_size * (i + 1)]),
                    bytes(made.nonces[NONCE_SIZE * i : NONCE_SIZE * (i + 1)]),
                    bytes(made.exporters[EXPORTER_SIZE * i : EXPORTER_SIZE * (i + 1)]),
                )
                found.append(self._setup_alone(encs[i]) if refused else RecipientContext(self._suite, schedule))
            return found

    def _derive(self, encs: Sequence[bytes], exporters: bool = False) -> DerivedKeys | None:
        """Derive the keys; None where OpenSSL has to do it. An encapsulated key of a wrong length counts as one of low
        order."""
        native = kernels() if len(encs) >= MIN_BATCH else None
        OPENED.items += len(encs)
        if native is None:
            return None
        # all rows have one length: a key of another length is refused by its flag, as OpenSSL does, and shifts no row
        rows = b"".join(enc if len(enc) == ENC_SIZE else bytes(ENC_SIZE) for enc in encs)
        return native.hpke_open(self._key_pair.private, self._setup, rows, exporters)

    def _open_alone(self, enc: bytes, aad: bytes, ciphertext: bytes) -> bytes | CryptoError:
        OPENED.fallbacks += 1
        try:
            return hpke.open_(self._suite, self._key_pair, enc, self._info, aad, ciphertext)
        except CryptoError as error:
            return error

    def _setup_alone(self, enc: bytes) -> RecipientContext | CryptoError:
        OPENED.fallbacks += 1
        try:
            return hpke.setup_recipient(self._suite, self._key_pair, enc, self._info)
        except CryptoError as error:
            return error


def setup_of(suite: Suite, public_key: bytes, info: bytes) -> Setup:
    """What messages to this key have in common. Raises ``CryptoError`` for a public key of another length."""
    if len(public_key) != hpke.PUBLIC_KEY_SIZE:
        raise CryptoError("an X25519 public key must have 32 bytes")
    key_size = suite.key_size
    return Setup(public_key, *hpke.key_schedule_context(suite, info), key_size)


def rows_of(rows: bytearray, size: int) -> list[memoryview]:
    """The rows without copying: overwriting the buffer overwrites them."""
    view = memoryview(rows)
    return [view[at : at + size] for at in range(0, len(rows), size)]


def _decrypt(suite: Suite, made: DerivedKeys, sealed: Sequence[Sealed]) -> list[bytes | None]:
    """The plaintexts; None for each message that does not open with its key."""
    cipher, key_size = CIPHERS[suite.aead_id], suite.key_size
    opened: list[bytes | None] = []
    rows = zip(made.flags, rows_of(made.keys, key_size), rows_of(made.nonces, NONCE_SIZE), sealed, strict=True)
    for refused, key, nonce, (_, aad, ciphertext) in rows:
        try:
            opened.append(None if refused else cipher(key).decrypt(nonce, ciphertext, aad))
        except InvalidTag:
            opened.append(None)
    return opened
