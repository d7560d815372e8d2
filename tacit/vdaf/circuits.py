"""Validity circuits of the five Prio3 variants (draft-irtf-cfrg-vdaf, section 7.4).

A circuit decides whether a vector of field elements encodes a valid measurement. Every circuit here has one
gadget and feeds it from the measurement and the joint randomness alone, never from another gadget's output.
So the draft's ``eval`` comes in two halves: ``wires`` lists the inputs of all gadget calls, ``outputs`` turns
the gadget's outputs into the circuit's. All of it is affine in the measurement, hence runs on shares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import mul
from typing import Any, Generic, TypeVar

from tacit.vdaf.field import Field, inverse_of
from tacit.vdaf.gadgets import Gadget, Mul, ParallelSumMul, PolyEval

M = TypeVar("M")


class Circuit(ABC, Generic[M]):
    """The contract of a validity circuit; ``M`` is the type of a measurement.

    ``measurement`` is the value as the application sees it, ``meas`` its encoding or a share of it: ``MEAS_LEN``
    elements.
    """

    EVAL_OUTPUT_LEN = 1
    JOINT_RAND_LEN = 0
    MEAS_LEN: int
    OUTPUT_LEN: int

    def __init__(self, field: type[Field], gadget: Gadget, calls: int) -> None:
        self.field = field
        self.gadget = gadget
        self.calls = calls

    @abstractmethod
    def encode(self, measurement: M) -> list[int]:
        """Field elements of a measurement. Raises ``ValueError`` if it is not in the circuit's domain."""

    @abstractmethod
    def truncate(self, meas: Sequence[int]) -> list[int]:
        """The ``OUTPUT_LEN`` elements that are aggregated."""

    @abstractmethod
    def decode(self, output: Sequence[int], num_measurements: int) -> Any:
        """The aggregate result from the summed outputs of ``num_measurements`` measurements."""

    @abstractmethod
    def wires(self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int) -> list[int]:
        """Inputs of call 1, of call 2, ...: ``calls * gadget.ARITY`` elements, not all reduced."""

    @abstractmethod
    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        """``EVAL_OUTPUT_LEN`` elements, all zero (summed over the shares) for a valid measurement."""

    def wires_at(
        self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int, weights: Sequence[int]
    ) -> list[int]:
        """Sum over the calls of ``weights[call - 1]`` times the call's inputs: ``gadget.ARITY`` elements."""
        wires = self.wires(meas, joint_rand, num_shares)
        arity = self.gadget.ARITY
        return [self.field.inner_product(weights, wires[j::arity]) for j in range(arity)]


class BoundedInteger:
    """Integers in [0, maximum] as ``bits`` elements, each 0 or 1 (the draft's range-check encoding).

    The weight of each bit is its power of two, except that the last has the remaining weight: no pattern exceeds
    ``maximum``.
    """

    def __init__(self, field: type[Field], maximum: int, what: str) -> None:
        _require_int(maximum, what)
        if not 0 < maximum < field.MODULUS:
            raise ValueError(f"{what} must be between 1 and {field.MODULUS - 1}, not {maximum}")
        self.maximum = maximum
        self.bits = maximum.bit_length()
        self._rest = (1 << (self.bits - 1)) - 1
        self._last_weight = maximum - self._rest
        self._weights = [*(1 << k for k in range(self.bits - 1)), self._last_weight]
        self._modulus = field.MODULUS

    def encode(self, value: int) -> list[int]:
        """``bits`` elements, least significant first. Raises ``ValueError`` out of range."""
        if not isinstance(value, int) or not 0 <= value <= self.maximum:
            raise ValueError(f"a measurement is not an integer between 0 and {self.maximum}")
        # Without a branch, as the draft asks: which pattern is taken depends on the secret. Some values have two
        # patterns; either is valid, since decoding is linear and no pattern exceeds the maximum.
        last = int(value > self._rest)
        value -= last * self._last_weight
        return [*(value >> k & 1 for k in range(self.bits - 1)), last]

    def decode_vec(self, meas: Sequence[int]) -> list[int]:
        """One element for each ``bits`` elements of ``meas``."""
        if self.bits == 1:
            return list(meas)
        bits, modulus, weights = self.bits, self._modulus, self._weights
        return [sum(map(mul, weights, meas[at : at + bits])) % modulus for at in range(0, len(meas), bits)]


class Count(Circuit[int]):
    """0 or 1; the aggregate is how many were 1."""

    MEAS_LEN = 1
    OUTPUT_LEN = 1

    def __init__(self, field: type[Field]) -> None:
        super().__init__(field, Mul(), 1)

    def encode(self, measurement: int) -> list[int]:
        return [_bit(measurement)]

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return list(meas)

    def decode(self, output: Sequence[int], num_measurements: int) -> int:
        return output[0]

    def wires(self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int) -> list[int]:
        return [meas[0], meas[0]]

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        return [(gadget_outputs[0] - meas[0]) % self.field.MODULUS]


class Sum(Circuit[int]):
    """An integer in [0, max_measurement]; the aggregate is the sum."""

    OUTPUT_LEN = 1

    def __init__(self, field: type[Field], max_measurement: int) -> None:
        self.integers = BoundedInteger(field, max_measurement, "max_measurement")
        super().__init__(field, PolyEval((0, -1, 1)), self.integers.bits)
        # every bit is an output of its own, weighted by the verifiers' randomness: none of it needs to be joint
        self.MEAS_LEN = self.EVAL_OUTPUT_LEN = self.integers.bits

    def encode(self, measurement: int) -> list[int]:
        return self.integers.encode(measurement)

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return self.integers.decode_vec(meas)

    def decode(self, output: Sequence[int], num_measurements: int) -> int:
        return output[0]

    def wires(self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int) -> list[int]:
        return list(meas)

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        return list(gadget_outputs)


class ChunkedRangeCheck(Circuit[M]):
    """Shared by the vector circuits: every element of ``meas`` is 0 or 1.

    With r = joint_rand[i], chunk i contributes the sum over j of r^(j+1) * m * (m - 1), where m is element
    i * chunk_length + j of ``meas``, or 0 beyond its end. ``further_calls`` of the gadget, whose inputs a subclass
    adds, follow those of the range check.
    """

    def __init__(self, field: type[Field], meas_len: int, chunk_length: int, further_calls: int = 0) -> None:
        _require_positive(chunk_length, "chunk_length")
        self.MEAS_LEN = meas_len
        self.chunk_length = chunk_length
        self.JOINT_RAND_LEN = -(-meas_len // chunk_length)
        super().__init__(field, ParallelSumMul(chunk_length), self.JOINT_RAND_LEN + further_calls)

    def wires(self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int) -> list[int]:
        modulus = self.field.MODULUS
        # the shares of a constant must add up to it: each of them stands for 1 / num_shares
        share_of_one = inverse_of(self.field, num_shares)
        # padding keeps its pairs (0, -1 / num_shares), as in the draft: other pairs would be another gadget polynomial
        padded = self._pad(meas)
        wires = [0] * (2 * len(padded))
        powers = self._scaled_powers([1] * self.JOINT_RAND_LEN, joint_rand)
        wires[0::2] = [power * m % modulus for power, m in zip(powers, padded, strict=True)]
        wires[1::2] = [m - share_of_one for m in padded]
        return wires

    def wires_at(
        self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int, weights: Sequence[int]
    ) -> list[int]:
        """As in the base class, but the powers take the weights in, which saves half of the reductions."""
        field, chunk = self.field, self.chunk_length
        padded = self._pad(meas)
        powers = self._scaled_powers(weights, joint_rand)
        shift = sum(weights) * inverse_of(field, num_shares)
        wires = []
        for j in range(chunk):
            column = padded[j::chunk]
            wires.append(field.inner_product(powers[j::chunk], column))
            wires.append((sum(map(mul, weights, column)) - shift) % field.MODULUS)
        return wires

    def _pad(self, meas: Sequence[int]) -> list[int]:
        return [*meas, *[0] * (self.JOINT_RAND_LEN * self.chunk_length - self.MEAS_LEN)]

    def _scaled_powers(self, scales: Sequence[int], joint_rand: Sequence[int]) -> list[int]:
        """scales[i] * joint_rand[i]^(j+1), chunk by chunk."""
        modulus = self.field.MODULUS
        chunk = range(self.chunk_length)
        powers: list[int] = []
        for power, r in zip(scales, joint_rand, strict=True):
            powers += [power := power * r % modulus for _ in chunk]
        return powers


class SumVec(ChunkedRangeCheck[Sequence[int]]):
    """``length`` integers in [0, max_measurement]; the aggregate is the element-wise sum."""

    def __init__(self, field: type[Field], length: int, max_measurement: int, chunk_length: int) -> None:
        _require_positive(length, "length")
        self.integers = BoundedInteger(field, max_measurement, "max_measurement")
        super().__init__(field, length * self.integers.bits, chunk_length)
        self.OUTPUT_LEN = length

    def encode(self, measurement: Sequence[int]) -> list[int]:
        _require_length(measurement, self.OUTPUT_LEN)
        return [bit for value in measurement for bit in self.integers.encode(value)]

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return self.integers.decode_vec(meas)

    def decode(self, output: Sequence[int], num_measurements: int) -> list[int]:
        return list(output)

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        return [sum(gadget_outputs) % self.field.MODULUS]


class Histogram(ChunkedRangeCheck[int]):
    """The index of one of ``length`` buckets; the aggregate is the count per bucket."""

    EVAL_OUTPUT_LEN = 2

    def __init__(self, field: type[Field], length: int, chunk_length: int) -> None:
        _require_positive(length, "length")
        super().__init__(field, length, chunk_length)
        self.OUTPUT_LEN = length

    def encode(self, measurement: int) -> list[int]:
        if not isinstance(measurement, int) or not 0 <= measurement < self.OUTPUT_LEN:
            raise ValueError(f"a measurement is not a bucket index between 0 and {self.OUTPUT_LEN - 1}")
        return [int(bucket == measurement) for bucket in range(self.OUTPUT_LEN)]

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return list(meas)

    def decode(self, output: Sequence[int], num_measurements: int) -> list[int]:
        return list(output)

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        modulus = self.field.MODULUS
        return [sum(gadget_outputs) % modulus, (sum(meas) - inverse_of(self.field, num_shares)) % modulus]


class MultihotCountVec(ChunkedRangeCheck[Sequence[int]]):
    """``length`` bits, at most ``max_weight`` of them 1; the aggregate is the count per position."""

    EVAL_OUTPUT_LEN = 2

    def __init__(self, field: type[Field], length: int, max_weight: int, chunk_length: int) -> None:
        _require_positive(length, "length")
        self.weight = BoundedInteger(field, max_weight, "max_weight")
        if max_weight > length:
            raise ValueError(f"max_weight {max_weight} is above the length {length}")
        # the weight's own bits are checked too: otherwise it could be any number
        super().__init__(field, length + self.weight.bits, chunk_length)
        self.OUTPUT_LEN = length

    def encode(self, measurement: Sequence[int]) -> list[int]:
        _require_length(measurement, self.OUTPUT_LEN)
        counts = [_bit(value) for value in measurement]
        if sum(counts) > self.weight.maximum:
            raise ValueError(f"a measurement has more than {self.weight.maximum} positions set")
        return counts + self.weight.encode(sum(counts))

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return list(meas[: self.OUTPUT_LEN])

    def decode(self, output: Sequence[int], num_measurements: int) -> list[int]:
        return list(output)

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        modulus = self.field.MODULUS
        weight = self.weight.decode_vec(meas[self.OUTPUT_LEN :])[0]
        return [sum(gadget_outputs) % modulus, (sum(meas[: self.OUTPUT_LEN]) - weight) % modulus]


def _bit(value: int) -> int:
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError("a measurement holds something other than 0 and 1")
    return int(value)


def _require_int(value: int, what: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{what} must be an integer, not {value!r}")  # noqa: TRY004


def _require_positive(value: int, what: str) -> None:
    _require_int(value, what)
    if value < 1:
        raise ValueError(f"{what} must be at least 1, not {value}")


def _require_length(measurement: Sequence[int], length: int) -> None:
    if not isinstance(measurement, Sequence) or len(measurement) != length:
        raise ValueError(f"a measurement is not a sequence of {length} values")
