"""HPKE base mode (RFC 9180) with DHKEM(X25519, HKDF-SHA256) and HKDF-SHA256, as DAP and OHTTP use it.

Written with X25519, HMAC and the AEADs of ``cryptography``, whose own HPKE offers neither associated data nor the
exporter. Randomness is an argument. Everything that depends only on the suite and the info string is computed once.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from tacit.curve25519 import exchange
from tacit.errors import CryptoError, DecodeError
from tacit.ports import Entropy

KEM_X25519 = 0x0020
KDF_HKDF_SHA256 = 0x0001
AEAD_AES128GCM = 0x0001
AEAD_CHACHA20POLY1305 = 0x0003

PUBLIC_KEY_SIZE = 32
PRIVATE_KEY_SIZE = 32
ENC_SIZE = 32
TAG_SIZE = 16
NONCE_SIZE = 12
KEY_SIZES = {AEAD_AES128GCM: 16, AEAD_CHACHA20POLY1305: 32}

_HASH = "sha256"
_HASH_SIZE = 32
_NO_SALT = bytes(_HASH_SIZE)
_VERSION = b"HPKE-v1"
_MODE_BASE = b"\x00"
_KEM_SUITE = b"KEM" + KEM_X25519.to_bytes(2, "big")
_MAX_SEQUENCE = (1 << (8 * NONCE_SIZE)) - 1


@dataclass(frozen=True, slots=True)
class Suite:
    """Code points of RFC 9180 section 7. Suites with unsupported algorithms can be named but not used."""

    kem_id: int
    kdf_id: int
    aead_id: int

    @property
    def supported(self) -> bool:
        """Whether it is X25519, HKDF-SHA256 and an AEAD of ``KEY_SIZES``: what this module implements."""
        return self.kem_id == KEM_X25519 and self.kdf_id == KDF_HKDF_SHA256 and self.aead_id in KEY_SIZES

    @property
    def key_size(self) -> int:
        """Nk, the AEAD's key size in bytes. Raises ``CryptoError`` for an unsupported suite."""
        if not self.supported:
            raise CryptoError("the HPKE suite is not supported")
        return KEY_SIZES[self.aead_id]


DEFAULT_SUITE = Suite(KEM_X25519, KDF_HKDF_SHA256, AEAD_AES128GCM)


@dataclass(frozen=True)
class KeyPair:
    """An X25519 key pair, 32 bytes each."""

    private: bytes = field(repr=False)
    public: bytes

    def __post_init__(self) -> None:
        if len(self.private) != PRIVATE_KEY_SIZE or len(self.public) != PUBLIC_KEY_SIZE:
            raise DecodeError("an X25519 key must have 32 bytes")

    @cached_property
    def _handle(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.private)

    def exchange(self, public: bytes) -> bytes:
        """Shared X25519 secret with ``public`` (RFC 7748). Raises ``CryptoError`` when it is all zero."""
        return exchange(self._handle, public)


def key_pair_from_private(private: bytes) -> KeyPair:
    """The pair of a 32-byte private key. Raises ``DecodeError`` for another length."""
    if len(private) != PRIVATE_KEY_SIZE:
        raise DecodeError("an X25519 key must have 32 bytes")
    handle = X25519PrivateKey.from_private_bytes(private)
    pair = KeyPair(private, handle.public_key().public_bytes_raw())
    pair.__dict__["_handle"] = handle
    return pair


def generate_key_pair(entropy: Entropy) -> KeyPair:
    """A fresh pair from 32 bytes of ``entropy``."""
    return key_pair_from_private(entropy(PRIVATE_KEY_SIZE))


def extract(salt: bytes, ikm: bytes) -> bytes:
    """HKDF-Extract with SHA-256 (RFC 5869)."""
    return hmac.digest(salt or _NO_SALT, ikm, _HASH)


def expand(prk: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand with SHA-256 (RFC 5869), at most 8160 bytes."""
    if not 0 < length <= 255 * _HASH_SIZE:
        raise ValueError("HKDF-SHA256 expands to between 1 and 8160 bytes")
    block = hmac.digest(prk, info + b"\x01", _HASH)
    output = block
    counter = 2
    while len(output) < length:
        block = hmac.digest(prk, block + info + bytes((counter,)), _HASH)
        output += block
        counter += 1
    return output[:length]


def aead_seal(aead_id: int, key: bytes, nonce: bytes, aad: bytes, plaintext: bytes) -> bytes:
    """Ciphertext with its 16-byte tag; ``ValueError`` for a key or nonce of another size than the AEAD's."""
    return _aead(aead_id, key, nonce).encrypt(nonce, plaintext, aad)


def aead_open(aead_id: int, key: bytes, nonce: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    """Inverse of ``aead_seal``. Raises ``CryptoError`` when the tag does not verify."""
    cipher = _aead(aead_id, key, nonce)
    if len(ciphertext) < TAG_SIZE:
        raise CryptoError("the ciphertext is shorter than its tag")
    try:
        return cipher.decrypt(nonce, ciphertext, aad)
    except InvalidTag as error:
        raise CryptoError("the ciphertext does not open") from error


@dataclass(slots=True, repr=False)
class KeySchedule:
    """The output of KeySchedule in RFC 9180 section 5.1. Has no repr on purpose; made per message, so not frozen."""

    key: bytes
    base_nonce: bytes
    exporter_secret: bytes


class _Context:
    """Key, nonce sequence and exporter from one Setup (RFC 9180 section 5.2 and 5.3)."""

    def __init__(self, suite: Suite, keys: KeySchedule) -> None:
        self._suite_id = _suite_id(suite)
        self._aead_id = suite.aead_id
        self._key = keys.key
        self._base_nonce = int.from_bytes(keys.base_nonce, "big")
        self._exporter_secret = keys.exporter_secret
        self._sequence = 0

    def export(self, context: bytes, length: int) -> bytes:
        """``length`` bytes bound to this encapsulation and to ``context`` (RFC 9180 section 5.3)."""
        return _labeled_expand(self._suite_id, self._exporter_secret, b"sec", context, length)

    def _nonce(self) -> bytes:
        if self._sequence >= _MAX_SEQUENCE:
            raise CryptoError("the HPKE context is used up")
        return (self._base_nonce ^ self._sequence).to_bytes(NONCE_SIZE, "big")


class SenderContext(_Context):
    """Sender's side; ``enc`` is the 32-byte encapsulated key to send along."""

    def __init__(self, suite: Suite, enc: bytes, keys: KeySchedule) -> None:
        super().__init__(suite, keys)
        self.enc = enc

    def seal(self, aad: bytes, plaintext: bytes) -> bytes:
        """Seal the next message of the sequence."""
        ciphertext = aead_seal(self._aead_id, self._key, self._nonce(), aad, plaintext)
        self._sequence += 1
        return ciphertext


class RecipientContext(_Context):
    """The recipient's side of an HPKE context, which opens messages in sequence."""

    def open(self, aad: bytes, ciphertext: bytes) -> bytes:
        """Open the next message of the sequence; ``CryptoError`` leaves the sequence where it was."""
        plaintext = aead_open(self._aead_id, self._key, self._nonce(), aad, ciphertext)
        self._sequence += 1
        return plaintext


def setup_sender(suite: Suite, public_key: bytes, info: bytes, entropy: Entropy) -> SenderContext:
    """SetupBaseS. Raises ``CryptoError`` for an unsupported suite or a public key of low order."""
    _require(suite)
    ephemeral = generate_key_pair(entropy)
    secret = _shared_secret(ephemeral.exchange(public_key), ephemeral.public, public_key)
    return SenderContext(suite, ephemeral.public, _key_schedule(suite, secret, info))


def sender_of(suite: Suite, public_key: bytes, info: bytes, enc: bytes, shared: bytes) -> SenderContext:
    """The context of an ephemeral public key ``enc`` whose X25519 secret with ``public_key`` is ``shared`` (not all
    zero): for callers that compute many of those at once."""
    _require(suite)
    return SenderContext(suite, enc, _key_schedule(suite, _shared_secret(shared, enc, public_key), info))


def setup_recipient(suite: Suite, key_pair: KeyPair, enc: bytes, info: bytes) -> RecipientContext:
    """SetupBaseR. Raises ``CryptoError`` for an unsupported suite or a malformed or low-order ``enc``."""
    _require(suite)
    secret = _shared_secret(key_pair.exchange(enc), enc, key_pair.public)
    return RecipientContext(suite, _key_schedule(suite, secret, info))


def seal(
    suite: Suite, public_key: bytes, info: bytes, aad: bytes, plaintext: bytes, entropy: Entropy
) -> tuple[bytes, bytes]:
    """Single-shot encryption: ``(enc, ciphertext)`` (RFC 9180 section 6.1)."""
    context = setup_sender(suite, public_key, info, entropy)
    return context.enc, context.seal(aad, plaintext)


def open_(suite: Suite, key_pair: KeyPair, enc: bytes, info: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    """Single-shot decryption. Raises ``CryptoError``, whatever the cause."""
    return Opener(suite, key_pair, info).open(enc, aad, ciphertext)


class Opener:
    """Single-shot decryption of many messages to one key pair under one suite and info (RFC 9180 section 6.1); safe to
    share between threads.

    The parts of the key schedule that do not depend on a message are computed once, and the exporter is not computed.
    """

    def __init__(self, suite: Suite, key_pair: KeyPair, info: bytes) -> None:
        """Raises ``CryptoError`` for an unsupported suite."""
        _require(suite)
        suite_id, schedule = key_schedule_context(suite, info)
        self._key_pair = key_pair
        self._aead_id = suite.aead_id
        self._key_size = suite.key_size
        self._eae_prk = _VERSION + _KEM_SUITE + b"eae_prk"
        self._shared_secret = _HASH_SIZE.to_bytes(2, "big") + _VERSION + _KEM_SUITE + b"shared_secret"
        self._recipient = key_pair.public + b"\x01"
        self._secret = _VERSION + suite_id + b"secret"
        self._key = suite.key_size.to_bytes(2, "big") + _VERSION + suite_id + b"key" + schedule + b"\x01"
        self._nonce = NONCE_SIZE.to_bytes(2, "big") + _VERSION + suite_id + b"base_nonce" + schedule + b"\x01"

    def open(self, enc: bytes, aad: bytes, ciphertext: bytes) -> bytes:
        """The plaintext. Raises ``CryptoError``, whatever the cause."""
        prk = hmac.digest(_NO_SALT, self._eae_prk + self._key_pair.exchange(enc), _HASH)
        shared_secret = hmac.digest(prk, self._shared_secret + enc + self._recipient, _HASH)
        secret = hmac.digest(shared_secret, self._secret, _HASH)
        key = hmac.digest(secret, self._key, _HASH)[: self._key_size]
        nonce = hmac.digest(secret, self._nonce, _HASH)[:NONCE_SIZE]
        return aead_open(self._aead_id, key, nonce, aad, ciphertext)


def _require(suite: Suite) -> None:
    if not suite.supported:
        raise CryptoError("the HPKE suite is not supported")


def _shared_secret(dh: bytes, enc: bytes, recipient: bytes) -> bytes:
    eae_prk = _labeled_extract(_KEM_SUITE, b"", b"eae_prk", dh)
    return _labeled_expand(_KEM_SUITE, eae_prk, b"shared_secret", enc + recipient, _HASH_SIZE)


def _labeled_extract(suite_id: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return extract(salt, _VERSION + suite_id + label + ikm)


def _labeled_expand(suite_id: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return expand(prk, length.to_bytes(2, "big") + _VERSION + suite_id + label + info, length)


@lru_cache(maxsize=16)
def _suite_id(suite: Suite) -> bytes:
    return b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (suite.kem_id, suite.kdf_id, suite.aead_id))


def _key_schedule(suite: Suite, shared_secret: bytes, info: bytes) -> KeySchedule:
    suite_id, schedule = key_schedule_context(suite, info)
    secret = _labeled_extract(suite_id, shared_secret, b"secret", b"")
    return KeySchedule(
        _labeled_expand(suite_id, secret, b"key", schedule, suite.key_size),
        _labeled_expand(suite_id, secret, b"base_nonce", schedule, NONCE_SIZE),
        _labeled_expand(suite_id, secret, b"exp", schedule, _HASH_SIZE),
    )


@lru_cache(maxsize=256)
def key_schedule_context(suite: Suite, info: bytes) -> tuple[bytes, bytes]:
    """suite_id (10 bytes) and key_schedule_context (65 bytes) of base mode (RFC 9180 section 5.1)."""
    suite_id = _suite_id(suite)
    psk_id_hash = _labeled_extract(suite_id, b"", b"psk_id_hash", b"")
    info_hash = _labeled_extract(suite_id, b"", b"info_hash", info)
    return suite_id, _MODE_BASE + psk_id_hash + info_hash


def _aead(aead_id: int, key: bytes, nonce: bytes) -> AESGCM | ChaCha20Poly1305:
    if len(key) != KEY_SIZES.get(aead_id) or len(nonce) != NONCE_SIZE:
        raise ValueError("the key must have the AEAD's size and the nonce 12 bytes")
    return AESGCM(key) if aead_id == AEAD_AES128GCM else ChaCha20Poly1305(key)
