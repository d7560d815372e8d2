"""ElGamal encryption with rerandomisation and addition (Local Pan-Privacy, Definitions 2.7, 2.8 and B.1).

With the private key x and the public key H = xG, an encryption of the element M is (rG, M + rH) for a uniform r. A
rerandomisation adds an encryption of the identity: its r is uniform again, so it has *the same distribution* as a fresh
encryption of M, and the paper's repeated rerandomisations of a fresh encryption amount to one fresh encryption (section
4.1). Telling two encryptions apart without x means solving the decisional Diffie-Hellman problem.

Anybody can change what a ciphertext holds (it is malleable on purpose). What is sent to a server is therefore sealed to
it as a whole, and the server checks what it decrypts to.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from tacit.errors import CryptoError, DecodeError
from tacit.panprivate.group import Group
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.ports import Entropy


@dataclass(frozen=True, slots=True)
class Ciphertext:
    """An encryption of one group element: ``ephemeral`` = rG and ``masked`` = M + rH."""

    ephemeral: bytes = field(repr=False)
    masked: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Encode both elements, one after the other."""
        return self.ephemeral + self.masked


def ciphertext_size(group: Group = RISTRETTO255) -> int:
    """Bytes of an encoded ciphertext: two elements."""
    return 2 * group.element_size


def decode_ciphertext(data: bytes, group: Group = RISTRETTO255) -> Ciphertext:
    """Decode a ciphertext from outside. Its ephemeral element must not be the identity, which would leave the plaintext
    in the clear (and happens by chance once in 2^252 encryptions). Raises ``DecodeError``."""
    size = group.element_size
    if len(data) != 2 * size:
        raise DecodeError(f"{len(data)} bytes are not a ciphertext, which has {2 * size}")
    ephemeral = group.checked_element(data[:size])
    if hmac.compare_digest(ephemeral, group.identity):
        raise DecodeError("the ciphertext holds its plaintext in the clear")
    return Ciphertext(ephemeral, group.checked_element(data[size:]))


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The key to which a device encrypts; not the identity, under which everything would be in the clear."""

    element: bytes
    group: Group = field(default=RISTRETTO255, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.group.checked_element(self.element)
        if self.element == self.group.identity:
            raise DecodeError("the identity is not a valid public key")

    def encrypt(self, element: bytes, entropy: Entropy) -> Ciphertext:
        """A fresh encryption of a group element."""
        group = self.group
        r = group.random_scalar(entropy)
        return Ciphertext(group.times_base(r), group.add(element, group.times(r, self.element)))

    def rerandomise(self, ciphertext: Ciphertext, entropy: Entropy) -> Ciphertext:
        """Another encryption of the same element, distributed like a fresh one. Raises ``CryptoError`` where half of
        the result is the identity: libsodium returns this for a sum with a non-element, and it never happens by chance.
        """
        group = self.group
        r = group.random_scalar(entropy)
        ephemeral = group.add(ciphertext.ephemeral, group.times_base(r))
        masked = group.add(ciphertext.masked, group.times(r, self.element))
        if group.identity in (ephemeral, masked):
            raise CryptoError("the input of the rerandomisation is not a ciphertext")
        return Ciphertext(ephemeral, masked)


def add(first: Ciphertext, second: Ciphertext, group: Group = RISTRETTO255) -> Ciphertext:
    """An encryption of the sum of both plaintexts, which must be under the same key; it is not fresh."""
    return Ciphertext(
        group.add(first.ephemeral, second.ephemeral),
        group.add(first.masked, second.masked),
    )


def multiply(scalar: bytes, ciphertext: Ciphertext, group: Group = RISTRETTO255) -> Ciphertext:
    """An encryption of the scalar's multiple of the plaintext. It is not fresh, and in the clear for the scalar zero:
    add a fresh encryption before anybody sees it."""
    return Ciphertext(group.times(scalar, ciphertext.ephemeral), group.times(scalar, ciphertext.masked))


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """The key with which a server decrypts; never on a device."""

    scalar: bytes = field(repr=False)
    group: Group = field(default=RISTRETTO255, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.group.checked_scalar(self.scalar)
        if not any(self.scalar):
            raise DecodeError("zero is not a valid private key")

    @classmethod
    def generate(cls, entropy: Entropy, group: Group = RISTRETTO255) -> PrivateKey:
        """Generate a new private key: a uniform scalar of ``group``."""
        return cls(group.random_scalar(entropy), group)

    def public_key(self) -> PublicKey:
        return PublicKey(self.public, self.group)

    @property
    def public(self) -> bytes:
        return self.group.times_base(self.scalar)

    def decrypt(self, ciphertext: Ciphertext) -> bytes:
        """The group element M that a valid ciphertext holds; see ``open`` for bytes from outside."""
        return self.group.subtract(ciphertext.masked, self.group.times(self.scalar, ciphertext.ephemeral))

    def open(self, data: bytes) -> bytes:
        """``decrypt`` of ``decode_ciphertext``, checking each element only once. Raises ``DecodeError``."""
        mask, masked = self._mask(data)
        element = self.group.subtract(masked, mask)
        if element == self.group.identity:  # libsodium also returns this for a difference with a non-element
            self.group.checked_element(masked)
        return element

    def open_bit(self, data: bytes) -> int:
        """Decrypt encoded bytes: 0 for the identity, 1 for the generator. Whatever equals one of the two is a valid
        element. The time depends on the bit, so it is only for the server, which sees it anyway. Raises ``DecodeError``
        for an invalid ephemeral element, ``CryptoError`` for any other content that is not a bit."""
        return self._bit(*self._mask(data))

    def _mask(self, data: bytes) -> tuple[bytes, bytes]:
        """The mask of the message, and the masked message, which may be any bytes."""
        size = self.group.element_size
        if len(data) != 2 * size:
            raise DecodeError(f"{len(data)} bytes are not a ciphertext, which has {2 * size}")
        return self.group.times_checked(self.scalar, data[:size]), data[size:]

    def _bit(self, mask: bytes, masked: bytes) -> int:
        if hmac.compare_digest(masked, mask):
            return 0
        if hmac.compare_digest(masked, self.group.add(mask, self.group.generator)):
            return 1
        raise CryptoError("the ciphertext does not decrypt to a bit")
