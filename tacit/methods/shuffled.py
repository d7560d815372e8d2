"""Counts whose noise all devices make together, one message for each one of a cell (Balcer and Cheu, 2020).

A device adds to its own cell's message at most one noise message in each cell, so that a cell's total over n devices is
``x + Bin(n, p)``. Only the totals hide a device: its messages must be shuffled among those of all others. With f =
``noise_rate`` = lambda / B, replacement of one answer and the exact accounting of ``tacit.dp.shuffled_counts`` give the
claim at n = B; further devices only add independent noise, so it holds for all n >= B.

* ``zsum`` sends noise with p = 1 - f. A total of at most n is released as exactly 0, and a cell that nobody has never
  has a larger one: there are no false positives.
* ``unbiased`` sends noise with p = f, far fewer messages, and releases the total less its expected noise. A cell that
  nobody has gets an estimate of about 0.

A device without an answer sends the noise alone: against it, a replaced answer moves one cell instead of two, which is
a marginal of what is accounted for.

``unbiased`` draws its noise given that at most w = ``max_weight`` cells have any, so that all devices send equally many
messages. With eta the probability that one of n devices would exceed w, ``Pr[. | fits] <= Pr[.] / (1 - eta)`` and
``Pr[.] <= Pr[. and fits] + eta`` give ``delta <= (delta' + e^epsilon eta) / (1 - eta)``.
"""

from __future__ import annotations

import bisect
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

from tacit.dp import shuffled_counts
from tacit.dp.binomial import binomial_window
from tacit.methods.bounded import DRAW_BYTES, bounded_bits, weight_thresholds
from tacit.methods.design import SampleDesign
from tacit.methods.draws import BYTES, ONE, hex_threshold
from tacit.methods.estimate import Estimate
from tacit.methods.method import Draws, Members, Method, plain
from tacit.methods.statistics import STATISTICS, Shape, StatisticName
from tacit.ports import Entropy

MAX_CATEGORIES = 1000
RATE_PLACES = 12
"""Decimals of a noise rate that is searched."""
_TAIL_SHARE = 0.001
"""Share of delta that is kept for noise that would exceed its bound."""
_WINDOW_TAIL = 1e-18
_ONE_SIDE, _Z = 0.025, 1.959964
"""How often an interval of 95 % lies above, or below, the truth; how many standard errors it reaches."""
_SPARE = 2.0
"""Added to twice the target where a bound is chosen: claims are also computed for half of the devices."""


@dataclass(frozen=True, slots=True)
class ShuffledCounts(Method):
    """One cell for a count, one for each category of a histogram; a measurement is the number of messages per cell."""

    STATISTICS = ("count", "histogram")
    IS_LOCAL = False
    IS_PROVED = False
    IS_SHUFFLED = True
    HAS_THRESHOLD: ClassVar[bool]

    statistic: StatisticName
    categories: int
    noise_rate: Decimal
    _noise_below: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        fewest = 1 if self.is_scalar else 2
        if not fewest <= self.categories <= (1 if self.is_scalar else MAX_CATEGORIES):
            raise ValueError(f"categories must be from 2 to {MAX_CATEGORIES}, and 1 for a count")
        if not 0 < self.noise_rate <= Decimal("0.5"):
            raise ValueError("noise_rate must be above 0 and at most 0.5")
        object.__setattr__(self, "_noise_below", math.ceil(Fraction(self.noise_rate) * ONE))

    @classmethod
    def fits(cls, shape: Shape) -> bool:
        """Whether it is a count, or a histogram of a supported size."""
        if shape.statistic.name not in cls.STATISTICS:
            return False
        return shape.cells == 1 if shape.statistic.is_scalar else 2 <= shape.cells <= MAX_CATEGORIES

    @classmethod
    def _rate_for(cls, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Decimal:
        """The least rate with which n devices keep the target, rounded up. ``ValueError`` where none does."""
        least = shuffled_counts.lambda_zsum if shape.moved == 1 else shuffled_counts.lambda_hist
        rate = Decimal(repr(least(float(epsilon), delta, n))) / n
        return min(Decimal("0.5"), rate.quantize(Decimal(1).scaleb(-RATE_PLACES), rounding=ROUND_CEILING))

    @classmethod
    def epsilon_kept(cls, shape: Shape, n: int, delta: float, of_half: float) -> float:
        """The epsilon of the totals of n devices, at ``delta``, with the least noise at which those of half of them are
        at most ``of_half``. ``ValueError`` where none is enough."""
        one = shape.moved == 1
        least = shuffled_counts.lambda_zsum if one else shuffled_counts.lambda_hist
        exact = shuffled_counts.epsilon_zsum if one else shuffled_counts.epsilon_hist
        half = max(1, n // 2)
        return exact(n, min(n / 2, least(of_half, delta, half) * n / half), delta)

    @property
    def is_scalar(self) -> bool:
        """Whether it is a count, of which a replaced answer moves the only cell."""
        return STATISTICS[self.statistic].is_scalar

    def members(self) -> dict[str, Any]:
        """``noise_rate`` and ``categories``."""
        return {"noise_rate": plain(self.noise_rate), "categories": self.categories}

    @property
    def cells(self) -> int:
        """The number of cells: one per category, or one."""
        return self.categories

    @property
    def largest(self) -> int:
        """A cell has at most the device's own message and one of noise."""
        return 2

    @property
    @abstractmethod
    def messages(self) -> int:
        """The most messages of a device; all devices send as many, with fillers that stand for no cell."""

    @abstractmethod
    def _noise(self, entropy: Entropy) -> list[int]:
        """The noise messages per cell; the work depends on the parameters alone."""

    @property
    @abstractmethod
    def noise_mean(self) -> float:
        """The probability of a noise message in one cell of one device."""

    def randomise(self, answer: int, entropy: Entropy, /) -> list[int]:
        """The messages per cell of a device with this category, or with this bit for a count."""
        if not 0 <= answer < max(2, self.categories):
            raise ValueError(f"an answer must be from 0 to {max(2, self.categories) - 1}")
        counts = self._noise(entropy)
        if self.is_scalar:
            counts[0] += answer
        else:
            counts[answer] += 1
        return counts

    def dummy(self, entropy: Entropy, /) -> list[int]:
        """The noise messages per cell of a device that has no answer."""
        return self._noise(entropy)

    def missing_adds(self, design: SampleDesign) -> tuple[float, ...]:
        """Nothing: a device without an answer adds noise alone, whose expectation is subtracted."""
        _check_design(design)
        return (0.0,) * self.cells

    def zeros_below(self, n: int, rate: float, chance: float) -> float | None:
        """A number of devices: a cell of as many is released as 0 with probability ``chance`` at most, from n reports
        of devices that take part with ``rate``. None where nothing is cut.

        A cell of x reports is cut if x is at most the number of devices without noise in it, ``Bin(n, f)``. Of N
        devices with the answer, at most b take part with probability ``exp(-(N rate - b)^2 / (2 N rate))`` at most
        (Chernoff), where N rate > b.
        """
        if not self.HAS_THRESHOLD:
            return None
        part = chance if rate == 1 else chance / 2
        start, mass = binomial_window(n, 1 - self.noise_mean, _WINDOW_TAIL)
        above, most = _WINDOW_TAIL, start + len(mass) - 1
        while above + mass[most - start] <= part:
            above, most = above + mass[most - start], most - 1
        least, log = float(most + 1), math.log(1 / part)
        return least if rate == 1 else (least + log + math.sqrt(log * log + 2 * least * log)) / rate

    def estimate(self, counts: Sequence[int], n: int, design: SampleDesign) -> Estimate:
        """Population counts per cell from the totals of n reports, with errors of noise and sampling. That of a total
        that is cut is such that an interval of 95 % reaches all counts that are cut more than rarely. ``ValueError``
        for totals that n reports cannot have, or an uneven design."""
        _check_design(design)
        if isinstance(n, bool) or n < 1:
            raise ValueError("n must be at least 1")
        most = n * self.messages
        if len(counts) != self.cells or any(count < 0 for count in counts) or sum(counts) > most:
            raise ValueError(f"counts must hold {self.cells} totals of at most {most} together")
        found = [count - n * self.noise_mean for count in counts]
        if self.HAS_THRESHOLD:
            found = [0.0 if count <= n else one for count, one in zip(counts, found, strict=True)]
        errors = tuple(self._stderr(max(0.0, one), n, design.rate) for one in found)
        below = self.zeros_below(n, design.rate, _ONE_SIDE)
        if below is not None:
            errors = tuple(error if one else below / _Z for one, error in zip(found, errors, strict=True))
        return Estimate(tuple(one / design.rate for one in found), errors)

    def expected_stderrs(
        self,
        truth: Sequence[float],
        population: int,
        design: SampleDesign,
        _squares: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Standard deviations of the estimates before any is cut to 0."""
        _check_design(design)
        reports = population * design.rate
        return tuple(self._stderr(one * design.rate, reports, design.rate) for one in truth)

    def expected_error(self, holders: float, population: int, design: SampleDesign) -> float:
        """The root of the mean squared error of a cell's estimate, cells that are cut to 0 included, where
        ``holders`` of the population have its answer."""
        (stderr,) = self.expected_stderrs([holders], population, design)
        if not self.HAS_THRESHOLD:
            return stderr
        low, masses = binomial_window(round(population * design.rate), 1 - self.noise_mean, _WINDOW_TAIL)
        cut = min(1.0, math.fsum(masses[max(0, math.ceil(holders * design.rate) - low) :]))
        return math.sqrt(cut * holders * holders + (1 - cut) * stderr * stderr)

    def _stderr(self, holders: float, reports: float, rate: float) -> float:
        """``holders``: reports whose answer is the cell's."""
        noise = reports * self.noise_mean * (1 - self.noise_mean)
        return math.sqrt(noise + (1 - rate) * holders) / rate

    @property
    def mechanism(self) -> str:
        """Name of the exact accountant of one or two totals."""
        return "zsum-exact" if self.is_scalar else "hist-exact"

    @property
    def local_epsilon(self) -> float:
        """Infinite: two messages in one cell show a device's answer to whoever sees it alone."""
        return math.inf

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """The exact epsilon of the totals of n devices; infinite where they are too few."""
        noise = n * float(self.noise_rate)
        exact = shuffled_counts.epsilon_zsum if self.is_scalar else shuffled_counts.epsilon_hist
        return exact(n, noise, delta)

    def reports_epsilon(self, n: int, delta: float, /) -> float:
        """As ``aggregate_epsilon``: shuffled messages tell their number in each cell, and nothing else."""
        return self.aggregate_epsilon(n, delta)

    def thresholds(self) -> dict[str, Any]:
        """The threshold below which a draw flips the usual noise of a cell."""
        return {"noise_threshold": hex_threshold(self._noise_below)}


@dataclass(frozen=True, slots=True)
class Zsum(ShuffledCounts):
    """A noise message in almost every cell; totals of at most n are released as 0."""

    NAME = "zsum"
    MEMBERS = ("noise_rate",)
    HAS_THRESHOLD = True
    DRAWS = Draws(
        "messages in cell i = [i = v] + [d_i >= T], T = `noise_threshold` (a count: cell 0 has v + [d_0 >= T])",
        "messages in cell i = [d_i >= T]",
        note="T = ceil(2^128 `noise_rate`).",
    )

    @classmethod
    def of(cls, shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` names what is out of range."""
        return cls(shape.statistic.name, members["categories"], members["noise_rate"])

    @classmethod
    def tuned(cls, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Self:
        """The method with the least noise at which the totals of n devices are (epsilon, delta)-private."""
        return cls(shape.statistic.name, shape.cells, cls._rate_for(shape, epsilon, n, delta))

    @property
    def messages(self) -> int:
        """One in each cell, and the device's own."""
        return self.categories + 1

    @property
    def noise_mean(self) -> float:
        """``1 - noise_rate``, as it is drawn."""
        return (ONE - self._noise_below) / ONE

    def _noise(self, entropy: Entropy) -> list[int]:
        stream = entropy(BYTES * self.categories)
        drawn = (int.from_bytes(stream[at : at + BYTES], "big") for at in range(0, len(stream), BYTES))
        return [int(one >= self._noise_below) for one in drawn]


@dataclass(frozen=True, slots=True)
class Unbiased(ShuffledCounts):
    """A noise message in few cells, at most ``max_weight`` of them; totals are released less their expected noise."""

    NAME = "unbiased"
    MEMBERS = ("noise_rate", "max_weight")
    HAS_THRESHOLD = False
    DRAWS = Draws(
        "a dummy, and one message more in cell v (a count: v more in cell 0)",
        "one message in each cell whose bit is 1; bits are 1 with probability T / 2^128, T = `noise_threshold`, given "
        "at most w = `max_weight` are 1",
        note="T = ceil(2^128 `noise_rate`); bits given their weight are drawn as in a dummy of rappor.",
    )

    max_weight: int = 1

    def __post_init__(self) -> None:
        ShuffledCounts.__post_init__(self)
        if not 1 <= self.max_weight <= self.categories:
            raise ValueError("max_weight must be from 1 to the number of categories")

    @classmethod
    def of(cls, shape: Shape, members: Members, _batch_flips: int = 0) -> Self:
        """Make the method from a recipe's members. ``ValueError`` names what is out of range."""
        return cls(shape.statistic.name, members["categories"], members["noise_rate"], members["max_weight"])

    @classmethod
    def tuned(cls, shape: Shape, epsilon: Decimal, n: int, delta: float) -> Self:
        """The method with the least noise at which the totals of n devices are (epsilon, delta)-private, and the least
        bound whose cost fits into ``_TAIL_SHARE`` of delta."""
        rate = cls._rate_for(shape, epsilon, n, delta * (1 - _TAIL_SHARE))
        chance = _TAIL_SHARE * delta * math.exp(-2 * float(epsilon) - _SPARE) / n
        k = shape.cells

        def rarely_exceeded(weight: int) -> bool:
            return _above(k, float(rate), weight) <= chance

        weight = bisect.bisect_left(range(1, k), x=True, key=rarely_exceeded) + 1
        return cls(shape.statistic.name, k, rate, weight)

    def members(self) -> dict[str, Any]:
        """``noise_rate``, ``max_weight`` and ``categories``."""
        return {**ShuffledCounts.members(self), "max_weight": self.max_weight}

    @property
    def messages(self) -> int:
        """The bound on noise messages, and the device's own."""
        return self.max_weight + 1

    @property
    def noise_mean(self) -> float:
        """The probability of a noise message, given that at most ``max_weight`` cells have one."""
        k, f, w = self.categories, self._noise_below / ONE, self.max_weight
        return f * (1 - _above(k - 1, f, w - 1)) / (1 - _above(k, f, w))

    def _noise(self, entropy: Entropy) -> list[int]:
        return bounded_bits(self.categories, ONE - self._noise_below, self.max_weight, entropy)

    def aggregate_epsilon(self, n: int, delta: float, /) -> float:
        """The exact epsilon of the totals at a part of delta, if the rest pays for noise that would exceed its bound;
        otherwise infinite."""
        eta = -math.expm1(n * math.log1p(-_above(self.categories, self._noise_below / ONE, self.max_weight)))
        inner = delta if eta == 0 else delta * (1 - _TAIL_SHARE)
        epsilon = ShuffledCounts.aggregate_epsilon(self, n, inner)
        if eta == 0 or math.isinf(epsilon):
            return epsilon
        return epsilon if inner + math.exp(epsilon) * eta <= delta * (1 - eta) else math.inf

    def thresholds(self) -> dict[str, Any]:
        """The threshold of the noise, and how many of the others a draw reaches: its number of noise messages."""
        weights = weight_thresholds(self.categories, ONE - self._noise_below, self.max_weight)
        return {
            **ShuffledCounts.thresholds(self),
            "weight_thresholds": [hex_threshold(one, DRAW_BYTES) for one in weights],
        }


def _check_design(design: SampleDesign) -> None:
    if not design.is_uniform or design.dummy_probability:
        raise ValueError("shuffled counts need one rate for everybody and no dummies")


@lru_cache(maxsize=1024)
def _above(trials: int, p: float, limit: int) -> float:
    """Pr[Bin(trials, p) > limit], summed from the top so that tiny values keep their digits."""
    terms = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials, max(-1, limit), -1))
    return math.fsum(terms)
