"""Extendable output functions, and XofTurboShake128, that of Prio3 (draft-irtf-cfrg-vdaf, section 6.2.1).

The latter is TurboSHAKE128 (RFC 9861) with domain byte 1 over ``le16(len(dst)) || dst || u8(len(seed)) || seed ||
binder``. The output is one continuous stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any

from tacit.vdaf.field import Field

_DOMAIN = 0x01


@cache
def _turbo_shake() -> Callable[..., Any]:
    """What makes the streams, loaded at its first use: pycryptodome parses declarations of C for long, and a device
    that computes with kernels needs none of it."""
    try:
        from Crypto.Hash import TurboSHAKE128
    except ModuleNotFoundError:
        from tacit.vdaf.turbo_shake import Stream

        return Stream
    new: Callable[..., Any] = TurboSHAKE128.new
    return new


class Xof(ABC):
    """One output stream, bound to a seed, a domain separation tag and a binder string (draft-irtf-cfrg-vdaf, section
    6.2)."""

    SEED_SIZE = 32

    @abstractmethod
    def __init__(self, seed: bytes, dst: bytes, binder: bytes = b"") -> None:
        """Raises ``ValueError`` for a seed or a domain separation tag that is too long."""

    @abstractmethod
    def next(self, length: int) -> bytes:
        """The next ``length`` bytes of the stream."""

    def next_vec(self, field: type[Field], length: int) -> list[int]:
        """The next ``length`` uniform field elements; blocks that are not below the modulus are skipped."""
        modulus = field.MODULUS
        # The draft draws one by one and masks each block to the bits of the modulus. Both moduli fill their blocks, and
        # what replaces skipped ones comes from behind all of these: the elements are the same, in the same order.
        vec = field.unpack(self.next(length * field.ENCODED_SIZE))
        while vec and max(vec) >= modulus:
            vec = [value for value in vec if value < modulus]
            vec += field.unpack(self.next((length - len(vec)) * field.ENCODED_SIZE))
        return vec

    @classmethod
    def derive_seed(cls, seed: bytes, dst: bytes, binder: bytes) -> bytes:
        """A fresh seed of ``SEED_SIZE`` bytes."""
        return cls(seed, dst, binder).next(cls.SEED_SIZE)

    @classmethod
    def expand_into_vec(cls, field: type[Field], seed: bytes, dst: bytes, binder: bytes, length: int) -> list[int]:
        """The first ``length`` field elements of the stream."""
        return cls(seed, dst, binder).next_vec(field, length)


class XofTurboShake128(Xof):
    """TurboSHAKE128 over tag, seed and binder."""

    def __init__(self, seed: bytes, dst: bytes, binder: bytes = b"") -> None:
        if len(dst) > 0xFFFF:
            raise ValueError(f"a domain separation tag of {len(dst)} bytes is too long")
        if len(seed) > 0xFF:
            raise ValueError(f"a seed of {len(seed)} bytes is too long")
        message = len(dst).to_bytes(2, "little") + dst + bytes((len(seed),)) + seed + binder
        self._stream = _turbo_shake()(domain=_DOMAIN, data=message)

    def next(self, length: int) -> bytes:
        output: bytes = self._stream.read(length)
        return output
