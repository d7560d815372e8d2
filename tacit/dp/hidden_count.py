"""Privacy where the number of messages is in plain view and may depend on the answers: importance sampling, dummies.

A device takes part with probability r(x), ``rate`` or, with the default answer, ``least_rate``; one that does not sends
a dummy (a message D that says nothing) with probability p. Aggregators see how many messages there are, and their
aggregate. For one device, beside all others as they are, let W(x) be the view in which it sends R(x), W the one in
which it sends D, Z the one in which it sends nothing. Of a batch of fewer than ``batch`` messages nothing is seen but
how many they are.

1. W(x), W(x') and W differ in one message among n: (e_s, d_s), the mechanism's claim without sampling.
2. Each of them and Z are within (e_s + e_d, d), d the larger of ``d_s + e^e_s d_d`` and ``d_d + e^e_d d_s``. Two
   things hide the message, each on its own, and the better one counts.
   *Dummies*: W and Z differ by one D. Whatever the answers are, another device sends D with at least
   ``(1 - rate) p`` and nothing with at least ``(1 - rate)(1 - p)``. Those for whom that part of their coin comes up
   number at least Bin(N - 1, 1 - rate) and send D with probability p each: a binomial shift. It holds even against
   somebody who knows which other devices took part, and who holds which answer.
   *Coins of the others*: they send S = sum of Ber(s_i) messages. Let V be Z with one of its messages exchanged for
   R(x), the one that leaves the others as they are given one message less. There is such a choice: given their sum,
   independent bits grow with it (B. Efron, "Increasing properties of Polya frequency functions", 1965). So W(x) and V
   differ in the number of messages alone, 1 + S against S, and V and Z in one message: (e_s, d_s). Either a batch comes
   together with probability below d_d at all (then see 4), or S has so large a mean that
   - the part of it at one of the two rates is a binomial with half of that mean, and its shift is a bound (the other
     part is added independently); or, better in large batches,
   - with s the larger s_i, and each coin a coin of s among those that a first one of s_i/s lets through, at least so
     many get through that their binomial shift is a bound. That one holds for all coins of s or less, those of devices
     that fail to send included.
3. The views for x and x' are mixtures of those that share all but ``rate`` of their weight. By joint convexity (Balle,
   Barthe, Gaboardi, "Privacy amplification by subsampling", Theorem 2) they are within
   ``ln(1 + rate (e^(e_s + e_d) - 1))`` at ``rate * d``, by replacement.
4. Dummies are counted on at every N from a least one on, coins of the others only where about a batch's number of
   messages is to be expected. Where a batch fills with probability d_d at most, its filled part tells at most s d_d,
   with s the larger probability of sending: of the larger hockey stick of both views, ``s W + (1 - s) Z`` and
   ``s0 W' + (1 - s0) Z``, W and W' have at most s d_d there, and Z, of which W has no less there, at most
   (s - s0) d_d times the excess of its weights. All else is the number of messages alone: ``tacit.dp.unfilled``.
   Where one rate holds for everybody that number tells nothing.

See SA2 sections 3.2 and 4.6, design rules P17b, P20.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tacit.dp import parameters
from tacit.dp.binomial import deviation
from tacit.dp.binomial_shift import epsilon_binomial_shift
from tacit.dp.sampling import SPLIT
from tacit.dp.unfilled import unfilled_epsilon

MAX_COUNT_EPSILON = 10.0
"""Beyond this a count is not hidden: infinite is returned instead."""
MAX_INNER_DELTA = 0.01
"""Largest delta of the steps before sampling, however small the rate."""


@dataclass(frozen=True, slots=True)
class SendingRates:
    """A device's sending probabilities: it takes part at ``rate``, or at ``least_rate`` with the default answer; even
    then it has nothing to send with probability ``reject``; a device without a report sends a dummy with probability
    ``dummy``."""

    rate: float
    least_rate: float
    dummy: float = 0.0
    reject: float = 0.0

    def __post_init__(self) -> None:
        parameters.rate(self.rate, "rate")
        parameters.rate(self.least_rate, "least_rate")
        if self.least_rate > self.rate:
            raise ValueError("least_rate must not be above rate")
        if not all(0 <= value < 1 for value in (self.dummy, self.reject)):
            raise ValueError("dummy and reject must be at least 0 and below 1")

    @property
    def takes(self) -> float:
        """Upper bound on the probability of sending an answer."""
        return self.rate * (1 - self.reject)

    @property
    def sends(self) -> float:
        """Upper bound on the probability of sending anything."""
        return self._sending(self.rate)

    @property
    def least_sends(self) -> float:
        """Lower bound on the probability of sending anything."""
        return self._sending(self.least_rate)

    def _sending(self, rate: float) -> float:
        takes = rate * (1 - self.reject)
        return takes + (1 - takes) * self.dummy

    def part_epsilon(self) -> float:
        """What the fact that a device sent anything reveals about its answer: the larger log ratio; 0 where all rates
        are equal, infinite where the larger one is 1."""
        if self.least_rate == self.rate:
            return 0.0
        if self.rate == 1:
            return math.inf
        silence = math.log1p(-self.least_sends) - math.log1p(-self.sends)
        return max(math.log(self.sends / self.least_sends), silence)


def least_devices(batch: int, sends: float, delta: float) -> int:
    """The N below which a batch of ``batch`` messages comes together with probability at most ``delta``, where each
    device sends with probability ``sends`` or less (Chernoff)."""
    parameters.reports(batch, "batch")
    parameters.probability(delta, "delta")
    if parameters.rate(sends, "sends") == 1:
        return batch

    def rare(devices: float) -> bool:
        # N KL(batch/N || sends), with N devices; it falls as N grows towards batch/sends
        idle = devices - batch
        quiet = idle * math.log(idle / (devices * (1 - sends))) if idle > 0 else 0.0
        return batch * math.log(batch / (devices * sends)) + quiet >= -math.log(delta)

    return math.floor(_last(rare, float(batch), batch / sends))


def least_mean(batch: int, delta: float) -> float:
    """The mean below which independent bits add up to ``batch`` with probability at most ``delta`` (Chernoff)."""
    parameters.reports(batch, "batch")
    parameters.probability(delta, "delta")

    def rare(mean: float) -> bool:
        # the Poisson bound, which holds for bits of whatever probabilities
        return mean - batch + batch * math.log(batch / mean) >= -math.log(delta)

    return _last(rare, batch * delta, float(batch))


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the largest value, to within 1e-9 of it below, at which a monotone condition still holds; ``low`` if it
    holds nowhere."""
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def dummies_epsilon(rates: SendingRates, devices: int, delta: float) -> float:
    """e_d at d_d = ``delta`` by the dummies of ``devices`` devices; a tenth of ``delta`` covers how few may be free to
    send one. Infinite where they hide nothing."""
    shift = delta * (1 - 1 / SPLIT)
    if rates.dummy <= 0 or rates.takes >= 1 or shift < parameters.MIN_DELTA:
        return math.inf
    free = 1 - rates.takes
    expected = (devices - 1) * free
    least = math.floor(expected - deviation(expected * (1 - free), delta / SPLIT))
    return math.inf if least < 1 else epsilon_binomial_shift(least, rates.dummy, shift)


def coins_epsilon(rates: SendingRates, batch: int, delta: float) -> float:
    """e_d at d_d = ``delta`` by the coins of the other devices, in batches of at least ``batch`` messages; infinite
    where all devices may be sure to send, or the batch is too small."""
    if rates.sends >= 1 or batch < 2 or delta < parameters.MIN_DELTA:
        return math.inf
    if rates.least_rate == rates.rate:
        # one of the batch's messages may be the device's own
        others = least_devices(batch - 1, rates.sends, delta)
        return epsilon_binomial_shift(others, rates.sends, delta)
    mean = least_mean(batch - 1, delta)
    chances = {rates.sends, rates.least_sends}
    # which of the two rates has half of the mean is not known: the worse one counts
    half = max(epsilon_binomial_shift(math.ceil(mean / 2 / chance), chance, delta) for chance in chances)
    return min(half, _thinned_epsilon(mean, rates.sends, delta))


def _thinned_epsilon(mean: float, sends: float, delta: float) -> float:
    """As ``coins_epsilon`` for coins of ``sends`` or less whose mean is at least ``mean``; a tenth of ``delta`` covers
    how few of them may be thinned to coins of ``sends``. Infinite where they are too few."""
    shift, coins = delta * (1 - 1 / SPLIT), mean / sends
    # how many get through is a sum of coins of s_i / s, whose variance is no larger than its mean
    least = math.floor(coins - deviation(coins, delta / SPLIT))
    return math.inf if least < 1 or shift < parameters.MIN_DELTA else epsilon_binomial_shift(least, sends, shift)


Bound = Callable[[float], float]
"""A function from a delta to the epsilon at that delta."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """All other devices: ``devices`` with these ``rates`` or higher ones, seen in batches of at least ``batch``
    messages. Where one rate holds for all, ``devices`` only has to be right where batches fill."""

    rates: SendingRates
    devices: int
    batch: int

    def shift_epsilon(self, delta: float) -> float:
        """e_d at d_d = ``delta``, where batches fill: dummies or coins, whichever hides better."""
        return min(self._by_coins(delta), self._by_dummies(delta))

    def count_epsilon(self, epsilon_of: Bound, delta: float) -> float:
        """e_d, what the number of messages adds to a claim at ``delta`` where batches fill; ``epsilon_of`` maps d_s to
        e_s. Infinite above 10."""
        return self._count_epsilon(epsilon_of, delta, self.shift_epsilon)

    def epsilon(self, epsilon_of: Bound, delta: float) -> float:
        """The epsilon of the theorem above at total failure probability ``delta``; infinite where the count is not
        hidden."""
        if self.rates.least_rate == self.rates.rate:
            return self._combine_steps(epsilon_of, delta, self.shift_epsilon)
        filled = self._combine_steps(epsilon_of, delta, self._by_coins)
        # coins count only where batches fill, so both cases of step 4 are needed; dummies count in either
        everywhere = max(filled, self.unfilled_epsilon(epsilon_of, delta))
        return min(everywhere, self._combine_steps(epsilon_of, delta, self._by_dummies))

    def unfilled_epsilon(self, epsilon_of: Bound, delta: float) -> float:
        """What the number of messages reveals where no batch fills, at the part of ``delta`` that remains beside a
        batch that fills all the same (step 4)."""
        left = delta - self.rates.sends * self._shift_delta(epsilon_of, delta)
        if left < parameters.MIN_DELTA:
            return math.inf
        return unfilled_epsilon(self.rates.sends, self.rates.least_sends, self.devices, left)

    def _by_coins(self, delta: float) -> float:
        return coins_epsilon(self.rates, self.batch, delta)

    def _by_dummies(self, delta: float) -> float:
        return dummies_epsilon(self.rates, self.devices, delta)

    def _shift_delta(self, epsilon_of: Bound, delta: float) -> float:
        """Compute d_d for a claim at ``delta``."""
        half = self._half(delta)
        return half * math.exp(-epsilon_of(_least_delta(half)))

    def _count_epsilon(self, epsilon_of: Bound, delta: float, shift_epsilon: Bound) -> float:
        half, shift = self._half(delta), self._shift_delta(epsilon_of, delta)
        if shift == 0:
            return math.inf
        shifted = shift_epsilon(shift)
        return math.inf if shifted > MAX_COUNT_EPSILON or half * math.exp(-shifted) < _least_delta(half) else shifted

    def _combine_steps(self, epsilon_of: Bound, delta: float, shift_epsilon: Bound) -> float:
        """Combine both steps: d_s and d_d each get half of ``delta / rate``, divided by the factor that step 2 puts
        before them: e^e_d for d_s, and for d_d e^e_s at the smallest d_s that may follow."""
        combined = self._count_epsilon(epsilon_of, delta, shift_epsilon)
        if math.isinf(combined):
            return math.inf
        half = self._half(delta)
        single = min(epsilon_of(half * math.exp(-combined)), epsilon_of(_least_delta(half)))
        return math.log1p(self.rates.rate * math.expm1(single + combined))

    def _half(self, delta: float) -> float:
        return 0.5 * min(parameters.failure_probability(delta) / self.rates.rate, MAX_INNER_DELTA)


def _least_delta(half: float) -> float:
    return max(parameters.MIN_DELTA, half * math.exp(-MAX_COUNT_EPSILON))


def smallest_intensity(
    rate: float, population: int, devices_of: Callable[[float], int], epsilon: float, delta: float
) -> float | None:
    """Return the fewest expected dummies among ``population`` devices, rounded up by at most 1e-4 of it, that keep
    ``dummies_epsilon`` within ``epsilon`` at ``delta``. ``devices_of`` maps the probability of a dummy to the number of
    devices that may be counted on. None where half of the population would not be enough."""

    def holds(intensity: float) -> bool:
        dummy = intensity / population
        return dummies_epsilon(SendingRates(rate, rate, dummy), devices_of(dummy), delta) <= epsilon

    low, high = 0.0, population / 2
    if not holds(high):
        return None
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
