"""What watching an event for T steps costs in accuracy: without cryptography, and without protection on the device.

Every stream has at most one event, as in the lower bound of the paper (Local Pan-Privacy, section 3); half of n
devices have one. The estimate is their number (CountNonZero), and each way is epsilon0-private towards anyone who
reads what it protects:

* ``lower_bound``: no algorithm whose states are epsilon0-private towards an intruder does better (Theorem 9, as the
  exact Cramer-Rao bound of its pair of streams).
* ``Stepwise``: one such algorithm. What an intruder sees after all steps together is the stream in optimised unary
  encoding (``tacit.methods.oue``): a step gives a one with probability 1/2 if it has the event, otherwise with
  1/(e^epsilon0 + 1). The state is the number of ones. Two streams with one event each differ in two steps, so
  randomised response in every step would have to spend half of epsilon0 on each. Among encodings that treat all steps
  alike and independently, this one has the least variance for large T, and is then twice the lower bound. It relies on
  at most one event: with any number of events, all T steps would have to share epsilon0.
* ``local_stderr``: randomised response on the final bit, which the device keeps in the clear. Encrypted state must
  match it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tacit.methods.base.draws import BYTES, ONE, epsilon0_from, keep_threshold
from tacit.ports import Entropy

STEPS = (1, 10, 30, 100, 365, 1000, 10_000)
"""Numbers of steps at which the three are compared."""


class Moments(NamedTuple):
    """Second and fourth cumulant of a device's estimate; cumulants of independent estimates add up."""

    second: float
    fourth: float

    @property
    def of_square(self) -> float:
        """Variance of the squared error: kappa_4 + 2 kappa_2^2."""
        return self.fourth + 2 * self.second**2


def bit_moments(probability: float, slope: float) -> Moments:
    """Cumulants of a Bernoulli(``probability``) bit divided by ``slope``."""
    variance = probability * (1 - probability)
    return Moments(variance / slope**2, variance * (1 - 6 * variance) / slope**4)


def lower_bound(epsilon0: float, steps: int, devices: int) -> float:
    """Return the least standard error of an unbiased count over ``devices``, half of which have an event.

    The states of a stream are a function of Bin(T, p) without an event and of Bin(T - 1, p) + Ber(1 - p) with one at a
    random step, p = 1/(e^epsilon0 + 1) (Lemma 3.2). I is the Fisher information of the share theta = 1/2 of the second
    in their mixture; the population's own share varies by theta (1 - theta) = 1/4, which is not an error.
    """
    from scipy.stats import binom

    p = 1 / (math.exp(epsilon0) + 1)
    ones = np.arange(steps + 1)
    ratio = (ones * (1 - p) / p + (steps - ones) * p / (1 - p)) / steps
    information = float(np.sum(binom.pmf(ones, steps, p) * (1 - ratio) ** 2 / ((1 + ratio) / 2)))
    return math.sqrt(devices * (1 / information - 0.25))


def local_stderr(epsilon0: float, devices: int) -> float:
    """Return the standard error of the count by randomised response on one bit of every device."""
    return math.sqrt(devices * flipped_bit(epsilon0).second)


def flipped_bit(epsilon0: float) -> Moments:
    """Return the moments of a device's estimate by randomised response."""
    p = 1 / (math.exp(epsilon0) + 1)
    return bit_moments(p, 1 - 2 * p)


@dataclass(frozen=True)
class Stepwise:
    """Information-theoretic pan-privacy for streams of ``steps`` steps with at most one event."""

    epsilon0: Decimal
    steps: int

    @cached_property
    def _below(self) -> tuple[int, int]:
        """Two thresholds out of 2^128: a step without the event adds a one unless the draw is below the first, a step
        with it adds a one if the draw is below the second."""
        return keep_threshold(epsilon0_from(self.epsilon0), 1), ONE // 2

    @property
    def quiet(self) -> float:
        """The probability that a step without the event adds a one."""
        return 1 - self._below[0] / ONE

    def step(self, event: int, state: int, entropy: Entropy) -> int:
        """Return the number of ones after one more step, in which the event happened (1) or did not (0)."""
        quiet, own = self._below
        drawn = int.from_bytes(entropy(BYTES), "big")
        return state + (int(drawn < own) if event else int(drawn >= quiet))

    def estimate(self, ones: float, devices: int = 1) -> float:
        """Estimate without bias how many of ``devices`` had an event, from the number of ones of all of them."""
        return (ones - devices * self.steps * self.quiet) / (0.5 - self.quiet)

    def moments(self, event: int) -> Moments:
        """Return the moments of the estimate of a device that had an event (1) or none (0)."""
        slope = 0.5 - self.quiet
        quiet, own = bit_moments(self.quiet, slope), bit_moments(0.5, slope)
        rest = self.steps - event
        return Moments(rest * quiet.second + event * own.second, rest * quiet.fourth + event * own.fourth)

    def stderr(self, devices: int) -> float:
        """Return the standard error of the count over ``devices``, half of which have an event."""
        return math.sqrt(devices / 2 * (self.moments(0).second + self.moments(1).second))
