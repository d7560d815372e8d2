"""The group in which pan-private state is encrypted: of prime order, written additively."""

from __future__ import annotations

from typing import Protocol

from tacit.ports import Entropy


class Group(Protocol):
    """A cyclic group of prime order in which the decisional Diffie-Hellman problem is assumed to be hard.

    Elements and scalars are byte strings in their one canonical form. The operations trust their arguments, so
    everything from outside must first pass ``checked_element`` or ``checked_scalar``, once.
    """

    @property
    def name(self) -> str:
        """The name of the group in key files and recipes."""
        ...

    @property
    def order(self) -> int:
        """The prime number of elements."""
        ...

    @property
    def element_size(self) -> int:
        """Length of an encoded element, in bytes."""
        ...

    @property
    def identity(self) -> bytes:
        """The encoding of the group's neutral element."""
        ...

    @property
    def generator(self) -> bytes:
        """The generator that ``times_base`` multiplies."""
        ...

    def checked_element(self, data: bytes) -> bytes:
        """``data`` if it is the canonical form of an element, including the identity. Raises ``DecodeError``."""
        ...

    def checked_scalar(self, data: bytes) -> bytes:
        """``data`` if it is the canonical form of a scalar, including zero. Raises ``DecodeError``."""
        ...

    def is_element(self, data: bytes) -> bool:
        """Whether ``data`` of the right length is the canonical form of an element."""
        ...

    def random_scalar(self, entropy: Entropy) -> bytes:
        """A uniform scalar, up to a statistical distance of 2^-250."""
        ...

    def scalar(self, number: int) -> bytes:
        """``number`` modulo the order; the time depends on it, so only for public numbers."""
        ...

    def times_base(self, scalar: bytes) -> bytes:
        """The scalar's multiple of the generator, in constant time; zero gives the identity."""
        ...

    def times(self, scalar: bytes, element: bytes) -> bytes:
        """The scalar's multiple of ``element``, in constant time; zero and the identity are allowed."""
        ...

    def times_checked(self, scalar: bytes, data: bytes) -> bytes:
        """``times`` of a non-zero scalar and ``data`` from outside, checked only once. Raises ``DecodeError`` where it
        is not the canonical form of an element, and for the identity."""
        ...

    def add(self, first: bytes, second: bytes) -> bytes:
        """The group sum of two encoded elements."""
        ...

    def subtract(self, first: bytes, second: bytes) -> bytes:
        """The group difference of two encoded elements."""
        ...
