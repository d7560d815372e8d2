"""The group in which pan-private state is encrypted: of prime order, written additively."""

from __future__ import annotations

from typing import Protocol

from tacit.ports import Entropy


class Group(Protocol):
    """A cyclic group of prime order in which the decisional Diffie-Hellman problem is taken to be hard.

    Elements and scalars are byte strings in their one canonical form; the operations trust their arguments, so
    that whatever comes from outside goes through ``checked_element`` or ``checked_scalar`` first, once.
    """

    @property
    def name(self) -> str:
        """What key files and recipes call it."""
        ...

    @property
    def order(self) -> int:
        """The prime number of elements."""
        ...

    @property
    def element_size(self) -> int:
        """Bytes of an element."""
        ...

    @property
    def scalar_size(self) -> int:
        """Bytes of a scalar."""
        ...

    @property
    def identity(self) -> bytes:
        """The neutral element."""
        ...

    @property
    def generator(self) -> bytes:
        """What ``times_base`` multiplies."""
        ...

    def checked_element(self, data: bytes) -> bytes:
        """``data`` if it is the canonical form of an element, the identity among them. Raises ``DecodeError``."""
        ...

    def checked_scalar(self, data: bytes) -> bytes:
        """``data`` if it is the canonical form of a scalar, zero among them. Raises ``DecodeError``."""
        ...

    def is_element(self, data: bytes) -> bool:
        """Whether ``data`` of the right length is the canonical form of an element."""
        ...

    def random_scalar(self, entropy: Entropy) -> bytes:
        """A scalar whose distribution is uniform but for 2^-250 of statistical distance."""
        ...

    def scalar(self, number: int) -> bytes:
        """``number`` modulo the order; takes time that depends on it, so for public numbers."""
        ...

    def times_base(self, scalar: bytes) -> bytes:
        """The scalar's multiple of the generator, in constant time; zero gives the identity."""
        ...

    def times(self, scalar: bytes, element: bytes) -> bytes:
        """The scalar's multiple of ``element``, in constant time; zero and the identity are welcome."""
        ...

    def times_checked(self, scalar: bytes, data: bytes) -> bytes:
        """``times`` of a scalar that is not zero and ``data`` from outside, which is looked at only once. Raises
        ``DecodeError`` where it is not the canonical form of an element, and for the identity."""
        ...

    def add(self, first: bytes, second: bytes) -> bytes:
        """The sum."""
        ...

    def subtract(self, first: bytes, second: bytes) -> bytes:
        """``first`` minus ``second``."""
        ...
