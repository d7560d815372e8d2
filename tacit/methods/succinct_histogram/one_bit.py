"""One-bit reports: any local randomizer, with its output drawn in public and only accepted or rejected by the device.

Theory (Bassily and Smith, 2015, Algorithm 6, after A. McGregor and others, "The limits of two-party differential
privacy", FOCS 2010). Public randomness gives an output y of a device without an item. A device with the item v accepts
it with a probability proportional to the likelihood ratio ``r = Pr[y | v] / Pr[y | no item]``. Given that it accepts,
y has exactly the law of the device's own output. So the server, which drops what was rejected, sees what it would see
from a random part of the devices.

The paper accepts with probability r/2. That is not of local epsilon e in general: a rejection can tell more than e.
Here it is ``a r`` with ``a = p / R``, where ``p = e^e / (e^e + 1)`` and R bounds all ratios. Two items have ratios r
and r' that differ by a factor of at most ``e^e``, so ``(1 - a r) / (1 - a r')`` is largest at ``r' = R, r = R e^-e``,
where it is ``e^e``. If nothing is known of the randomizer, R is ``e^e`` and a is ``1 / (e^e + 1)``; for the basic
randomizer R is 2p, and a is the paper's 1/2. The part a of devices is accepted on average.

As drawn, a threshold out of 2^128 is rounded. Privacy is kept exactly all the same: a is smaller by 2^-64 of itself,
which pays for rounded rejections, and 2^20 is added to each threshold, which pays for rounded acceptances from epsilon
1e-6 on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

from tacit.methods.base.draws import ONE, bernoulli, epsilon0_from, keep_threshold
from tacit.ports import Entropy

_SLACK_BITS = 64
_ADDED = 1 << 20
Item_contra = TypeVar("Item_contra", contravariant=True)
Item = TypeVar("Item")
Output = TypeVar("Output")


class PublicRandomizer(Protocol[Item_contra, Output]):
    """A randomizer of local epsilon ``epsilon0``, also between an item and none, that tells its probabilities."""

    @property
    def epsilon0(self) -> Decimal: ...

    @property
    def likelihood_bound(self) -> Fraction:
        """The largest likelihood that there is, or more: e^epsilon0 is always enough."""

    def expand(self, public: bytes, /) -> Output:
        """The output of a device without an item, with public bytes for its randomness."""

    def likelihood(self, output: Output, item: Item_contra | None, /) -> Fraction:
        """The probability of ``output`` given the item, divided by that given none: exactly, as outputs are drawn."""


@dataclass(frozen=True, slots=True)
class OneBit(Generic[Item, Output]):
    """The transformed randomizer. A report is its public bytes, which must not depend on the item, and one bit."""

    randomizer: PublicRandomizer[Item, Output]
    _scale: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        kept, bound = keep_threshold(epsilon0_from(self.randomizer.epsilon0), 1), self.randomizer.likelihood_bound
        scale = kept * bound.denominator // bound.numerator
        object.__setattr__(self, "_scale", scale - (scale >> _SLACK_BITS) - 1)

    def accept(self, public: bytes, item: Item | None, entropy: Entropy, /) -> bool:
        """The bit: whether the server is to count the output of ``public``. Always one draw."""
        return bernoulli(self._threshold(public, item), entropy)

    def probability(self, public: bytes, item: Item | None, /) -> Fraction:
        """The probability of accepting, exactly as drawn."""
        return Fraction(self._threshold(public, item), ONE)

    @property
    def accepted(self) -> float:
        """The expected share of devices that accept."""
        return self._scale / ONE

    def _threshold(self, public: bytes, item: Item | None) -> int:
        ratio = self.randomizer.likelihood(self.randomizer.expand(public), item)
        if ratio > self.randomizer.likelihood_bound:
            raise ValueError("an output is likelier than the randomizer says")
        return self._scale * ratio.numerator // ratio.denominator + _ADDED
