"""Prio3L2BoundSum: vectors of bounded Euclidean length (a private algorithm, not one of the draft's).

A vector of values v_i in [0, ``max_value``] is proved to have sum((v_i - centre)^2) <= ``max_square``, and its sum with
noise is what is aggregated: ``scale * v_i + f_i``, f_i in [0, ``flips``]. The encoding holds the bits of the values, of
the noises and of the squared length. Every bit is range-checked as in SumVec; further calls of the same gadget have
the pairs (v_i - centre, v_i - centre) as inputs, so that their outputs add up to the squared length.

No sum of squares wraps around: ``length * max(centre, max_value - centre)^2`` is less than the modulus. The arguments
for soundness and zero knowledge are in docs/prio3.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.vdaf.circuits import BoundedInteger, ChunkedRangeCheck
from tacit.vdaf.field import Field, Field128, inverse_of
from tacit.vdaf.prio3 import Prio3
from tacit.vdaf.vector_bounds import VectorBounds

ALGORITHM_ID = 0xFFFF5444
"""From the range that the draft leaves for private use (section 10)."""


class L2BoundSum(ChunkedRangeCheck[Sequence[int]]):
    """Vectors within ``bounds``, each with its noise; the aggregate is the element-wise sum of both.

    A measurement has all values, then, unless ``flips`` is 0, the noise of each.
    """

    EVAL_OUTPUT_LEN = 2

    def __init__(self, field: type[Field], bounds: VectorBounds, chunk_length: int) -> None:
        self.bounds = bounds
        self.integers = BoundedInteger(field, bounds.max_value, "max_value")
        self.square = BoundedInteger(field, bounds.max_square, "max_square")
        self.noise = BoundedInteger(field, bounds.flips, "flips") if bounds.flips else None
        self.OUTPUT_LEN = bounds.length
        self._noise_at = bounds.length * self.integers.bits
        self._square_at = self._noise_at + (bounds.length * self.noise.bits if self.noise else 0)
        # the base class refuses a chunk length below 1, in words of its own
        squares = -(-bounds.length // chunk_length) if chunk_length > 0 else 0
        super().__init__(field, self._square_at + self.square.bits, chunk_length, squares)

    def encode(self, measurement: Sequence[int]) -> list[int]:
        """The bits of the values, of the noises and of the squared length. Raises ``ValueError`` for what is out of
        range or too long."""
        numbers = self.bounds.numbers
        if not isinstance(measurement, Sequence) or len(measurement) != numbers:
            raise ValueError(f"a measurement is not a sequence of {numbers} values")
        values, noises = measurement[: self.OUTPUT_LEN], measurement[self.OUTPUT_LEN :]
        bits = [bit for value in values for bit in self.integers.encode(value)]
        if self.noise:
            bits += [bit for noise in noises for bit in self.noise.encode(noise)]
        square = self.bounds.square(values)
        if square > self.bounds.max_square:
            raise ValueError(f"a measurement has a squared length above {self.bounds.max_square}")
        return bits + self.square.encode(square)

    def truncate(self, meas: Sequence[int]) -> list[int]:
        modulus, scale = self.field.MODULUS, self.bounds.scale
        values = self._values(meas)
        noises = self.noise.decode_vec(meas[self._noise_at : self._square_at]) if self.noise else [0] * len(values)
        return [(scale * value + noise) % modulus for value, noise in zip(values, noises, strict=True)]

    def decode(self, output: Sequence[int], num_measurements: int) -> list[int]:
        return list(output)

    def wires(self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int) -> list[int]:
        entries = self._centre(meas, num_shares)
        return super().wires(meas, joint_rand, num_shares) + [entry for entry in entries for _ in range(2)]

    def wires_at(
        self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int, weights: Sequence[int]
    ) -> list[int]:
        field, chunk = self.field, self.chunk_length
        entries, own = self._centre(meas, num_shares), weights[self.JOINT_RAND_LEN :]
        wires = super().wires_at(meas, joint_rand, num_shares, weights[: self.JOINT_RAND_LEN])
        for j in range(chunk):
            entry = field.inner_product(own, entries[j::chunk])
            for wire in (2 * j, 2 * j + 1):
                wires[wire] = (wires[wire] + entry) % field.MODULUS
        return wires

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        modulus, checks = self.field.MODULUS, self.JOINT_RAND_LEN
        # The squares have no joint randomness: only their sum is stated, as an integer, and neither side of the
        # comparison reaches the modulus (docs/prio3.md, "Soundness").
        (square,) = self.square.decode_vec(meas[self._square_at :])
        return [sum(gadget_outputs[:checks]) % modulus, (sum(gadget_outputs[checks:]) - square) % modulus]

    def _values(self, meas: Sequence[int]) -> list[int]:
        return self.integers.decode_vec(meas[: self._noise_at])

    def _centre(self, meas: Sequence[int], num_shares: int) -> list[int]:
        """Shares of the distances from the centre, filled up with 0 to whole calls."""
        shift = self.bounds.centre * inverse_of(self.field, num_shares) % self.field.MODULUS
        entries = [value - shift for value in self._values(meas)]
        # 0, and not 0 less the centre: padding must add nothing to the squared length
        padding = (self.calls - self.JOINT_RAND_LEN) * self.chunk_length - len(entries)
        return entries + [0] * padding


class Prio3L2BoundSum(Prio3[Sequence[int]]):
    """The element-wise sum of vectors within ``bounds`` and of their noises."""

    def __init__(self, shares: int, bounds: VectorBounds, chunk_length: int) -> None:
        super().__init__(L2BoundSum(Field128, bounds, chunk_length), ALGORITHM_ID, shares)
        self.bounds = bounds
        self.chunk_length = chunk_length
