"""RSA blind signatures (RFC 9474), all four SHA-384 variants: keys, and the verification of tokens.

Prepare and Blind are run by the client (``tacit.tokens.blinding``), BlindSign by the issuer
(``tacit.tokens.issuer_key``), Finalize by the client again, Verify by anyone. A key is used with this encoding only,
and with no other protocol.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tacit.errors import CryptoError, DecodeError
from tacit.ports import Entropy
from tacit.tokens.modular import mpz

TOKEN_KEY_BITS = 2048
PUBLIC_EXPONENT = 65537
KEYS_KEPT = 64
"""How many decoded keys a process remembers: a directory has up to 256, but few are asked for at a time."""

# AlgorithmIdentifier of RFC 9578 section 8.2.2: id-RSASSA-PSS, SHA-384, MGF1-SHA-384, salt length 48.
_PSS_ALGORITHM = bytes.fromhex(
    "303d06092a864886f70d01010a3030a00d300b0609608648016503040202"
    "a11a301806092a864886f70d010108300b0609608648016503040202a203020130"
)


class Variant(enum.Enum):
    """The named variants of RFC 9474 section 5: (name, salt bytes, whether Prepare adds a random prefix)."""

    PSS_RANDOMIZED = ("RSABSSA-SHA384-PSS-Randomized", 48, True)
    PSSZERO_RANDOMIZED = ("RSABSSA-SHA384-PSSZERO-Randomized", 0, True)
    PSS_DETERMINISTIC = ("RSABSSA-SHA384-PSS-Deterministic", 48, False)
    PSSZERO_DETERMINISTIC = ("RSABSSA-SHA384-PSSZERO-Deterministic", 0, False)

    @property
    def salt_size(self) -> int:
        """Length of the PSS salt, in bytes."""
        return self.value[1]

    @property
    def randomized(self) -> bool:
        """Whether Prepare puts 32 random bytes before the message."""
        return self.value[2]


_SHA384 = hashes.SHA384()
_PADDING = {size: padding.PSS(mgf=padding.MGF1(_SHA384), salt_length=size) for size in (0, 48)}


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


@dataclass(frozen=True)
class TokenKey:
    """An issuer's public key. ``spki`` is its only DER encoding, as directories and key ids use it."""

    spki: bytes = field(repr=False)
    n: mpz = field(repr=False, compare=False)
    e: mpz = field(repr=False, compare=False)
    token_key_id: bytes = field(compare=False)
    verifier: rsa.RSAPublicKey = field(repr=False, compare=False)

    @classmethod
    def from_public_key(cls, key: rsa.RSAPublicKey) -> TokenKey:
        """Wrap an RSA public key of any size (RFC 9474 does not fix one)."""
        numbers = key.public_numbers()
        pkcs1 = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.PKCS1)
        spki = _der(0x30, _PSS_ALGORITHM + _der(0x03, b"\x00" + pkcs1))
        return cls(
            spki=spki,
            n=mpz(numbers.n),
            e=mpz(numbers.e),
            token_key_id=hashlib.sha256(spki).digest(),
            verifier=key,
        )

    @classmethod
    def from_spki(cls, spki: bytes) -> TokenKey:
        """Decode a token key of type 0x0002: 2048 bits, id-RSASSA-PSS with the parameters of RFC 9578, nothing else.
        The exponent must be 65537: with 1 anybody could sign, and a large one makes each check as slow as signing.

        Raises ``DecodeError``.
        """
        return _decoded_key(spki)

    @property
    def truncated_token_key_id(self) -> int:
        """Last byte of the key id, by which a token request names its key."""
        return self.token_key_id[-1]

    def number_of(self, blinded_message: bytes) -> mpz:
        """The integer to be signed. Raises ``DecodeError`` for a message of the wrong size or not below the modulus
        (RFC 9474 section 4.3, RFC 9578 section 6.2)."""
        if len(blinded_message) != self.modulus_len:
            raise DecodeError(f"blinded message has {len(blinded_message)} bytes, not {self.modulus_len}")
        number = mpz(int.from_bytes(blinded_message, "big"))
        if number >= self.n:
            raise DecodeError("blinded message is not below the modulus")
        return number

    @property
    def modulus_len(self) -> int:
        """Bytes of the modulus, a blinded message and a signature."""
        return -(-self.verifier.key_size // 8)


@lru_cache(maxsize=KEYS_KEPT)
def _decoded_key(spki: bytes) -> TokenKey:
    try:
        loaded = serialization.load_der_public_key(spki)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise DecodeError("token key is not a DER public key") from error
    if not isinstance(loaded, rsa.RSAPublicKey) or loaded.key_size != TOKEN_KEY_BITS:
        raise DecodeError("token key is not a 2048-bit RSA key")
    key = TokenKey.from_public_key(loaded)
    if key.spki != spki or key.n % 2 == 0 or key.e != PUBLIC_EXPONENT:
        raise DecodeError("token key is not in the form of RFC 9578")
    return key


def nonzero(n: mpz, entropy: Entropy) -> mpz:
    """A blinding factor: uniform in [1, n), by rejection."""
    bits = n.bit_length()
    size = (bits + 7) // 8
    while True:
        r = mpz(int.from_bytes(entropy(size), "big") >> (8 * size - bits))
        if 0 < r < n:
            return r


def verify(
    public_key: TokenKey,
    prepared: bytes,
    signature: bytes,
    variant: Variant = Variant.PSS_DETERMINISTIC,
) -> None:
    """RSASSA-PSS verification (RFC 8017 section 8.1.2). Step 1 requires a signature exactly as long as the modulus,
    which is checked here because the library also accepts one without its leading zero bytes. Raises ``CryptoError``.
    """
    if len(signature) != public_key.modulus_len:
        raise CryptoError(f"token signature has {len(signature)} bytes, not {public_key.modulus_len}")
    try:
        public_key.verifier.verify(signature, prepared, _PADDING[variant.salt_size], _SHA384)
    except InvalidSignature as error:
        raise CryptoError("token signature does not verify") from error
