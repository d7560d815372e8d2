"""Prio3L1BoundSum (draft-ietf-ppm-l1-bound-sum-02): vectors of integers >= 0 whose sum is bounded.

The measurement is followed by its own sum, and all of them are encoded in the same range [0, ``max_value``]. The
circuit checks that every element of the encoding is 0 or 1 and that the values add up to the stated sum. No sum of them
wraps around: ``(length + 1) * max_value`` is less than 2^97.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.vdaf.circuits import BoundedInteger, ChunkedRangeCheck
from tacit.vdaf.field import Field, Field128
from tacit.vdaf.prio3 import Prio3

ALGORITHM_ID = 0x00000007
MAX_LENGTH, MAX_VALUE = (1 << 32) - 1, (1 << 64) - 1
"""The largest numbers that the draft's configuration can hold."""


class L1BoundSum(ChunkedRangeCheck[Sequence[int]]):
    """``length`` integers >= 0 that add up to at most ``max_value``; the aggregate is the element-wise sum."""

    EVAL_OUTPUT_LEN = 2

    def __init__(self, field: type[Field], length: int, max_value: int, chunk_length: int) -> None:
        if not 1 <= length <= MAX_LENGTH or max_value > MAX_VALUE:
            raise ValueError(f"length must be from 1 to {MAX_LENGTH}, and max_value at most {MAX_VALUE}")
        self.integers = BoundedInteger(field, max_value, "max_value")
        super().__init__(field, (length + 1) * self.integers.bits, chunk_length)
        self.OUTPUT_LEN = length

    def encode(self, measurement: Sequence[int]) -> list[int]:
        if not isinstance(measurement, Sequence) or len(measurement) != self.OUTPUT_LEN:
            raise ValueError(f"a measurement is not a sequence of {self.OUTPUT_LEN} values")
        bits = [bit for value in measurement for bit in self.integers.encode(value)]
        total = sum(measurement)
        if total > self.integers.maximum:
            raise ValueError(f"a measurement adds up to more than {self.integers.maximum}")
        return bits + self.integers.encode(total)

    def truncate(self, meas: Sequence[int]) -> list[int]:
        # without the stated sum: the draft's listing would return it too, its test vector and OUTPUT_LEN say otherwise
        return self.integers.decode_vec(meas)[: self.OUTPUT_LEN]

    def decode(self, output: Sequence[int], num_measurements: int) -> list[int]:
        return list(output)

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        modulus = self.field.MODULUS
        *values, total = self.integers.decode_vec(meas)
        return [sum(gadget_outputs) % modulus, (sum(values) - total) % modulus]


class Prio3L1BoundSum(Prio3[Sequence[int]]):
    """The element-wise sum of vectors of ``length`` integers >= 0, of which each adds up to at most ``max_value``."""

    def __init__(self, shares: int, length: int, max_value: int, chunk_length: int) -> None:
        super().__init__(L1BoundSum(Field128, length, max_value, chunk_length), ALGORITHM_ID, shares)
        self.length = length
        self.max_value = max_value
        self.chunk_length = chunk_length
