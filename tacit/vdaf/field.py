"""Prime fields of VDAF (draft-irtf-cfrg-vdaf, section 6.1): Field64 and Field128.

An element is a plain ``int`` in [0, MODULUS), a vector a ``list[int]``. The classes are never instantiated;
they hold a field's constants and its vector operations. Encodings are little-endian and of fixed size.

Python integers do not run in constant time. Nothing here branches on a secret, but the width of an operand
may show in the time an operation takes.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from operator import add, mul, sub
from typing import ClassVar

from tacit.errors import DecodeError


class Field(ABC):
    """A field with a large multiplicative subgroup whose order is a power of two."""

    MODULUS: ClassVar[int]
    ENCODED_SIZE: ClassVar[int]
    """Length of an encoded element, in bytes."""
    GENERATOR: ClassVar[int]
    """Generator of the subgroup of order ``GEN_ORDER``."""
    GEN_ORDER: ClassVar[int]

    @classmethod
    @abstractmethod
    def encode_vec(cls, vec: Sequence[int]) -> bytes:
        """``len(vec) * ENCODED_SIZE`` bytes. Precondition: every element is reduced."""

    @classmethod
    @abstractmethod
    def unpack(cls, data: bytes) -> list[int]:
        """Little-endian integers of ``ENCODED_SIZE`` bytes, *not* compared with the modulus.

        Precondition: the length is a multiple of ``ENCODED_SIZE``.
        """

    @classmethod
    def decode_vec(cls, data: bytes) -> list[int]:
        """Inverse of ``encode_vec``. Raises ``DecodeError`` on a partial or an unreduced element."""
        if len(data) % cls.ENCODED_SIZE:
            raise DecodeError(f"a vector of {len(data)} bytes does not hold whole {cls.__name__} elements")
        vec = cls.unpack(data)
        if vec and max(vec) >= cls.MODULUS:
            raise DecodeError(f"a {cls.__name__} element is not below the modulus")
        return vec

    @classmethod
    def nth_root(cls, n: int) -> int:
        """The principal n-th root of unity of the draft. ``n`` is a power of two, at most ``GEN_ORDER``."""
        if n < 1 or n & (n - 1) or n > cls.GEN_ORDER:
            raise ValueError(f"{cls.__name__} has no principal root of unity of order {n}")
        return pow(cls.GENERATOR, cls.GEN_ORDER // n, cls.MODULUS)

    @classmethod
    def inv(cls, value: int) -> int:
        """Multiplicative inverse. Raises ``ValueError`` for zero."""
        return pow(value, -1, cls.MODULUS)

    @classmethod
    def add_vec(cls, left: Sequence[int], right: Sequence[int]) -> list[int]:
        """Element-wise sum of two vectors of one length."""
        _same_length(left, right)
        modulus = cls.MODULUS
        return [value % modulus for value in map(add, left, right)]

    @classmethod
    def sub_vec(cls, left: Sequence[int], right: Sequence[int]) -> list[int]:
        """Element-wise difference of two vectors of one length."""
        _same_length(left, right)
        modulus = cls.MODULUS
        return [value % modulus for value in map(sub, left, right)]

    @classmethod
    def inner_product(cls, left: Sequence[int], right: Sequence[int]) -> int:
        """Sum of products over the shorter length, reduced once."""
        total: int = sum(map(mul, left, right))
        return total % cls.MODULUS


class Field64(Field):
    """The field of 2^64 - 2^32 + 1 elements."""

    MODULUS = 2**32 * 4294967295 + 1
    ENCODED_SIZE = 8
    GEN_ORDER = 2**32
    # 7 is no square and the exponent is odd, so that the order is 2^32 and no less
    GENERATOR = pow(7, 4294967295, MODULUS)

    @classmethod
    def encode_vec(cls, vec: Sequence[int]) -> bytes:
        return struct.pack(f"<{len(vec)}Q", *vec)

    @classmethod
    def unpack(cls, data: bytes) -> list[int]:
        return list(struct.unpack(f"<{len(data) // 8}Q", data))


class Field128(Field):
    """The field of 2^128 - 7 * 2^66 + 1 elements."""

    MODULUS = 2**66 * 4611686018427387897 + 1
    ENCODED_SIZE = 16
    GEN_ORDER = 2**66
    # 7 is no square and the exponent is odd, so that the order is 2^66 and no less
    GENERATOR = pow(7, 4611686018427387897, MODULUS)

    @classmethod
    def encode_vec(cls, vec: Sequence[int]) -> bytes:
        return b"".join([value.to_bytes(16, "little") for value in vec])

    @classmethod
    def unpack(cls, data: bytes) -> list[int]:
        words = struct.unpack(f"<{len(data) // 8}Q", data)
        return [low | high << 64 for low, high in zip(words[::2], words[1::2], strict=True)]


@cache
def inverse_of(field: type[Field], value: int) -> int:
    """``field.inv`` for public constants (a number of shares, a domain size), computed once."""
    return field.inv(value)


def _same_length(left: Sequence[int], right: Sequence[int]) -> None:
    if len(left) != len(right):
        raise ValueError(f"vectors of {len(left)} and {len(right)} elements cannot be combined")
