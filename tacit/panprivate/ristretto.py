"""ristretto255 (RFC 9496) as a ``Group``, implemented with libsodium."""

from __future__ import annotations

from typing import Final

from tacit import sodium
from tacit.errors import DecodeError
from tacit.panprivate.group import Group
from tacit.ports import Entropy

_ORDER: Final = 2**252 + 27742317777372353535851937790883648493


class Ristretto255:
    """RFC 9496. Elements and scalars have 32 bytes; a multiplication takes the same time whatever the scalar."""

    name: Final = "ristretto255"
    order: Final = _ORDER
    element_size: Final = sodium.SIZE
    identity: Final = bytes(sodium.SIZE)
    generator: Final = bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
    """From RFC 9496, section A.1."""

    def checked_element(self, data: bytes) -> bytes:
        """The 32 bytes of the canonical form of section 4.3.1; libsodium itself also takes other bytes for the
        identity."""
        if len(data) != sodium.SIZE:
            raise DecodeError(f"{len(data)} bytes are not a ristretto255 element, which has {sodium.SIZE}")
        if not self.is_element(data):
            raise DecodeError("the bytes are not the canonical form of a ristretto255 element")
        return data

    def checked_scalar(self, data: bytes) -> bytes:
        """32 bytes, little-endian, below the order (section 4.4)."""
        if len(data) != sodium.SIZE:
            raise DecodeError(f"{len(data)} bytes are not a ristretto255 scalar, which has {sodium.SIZE}")
        if int.from_bytes(data, "little") >= _ORDER:
            raise DecodeError("the scalar must be below the order of ristretto255")
        return data

    def is_element(self, data: bytes) -> bool:
        """Whether 32 bytes are the canonical form of an element."""
        return sodium.is_valid_point(data)

    def random_scalar(self, entropy: Entropy) -> bytes:
        """64 uniform bytes modulo the order (section 4.4)."""
        return sodium.scalar_reduce(entropy(sodium.WIDE))

    def scalar(self, number: int) -> bytes:
        """``number`` modulo the order, little-endian."""
        return (number % _ORDER).to_bytes(sodium.SIZE, "little")

    def times_base(self, scalar: bytes) -> bytes:
        """The scalar's multiple of the basepoint of section 4.3.2."""
        return sodium.multiply_base(scalar)

    def times(self, scalar: bytes, element: bytes) -> bytes:
        """The scalar's multiple of ``element``, which must be valid: libsodium makes the identity of anything else."""
        return sodium.multiply(scalar, element)

    def times_checked(self, scalar: bytes, data: bytes) -> bytes:
        """The scalar's multiple of the decoded element; libsodium returns the identity for invalid bytes, and for the
        identity alone."""
        product = self.times(scalar, data) if len(data) == sodium.SIZE else self.identity
        if product == self.identity:
            raise DecodeError("the bytes are not the canonical form of a ristretto255 element other than the identity")
        return product

    def add(self, first: bytes, second: bytes) -> bytes:
        """The group sum of two encoded elements."""
        return sodium.add(first, second)

    def subtract(self, first: bytes, second: bytes) -> bytes:
        """``first`` minus ``second``; libsodium makes the identity of anything that is no element."""
        return sodium.subtract(first, second)


RISTRETTO255: Group = Ristretto255()
"""The group of every recipe so far."""
