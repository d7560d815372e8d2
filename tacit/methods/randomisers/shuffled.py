"""The draws of shuffled counts: noise messages, and the device's own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

from tacit.methods.base.draws import BYTES, ONE, hex_threshold
from tacit.methods.bounded import DRAW_BYTES, bounded_bits, weight_thresholds
from tacit.methods.randomisers.base import Draws, Randomiser
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.methods.shuffled import ShuffledCounts, Zsum
from tacit.methods.shuffled_few import Unbiased
from tacit.ports import Entropy

CountsT_co = TypeVar("CountsT_co", bound=ShuffledCounts, covariant=True)


@dataclass(frozen=True)
class ShuffledRandomiser(Randomiser[CountsT_co]):
    """Draws how many messages a device sends about each cell: its own, and noise."""

    @abstractmethod
    def dummy(self, entropy: Entropy, /) -> list[int]:
        """The noise messages per cell, as of a device that has no answer; the work depends on the parameters alone."""

    def randomise(self, answer: int, entropy: Entropy, /) -> list[int]:
        """The messages per cell of a device with this category, or with this bit for a count."""
        method = self.method
        if not 0 <= answer < max(2, method.categories):
            raise ValueError(f"an answer must be from 0 to {max(2, method.categories) - 1}")
        counts = self.dummy(entropy)
        if method.is_scalar:
            counts[0] += answer
        else:
            counts[answer] += 1
        return counts

    def thresholds(self) -> dict[str, Any]:
        """The threshold below which a draw flips the usual noise of a cell."""
        return {"noise_threshold": hex_threshold(self.method.noise_below)}


@dataclass(frozen=True)
class ZsumRandomiser(ShuffledRandomiser[Zsum]):
    """A noise message in almost every cell."""

    DRAWS = Draws(
        "messages in cell i = [i = v] + [d_i >= T], T = `noise_threshold` (a count: cell 0 has v + [d_0 >= T])",
        "messages in cell i = [d_i >= T]",
        note="T = ceil(2^128 `noise_rate`).",
    )

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """A noise message in each cell whose draw is not below the threshold."""
        stream = entropy(BYTES * self.method.categories)
        drawn = (int.from_bytes(stream[at : at + BYTES], "big") for at in range(0, len(stream), BYTES))
        return [int(one >= self.method.noise_below) for one in drawn]


@dataclass(frozen=True)
class UnbiasedRandomiser(ShuffledRandomiser[Unbiased]):
    """A noise message in few cells."""

    DRAWS = Draws(
        "a dummy, and one message more in cell v (a count: v more in cell 0)",
        "one message in each cell whose bit is 1; bits are 1 with probability T / 2^128, T = `noise_threshold`, given "
        "at most w = `max_weight` are 1",
        note="T = ceil(2^128 `noise_rate`); bits given their weight are drawn as in a dummy of rappor.",
    )

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """A noise message in at most ``max_weight`` cells."""
        method = self.method
        return bounded_bits(method.categories, ONE - method.noise_below, method.max_weight, entropy)

    def thresholds(self) -> dict[str, Any]:
        """The threshold of the noise, and how many of the others a draw reaches: its number of noise messages."""
        method = self.method
        weights = weight_thresholds(method.categories, ONE - method.noise_below, method.max_weight)
        return {**super().thresholds(), "weight_thresholds": [hex_threshold(one, DRAW_BYTES) for one in weights]}


@dataclass(frozen=True)
class FlippedRandomiser(UnbiasedRandomiser):
    """The messages of ``unbiased``: the methods differ only in what is released of the totals."""

    DRAWS = Draws("as in unbiased", "as in unbiased")


def shuffled_randomiser_of(method: ShuffledCounts) -> ShuffledRandomiser[Any]:
    """What draws by a method of shuffled counts. Raises ``TypeError`` for a randomiser of another kind."""
    randomiser = device_randomiser_of(method)
    if not isinstance(randomiser, ShuffledRandomiser):
        raise TypeError(f"the randomiser of {method.NAME} is none of shuffled counts")
    return randomiser
