"""The draws of noise shares: fair bits, whose number of ones is added to each value."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.methods.base.draws import fair_flips
from tacit.methods.base.method import Answer, Measurement
from tacit.methods.base.proof import NormProof
from tacit.methods.flips import Flips
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.ports import Entropy


@dataclass(frozen=True)
class FlipsRandomiser(Randomiser[Flips]):
    """Adds a device's coin flips to the number in each cell."""

    DRAWS = Draws(
        "per cell: scale * value + the number of ones among `flips` random bits (the lowest bits of ceil(flips / 8) "
        "bytes); a histogram's values are the one-hot v",
        "the same with the neutral value: (0 - low) / unit where that is one of the values, else 0",
        bounds="`max_measurement` = scale * maximum + flips",
        note="with Prio3L2BoundSum of length d = `categories` in place of Prio3SumVec the numbers are the same and "
        "`vector` has `max_value` = scale * maximum + flips, `centre` = c = scale * z + flips / 2, z the values' "
        "number for 0, `max_square` = M = floor((d flips + 4A^2 + 104 flips + 2 R) / 4), A = scale * floor(norm / "
        "unit), R = ceil(sqrt(52 flips (d flips + 8 A^2))), `scale` 1, `flips` 0; flips are even. Where the numbers' "
        "squared distances from c add up to more than M, send c in every cell instead (chance below 2^-75). In older "
        "recipes `vector.flips` is above 0: all values come first, then all numbers of ones, not added up; `max_value` "
        "= maximum, `centre` = z, `max_square` = floor(norm / unit)^2, `scale` and `flips` are the randomizer's.",
    )

    def randomise(self, answer: Answer, entropy: Entropy, /) -> Measurement:
        """The measurement for a category (histogram), an encoded number, or a vector of numbers. The work depends on
        the parameters alone."""
        return self._noisy(self._values(answer), entropy)

    def dummy(self, entropy: Entropy, /) -> Measurement:
        """Noise around the neutral value in every cell."""
        return self._noisy((self.method.neutral,) * self.method.cells, entropy)

    def _noisy(self, values: tuple[int, ...], entropy: Entropy) -> Measurement:
        noises = [fair_flips(self.method.flips, entropy) for _ in values]
        if self.method.norm_proof is NormProof.VALUES:
            return [*values, *noises]
        noisy = [self.method.scale * value + noise for value, noise in zip(values, noises, strict=True)]
        if self.method.norm_proof is NormProof.SUM and (bounds := self.method.bounds).square(noisy) > bounds.max_square:
            # No proof covers it. A second draw would cost no less of delta (``tacit.dp.noisy_length``), and this way
            # the work and the bytes drawn do not depend on the first.
            return [self.method.middle] * self.method.cells
        return noisy[0] if self.method.kind.is_scalar else noisy

    def _values(self, answer: Answer) -> tuple[int, ...]:
        if self.method.kind.is_one_hot and isinstance(answer, int):
            if not 0 <= answer < self.method.cells:
                raise ValueError(f"category must be from 0 to {self.method.cells - 1}")
            return tuple(int(cell == answer) for cell in range(self.method.cells))
        values = (int(answer),) if isinstance(answer, int) else tuple(answer)
        if len(values) != self.method.cells or not all(0 <= value <= self.method.maximum for value in values):
            raise ValueError(f"an answer must be {self.method.cells} numbers from 0 to {self.method.maximum}")
        return values
