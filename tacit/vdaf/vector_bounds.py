"""What Prio3L2BoundSum proves of a vector: numbers that recipes and methods hold too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.vdaf.field import Field128

MAX_LENGTH, MAX_NUMBER = (1 << 32) - 1, (1 << 64) - 1
"""The largest numbers that a configuration can hold."""


@dataclass(frozen=True, slots=True)
class VectorBounds:
    """What is proved of a vector. ``ValueError`` for what a configuration cannot hold, or what could wrap around."""

    length: int
    max_value: int
    centre: int
    max_square: int
    scale: int = 1
    flips: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_LENGTH:
            raise ValueError(f"length must be from 1 to {MAX_LENGTH}")
        if not 0 <= self.centre <= self.max_value:
            raise ValueError("centre must be one of the values")
        if self.scale < 1 or self.flips < 0 or max(self.largest, self.max_square) > MAX_NUMBER:
            raise ValueError(f"scale * max_value + flips and max_square must be at most {MAX_NUMBER}")
        if self.length * self.reach**2 >= Field128.MODULUS:
            raise ValueError("the sum of squares could wrap around")

    @property
    def reach(self) -> int:
        """The largest distance of a value from the centre."""
        return max(self.centre, self.max_value - self.centre)

    @property
    def largest(self) -> int:
        """The largest number that one measurement adds to a sum."""
        return self.scale * self.max_value + self.flips

    def members(self) -> dict[str, int]:
        """Everything but the length, by name."""
        return {name: getattr(self, name) for name in ("max_value", "centre", "max_square", "scale", "flips")}

    def elements(self) -> int:
        """Bits of an encoded measurement, which has a field element for each."""
        bits = self.max_value.bit_length() + self.flips.bit_length()
        return self.length * bits + self.max_square.bit_length()

    @property
    def numbers(self) -> int:
        """How many numbers a measurement has: the values, and their noises unless ``flips`` is 0."""
        return 2 * self.length if self.flips else self.length

    def summed(self, measurement: Sequence[int]) -> list[int]:
        """What a measurement of ``numbers`` numbers adds to the ``length`` sums."""
        noises = measurement[self.length :] or [0] * self.length
        return [self.scale * v + f for v, f in zip(measurement[: self.length], noises, strict=True)]

    def square(self, values: Sequence[int]) -> int:
        """The squared distance of ``length`` values from the centre."""
        return sum((value - self.centre) ** 2 for value in values)
