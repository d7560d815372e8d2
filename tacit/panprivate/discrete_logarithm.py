"""Discrete logarithms of small integers, by baby steps and giant steps."""

from __future__ import annotations

import math

from tacit.errors import CryptoError
from tacit.panprivate.group import Group
from tacit.panprivate.ristretto import RISTRETTO255

MAX_VALUES = 2**32
"""The widest range that is searched: a table of 2^16 elements and as many steps in the worst case."""


class DiscreteLogarithm:
    """Finds m in ``low`` to ``high`` (both included) from mG, with a table of about the square root of the range and at
    most as many additions. The time depends on m, so it is only for a server that sees m anyway. ``ValueError`` for a
    range that is empty or holds more than ``MAX_VALUES``."""

    def __init__(self, low: int, high: int, group: Group = RISTRETTO255) -> None:
        if low > high:
            raise ValueError("low must not be above high")
        values = high - low + 1
        if values > MAX_VALUES:
            raise ValueError(f"a range must hold at most {MAX_VALUES} numbers")
        self._group, self._low, self._values = group, low, values
        self._step = math.isqrt(values - 1) + 1
        self._giant = group.times_base(group.scalar(self._step))
        self._shift = group.times_base(group.scalar(low))
        self._baby = self._baby_steps()

    def _baby_steps(self) -> dict[bytes, int]:
        group = self._group
        generator, element, table = group.times_base(group.scalar(1)), group.identity, {}
        for number in range(self._step):
            table[element] = number
            element = group.add(element, generator)
        return table

    def of(self, element: bytes) -> int:
        """m for mG. Raises ``CryptoError`` where there is none in the range."""
        rest = self._group.subtract(element, self._shift)
        for giant in range(self._step):
            baby = self._baby.get(rest)
            if baby is not None and (offset := giant * self._step + baby) < self._values:
                return self._low + offset
            rest = self._group.subtract(rest, self._giant)
        raise CryptoError("the ciphertext does not decrypt to a number in the expected range")
