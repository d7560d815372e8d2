"""ristretto255 (RFC 9496) as a ``Group``, by libsodium."""

from __future__ import annotations

from typing import Final

import rbcl

from tacit.errors import DecodeError
from tacit.panprivate.group import Group
from tacit.ports import Entropy

_SIZE: Final = 32
_WIDE: Final = 64
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493


class Ristretto255:
    """RFC 9496. Elements and scalars have 32 bytes; a multiplication takes the same time whatever the scalar."""

    name: Final = "ristretto255"
    order: Final = _ORDER
    element_size: Final = _SIZE
    scalar_size: Final = _SIZE
    identity: Final = bytes(_SIZE)
    generator: Final = bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
    """Of section A.1."""

    def checked_element(self, data: bytes) -> bytes:
        """The 32 bytes of section 4.3.1's canonical form; libsodium itself takes others for the identity."""
        if len(data) != _SIZE:
            raise DecodeError(f"{len(data)} bytes are no ristretto255 element; {_SIZE} are")
        if not self.is_element(data):
            raise DecodeError("the bytes are not the canonical form of a ristretto255 element")
        return data

    def checked_scalar(self, data: bytes) -> bytes:
        """32 bytes, little-endian, below the order (section 4.4)."""
        if len(data) != _SIZE:
            raise DecodeError(f"{len(data)} bytes are no ristretto255 scalar; {_SIZE} are")
        if int.from_bytes(data, "little") >= _ORDER:
            raise DecodeError("the scalar is not below the order of ristretto255")
        return data

    def is_element(self, data: bytes) -> bool:
        """Whether 32 bytes are the canonical form of an element."""
        return bool(rbcl.crypto_core_ristretto255_is_valid_point(data))

    def random_scalar(self, entropy: Entropy) -> bytes:
        """64 uniform bytes modulo the order (section 4.4)."""
        return bytes(rbcl.crypto_core_ristretto255_scalar_reduce(entropy(_WIDE)))

    def scalar(self, number: int) -> bytes:
        """``number`` modulo the order, little-endian."""
        return (number % _ORDER).to_bytes(_SIZE, "little")

    def times_base(self, scalar: bytes) -> bytes:
        """The multiple of the generator of section 4.3.2's basepoint."""
        return bytes(rbcl.crypto_scalarmult_ristretto255_base_allow_scalar_zero(scalar))

    def times(self, scalar: bytes, element: bytes) -> bytes:
        """The multiple of ``element``."""
        return bytes(rbcl.crypto_scalarmult_ristretto255_allow_scalar_zero(scalar, element))

    def times_checked(self, scalar: bytes, data: bytes) -> bytes:
        """The multiple; libsodium answers the identity for what it does not take, and for the identity alone."""
        product = self.times(scalar, data) if len(data) == _SIZE else self.identity
        if product == self.identity:
            raise DecodeError("the bytes are not the canonical form of a ristretto255 element other than the identity")
        return product

    def add(self, first: bytes, second: bytes) -> bytes:
        """The sum."""
        return bytes(rbcl.crypto_core_ristretto255_add(first, second))

    def subtract(self, first: bytes, second: bytes) -> bytes:
        """``first`` minus ``second``."""
        return bytes(rbcl.crypto_core_ristretto255_sub(first, second))


RISTRETTO255: Group = Ristretto255()
"""The group of every recipe so far."""
