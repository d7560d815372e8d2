"""How a randomised answer is packed into the payload of a report: a server that reads it by itself (model ``local``)
reads exactly what the method's proof would prove."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tacit.dap_errors import ReportError, ReportRejected
from tacit.methods.base.affine import PUBLIC_SIZE
from tacit.methods.base.method import Method

CATEGORY_SIZE = 2
_RANGE = ReportRejected(ReportError.INVALID_MESSAGE, "answer-range")


class Packing(ABC):
    """Measurements as payloads of ``size`` bytes that add to ``cells`` numbers."""

    size: int
    cells: int

    @abstractmethod
    def pack(self, measurement: Any) -> bytes:
        """The payload. ``ValueError`` for a measurement that is out of range."""

    @abstractmethod
    def unpack(self, payload: bytes) -> tuple[int, ...]:
        """The numbers in a payload. Raises ``ReportRejected`` for one that the method cannot make."""


@dataclass(frozen=True)
class CategoryPacking(Packing):
    """A category, or with one cell a bit: two bytes."""

    cells: int
    size: int = CATEGORY_SIZE

    def pack(self, measurement: int) -> bytes:
        """Encode a category as an integer in network byte order. Raises ``ValueError`` outside the range."""
        if not 0 <= measurement < max(2, self.cells):
            raise ValueError(f"an answer must be below {max(2, self.cells)}")
        return measurement.to_bytes(CATEGORY_SIZE, "big")

    def unpack(self, payload: bytes) -> tuple[int, ...]:
        """A one in the category's cell; with one cell the bit."""
        category = int.from_bytes(payload, "big")
        if category >= max(2, self.cells):
            raise _RANGE
        return (category,) if self.cells == 1 else tuple(int(cell == category) for cell in range(self.cells))


@dataclass(frozen=True)
class BitsPacking(Packing):
    """At most ``max_weight`` ones among bits, the first one highest."""

    cells: int
    max_weight: int

    @property
    def size(self) -> int:  # type: ignore[override]
        """The payload's size in bytes, eight bits to a byte."""
        return -(-self.cells // 8)

    def pack(self, measurement: list[int]) -> bytes:
        """The bits, and zeros up to a whole byte. ``ValueError`` for another number of bits, or too many ones."""
        if len(measurement) != self.cells or not set(measurement) <= {0, 1} or sum(measurement) > self.max_weight:
            raise ValueError(f"an answer must have {self.cells} bits, at most {self.max_weight} of them one")
        bits = int("".join(map(str, measurement)), 2) << (8 * self.size - self.cells)
        return bits.to_bytes(self.size, "big")

    def unpack(self, payload: bytes) -> tuple[int, ...]:
        """Decode the bits. Raises for a payload with padding bits set or with too many ones."""
        padding = 8 * self.size - self.cells
        whole = int.from_bytes(payload, "big")
        if whole & ((1 << padding) - 1) or whole.bit_count() > self.max_weight:
            raise _RANGE
        return tuple(int(bit) for bit in f"{whole >> padding:0{self.cells}b}")


@dataclass(frozen=True)
class HashPacking(Packing):
    """A hashed report: its 16 public bytes and its value. They are sealed like every answer: whoever knew the public
    bytes of each device could solve for its value in what a search releases. The only number that a report adds to
    counts reports."""

    values: int
    size: int = PUBLIC_SIZE + 1
    cells: int = 1

    def pack(self, measurement: list[int]) -> bytes:
        """The public bytes, which were drawn before the answer was looked at, and the value."""
        public, value = measurement
        if not 0 <= value < self.values:
            raise ValueError(f"an answer must be below {self.values}")
        return public.to_bytes(PUBLIC_SIZE, "big") + bytes([value])

    def unpack(self, payload: bytes) -> tuple[int, ...]:
        """One report. Raises ``ReportRejected`` for a value that is not below ``values``."""
        if payload[PUBLIC_SIZE] >= self.values:
            raise _RANGE
        return (1,)


def packing_of(method: Method) -> Packing:
    """The packing of a method's measurements. ``ValueError`` for a method whose single reports hide nothing."""
    if not method.IS_LOCAL:
        raise ValueError(f"single reports of {method.NAME} hide nothing")
    proof = method.proof
    if proof is None:
        return HashPacking(method.cells)
    if proof.max_weight is not None:
        return BitsPacking(method.cells, proof.max_weight)
    return CategoryPacking(method.cells)
