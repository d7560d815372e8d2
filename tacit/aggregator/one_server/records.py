"""The record of a recipe's sum."""

from __future__ import annotations

from dataclasses import dataclass, field

NUMBER_SIZE = 8


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Number of added reports, and the sum of their numbers, cell by cell. ``search``: what was found in reports that
    are searched, as JSON; empty for all others, and before the release."""

    report_count: int
    numbers: tuple[int, ...] = field(repr=False)
    search: bytes = field(default=b"", repr=False)

    def plus(self, other: Aggregate) -> Aggregate:
        """The sum of two aggregates of the same recipe."""
        numbers = tuple(one + another for one, another in zip(self.numbers, other.numbers, strict=True))
        return Aggregate(self.report_count + other.report_count, numbers)


def pack(numbers: tuple[int, ...]) -> bytes:
    """``NUMBER_SIZE`` bytes for each number, big-endian. ``OverflowError`` for one that is negative or too large for
    them."""
    return b"".join(number.to_bytes(NUMBER_SIZE, "big") for number in numbers)


def unpack(data: bytes) -> tuple[int, ...]:
    """Decode the numbers that ``pack`` encoded."""
    return tuple(int.from_bytes(data[at : at + NUMBER_SIZE], "big") for at in range(0, len(data), NUMBER_SIZE))
