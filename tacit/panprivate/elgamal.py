"""ElGamal encryption that can be rerandomised and added to (Local Pan-Privacy, Definitions 2.7, 2.8 and B.1).

With the private key x and the public key H = xG, an encryption of the element M is (rG, M + rH) for a uniform r. A
rerandomisation adds an encryption of the identity: its r is uniform again, so that it has *the same distribution* as a
fresh encryption of M, and the paper's repeated rerandomisations of something fresh are one fresh encryption (section
4.1). Whoever can tell two encryptions apart without x solves the decisional Diffie-Hellman problem.

Anybody can change what a ciphertext holds (it is malleable on purpose). What is sent to a server is therefore sealed
to it as a whole, and the server checks what it decrypts to.
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
        """Both elements, one after the other."""
        return self.ephemeral + self.masked


def ciphertext_size(group: Group = RISTRETTO255) -> int:
    """Bytes of an encoded ciphertext."""
    return 2 * group.element_size


def decode_ciphertext(data: bytes, group: Group = RISTRETTO255) -> Ciphertext:
    """A ciphertext from outside. Its ephemeral element must not be the identity: that one happens by chance once in
    2^252 encryptions and leaves the plaintext bare. Raises ``DecodeError``."""
    size = group.element_size
    if len(data) != 2 * size:
        raise DecodeError(f"{len(data)} bytes are no ciphertext; {2 * size} are")
    ephemeral = group.checked_element(data[:size])
    if hmac.compare_digest(ephemeral, group.identity):
        raise DecodeError("the ciphertext holds its plaintext in the clear")
    return Ciphertext(ephemeral, group.checked_element(data[size:]))


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What a device encrypts to; not the identity, under which everything would be in the clear."""

    element: bytes
    group: Group = field(default=RISTRETTO255, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.group.checked_element(self.element)
        if self.element == self.group.identity:
            raise DecodeError("the identity is no public key")

    def encrypt(self, element: bytes, entropy: Entropy) -> Ciphertext:
        """A fresh encryption of a group element."""
        group = self.group
        r = group.random_scalar(entropy)
        return Ciphertext(group.times_base(r), group.add(element, group.times(r, self.element)))

    def encrypt_number(self, number: bytes, entropy: Entropy) -> Ciphertext:
        """A fresh encryption of a scalar in the exponent: of its multiple of the generator."""
        return self.encrypt(self.group.times_base(number), entropy)

    def rerandomise(self, ciphertext: Ciphertext, entropy: Entropy) -> Ciphertext:
        """Another encryption of the same element, distributed as a fresh one. Raises ``CryptoError`` where half of
        the result is the identity: libsodium's sum with something that is no element, and by chance never."""
        group = self.group
        r = group.random_scalar(entropy)
        ephemeral = group.add(ciphertext.ephemeral, group.times_base(r))
        masked = group.add(ciphertext.masked, group.times(r, self.element))
        if group.identity in (ephemeral, masked):
            raise CryptoError("what was to be rerandomised is no ciphertext")
        return Ciphertext(ephemeral, masked)


def add(first: Ciphertext, second: Ciphertext, group: Group = RISTRETTO255) -> Ciphertext:
    """An encryption of the sum of what both hold under one key; not a fresh one."""
    return Ciphertext(
        group.add(first.ephemeral, second.ephemeral),
        group.add(first.masked, second.masked),
    )


def multiply(scalar: bytes, ciphertext: Ciphertext, group: Group = RISTRETTO255) -> Ciphertext:
    """An encryption of the scalar's multiple; not a fresh one, and in the clear for the scalar zero: add a fresh
    encryption before anybody sees it."""
    return Ciphertext(group.times(scalar, ciphertext.ephemeral), group.times(scalar, ciphertext.masked))


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """What a server decrypts with; never on a device."""

    scalar: bytes = field(repr=False)
    group: Group = field(default=RISTRETTO255, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.group.checked_scalar(self.scalar)
        if not any(self.scalar):
            raise DecodeError("zero is no private key")

    @classmethod
    def generate(cls, entropy: Entropy, group: Group = RISTRETTO255) -> PrivateKey:
        """A new key."""
        return cls(group.random_scalar(entropy), group)

    def public_key(self) -> PublicKey:
        """The key that belongs to it."""
        return PublicKey(self.group.times_base(self.scalar), self.group)

    def decrypt(self, ciphertext: Ciphertext) -> bytes:
        """The group element."""
        return self.group.subtract(ciphertext.masked, self.group.times(self.scalar, ciphertext.ephemeral))

    def decrypt_bit(self, ciphertext: Ciphertext) -> int:
        """0 or 1 for the identity or the generator; the time tells which, to the server that sees it anyway. Raises
        ``CryptoError`` for every other element."""
        return self._bit(self.group.times(self.scalar, ciphertext.ephemeral), ciphertext.masked)

    def open(self, data: bytes) -> bytes:
        """``decrypt`` of ``decode_ciphertext``, without looking at an element twice. Raises ``DecodeError``."""
        mask, masked = self._mask(data)
        element = self.group.subtract(masked, mask)
        if element == self.group.identity:  # what libsodium answers for a difference with no element, too
            self.group.checked_element(masked)
        return element

    def open_bit(self, data: bytes) -> int:
        """``decrypt_bit`` of ``decode_ciphertext`` in less time: whatever equals one of two elements is one. Raises
        ``DecodeError`` for an ephemeral element that is none, ``CryptoError`` for everything else that is no bit."""
        return self._bit(*self._mask(data))

    def _mask(self, data: bytes) -> tuple[bytes, bytes]:
        """What the message is masked with, and the masked one, which may be anything."""
        size = self.group.element_size
        if len(data) != 2 * size:
            raise DecodeError(f"{len(data)} bytes are no ciphertext; {2 * size} are")
        return self.group.times_checked(self.scalar, data[:size]), data[size:]

    def _bit(self, mask: bytes, masked: bytes) -> int:
        if hmac.compare_digest(masked, mask):
            return 0
        if hmac.compare_digest(masked, self.group.add(mask, self.group.generator)):
            return 1
        raise CryptoError("the ciphertext decrypts to something that is no bit")
