"""Support identification: all values that occur are to be found, and no others, from as few users as possible.

Theory (Balcer and Cheu, 2020, Definition 3.3 and Claim 3.4). Each of n users has one of h equally likely values out of
a domain of d categories. A protocol succeeds if it reports exactly these h, with probability 99/100 at least. The
number of users of which one holds a value does not depend on d with zsum, because an empty cell is never reported.

A ``Rule`` is what one cell does; cells have independent noise. From it follows the probability of success, computed
here and not simulated, and so the least number of users. ``log_domain`` is ln d, because d can be far too large for a
float.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from infra.lab.shuffled.bounds import least_users, zsum_error
from infra.lab.shuffled.protocols import Hist
from tacit.dp import parameters
from tacit.dp.binomial import binomial_window, deviation, log_pmf
from tacit.dp.shuffled_counts import lambda_hist

TARGET = 0.99
"""The probability of success that the paper asks for."""
SPLIT = (1 - TARGET) / 2
"""Of the rest, the part that reported empty cells may have, and that of values which are not reported."""
MAX_USERS = 1 << 22
_TAIL, _LEFT_OUT = 1e-18, 1e-13
_FAR = 60.0
"""A tail from where it is smaller by e^-60 changes no sum of tails."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``kept``: the probability with which a cell with that true count is reported; ``log_false``: the logarithm of
    that of an empty cell, minus infinity where it never is."""

    users: int
    kept: Callable[[int], float]
    log_false: float = -math.inf

    def success(self, values: int, log_domain: float) -> float:
        """The probability of reporting all of ``values`` equally likely ones and no other category, too low by 1e-9 at
        most."""
        if self.log_false == -math.inf:
            return all_kept(self.users, values, self.kept)
        spurious = math.exp(min(self.log_false + log_domain, 10.0))
        return all_kept(self.users, values, self.kept) * math.exp(-spurious / (1 - math.exp(self.log_false)))


def zsum_rule(epsilon: float, delta: float, users: int) -> Rule:
    """The rule of ``Hist`` with the least lambda: a cell is reported from n + 1 messages on. ``ValueError`` where n
    users cannot hide one of them."""
    return _from_total(users, lambda_hist(epsilon, delta, users), 1)


def tuned_rule(epsilon: float, delta: float, users: int, log_domain: float) -> Rule:
    """The same messages, with the least threshold at which empty cells are reported in ``SPLIT`` of all runs at most.
    From e^lambda categories on it is zsum's; before, it is lower, because empty cells seldom get near to n."""
    noise = lambda_hist(epsilon, delta, users)
    allowed, least, log_false = math.log(SPLIT) - log_domain, 1, -math.inf
    log_sum = -math.inf
    for lost in range(users + 1):
        log_sum = _log_add(log_sum, log_pmf(lost, users, noise / users))
        if log_sum > allowed:
            break
        least, log_false = -lost, log_sum
    return _from_total(users, noise, least, log_false)


def flipped_rule(epsilon: float, delta: float, users: int, log_domain: float) -> Rule:
    """Noise messages with probability lambda / n instead of all but that: as private, with few messages, and a
    threshold at which empty cells are reported in ``SPLIT`` of all runs at most. It grows with the domain."""
    noise = lambda_hist(epsilon, delta, users)
    allowed, log_sum = math.log(SPLIT) - log_domain, -math.inf
    from_mean = range(math.ceil(noise), users + 1)
    negligible = bisect_left(from_mean, -allowed + _FAR, key=lambda extra: -log_pmf(extra, users, noise / users))
    least = from_mean.start + negligible
    for extra in range(least - 1, -1, -1):
        following = _log_add(log_sum, log_pmf(extra, users, noise / users))
        if following > allowed:
            break
        log_sum, least = following, extra
    low, masses = binomial_window(users, noise / users, _TAIL)
    below = [0.0, *accumulate(masses)]

    def kept(count: int) -> float:
        return 1 - below[min(max(least - count - low, 0), len(masses))]

    return Rule(users, kept, log_sum)


def stability_rule(epsilon: float, delta: float, users: int) -> Rule:
    """The central model's stability-based histogram (Bun, Nissim and Stemmer, 2016; by replacement): a count that is
    not 0 gets Laplace noise of scale 2/epsilon, and is reported from ``1 + (2/epsilon) ln(2/delta)`` on."""
    threshold = stability_threshold(epsilon, delta)

    def kept(count: int) -> float:
        below = 0.5 * math.exp(-abs(count - threshold) * epsilon / 2)
        return 0.0 if count == 0 else 1 - below if count >= threshold else below

    return Rule(users, kept)


def stability_threshold(epsilon: float, delta: float) -> float:
    """The count from which on the stability-based histogram reports, before division by n."""
    return 1 + 2 / epsilon * math.log(2 / delta)


def published_rule(epsilon: float, delta: float, users: int, values: int) -> Rule:
    """The paper's, with its lambda: estimates of t + 1 users or more, where t is Theorem 3.1's bound on the error of
    ``values`` cells at once, with a probability of 1/200 of more. ``ValueError`` for too few users."""
    noise = Hist.published(epsilon, delta, users, values).cell.noise
    allowed_error = published_error(epsilon, delta, values)
    return _from_total(users, noise, math.ceil(allowed_error + 1 - noise))


def published_error(epsilon: float, delta: float, values: int) -> float:
    """t of Claim 3.4: the largest error of ``values`` counts, with a probability of 199/200."""
    users = least_users(epsilon / 2, delta / 2)
    return users * zsum_error(epsilon / 2, delta / 2, users, SPLIT / values)


def published_users(epsilon: float, delta: float, values: int) -> int:
    """The number of users with which the proof of Claim 3.4 succeeds: the probability that a value has fewer than
    ``2 t + 1`` of them is 1/200 at most, summed over all values."""
    wanted = math.ceil(2 * published_error(epsilon, delta, values) + 1)

    def enough(users: int) -> bool:
        if values == 1:
            return users >= wanted
        low, masses = binomial_window(users, 1 / values, _TAIL)
        return values * (sum(masses[: max(0, wanted - low)]) + _TAIL) <= SPLIT

    return _first(enough, least_users(epsilon / 2, delta / 2))


def sample_complexity(rule_of: Callable[[int], Rule], values: int, log_domain: float) -> int:
    """The least number of users whose rule succeeds with ``TARGET``; ``rule_of`` may refuse a number of users as too
    few with ``ValueError``. ``ValueError`` if more than ``MAX_USERS`` are needed."""

    def enough(users: int) -> bool:
        try:
            rule = rule_of(users)
        except ValueError:
            return False
        return rule.success(values, log_domain) >= TARGET

    return _first(enough, values)


def all_kept(users: int, values: int, kept: Callable[[int], float]) -> float:
    """The probability that the counts of all of ``values`` equally likely ones are kept, each by itself with the
    probability ``kept``. Counts are Poisson variables given their sum; what lies outside of windows is left out, 1e-9
    of the whole at most."""
    parameters.reports(users, "users")
    parameters.reports(values, "values")
    if values == 1:
        return kept(users)
    mean = users / values
    low, high = _window(mean, 1)
    single = low, [_poisson(mean, count) * kept(count) for count in range(low, min(high, users) + 1)]
    (one_low, one), (other_low, other) = _power(single, values // 2, mean), _power(single, values - values // 2, mean)
    total = 0.0
    for at, share in enumerate(one, start=one_low):
        place = users - at - other_low
        if 0 <= place < len(other):
            total += share * other[place]
    return min(1.0, total / _poisson(users, users))


Masses = tuple[int, list[float]]
"""The first count, and the masses from there on."""


def _power(single: Masses, times: int, mean: float) -> Masses:
    """The law of the sum of so many independent counts."""
    if times == 1:
        return single
    half = _power(single, times // 2, mean)
    whole = _added(half, half, *_window(mean, times - times % 2))
    return _added(whole, single, *_window(mean, times)) if times % 2 else whole


def _added(one: Masses, other: Masses, low: int, high: int) -> Masses:
    (first, left), (second, right) = one, other
    backwards = right[::-1]
    start, end = max(low, first + second), min(high, first + second + len(left) + len(right) - 2)
    masses = []
    for total in range(start, end + 1):
        at = total - first - second
        least, most = max(0, at - len(right) + 1), min(at, len(left) - 1)
        offset = len(right) - 1 - at
        masses.append(sum(map(mul, left[least : most + 1], backwards[offset + least : offset + most + 1])))
    return start, masses


def _window(mean: float, times: int) -> tuple[int, int]:
    reach = deviation(times * mean, _LEFT_OUT)
    return max(0, math.floor(times * mean - reach)), math.ceil(times * mean + reach)


def _poisson(mean: float, count: int) -> float:
    return math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))


def _from_total(users: int, noise: float, least: int, log_false: float = -math.inf) -> Rule:
    """A cell is reported from ``n + least`` messages on."""
    low, masses = binomial_window(users, noise / users, _TAIL)
    below = [0.0, *accumulate(masses)]

    def kept(count: int) -> float:
        return below[min(max(count - least - low + 1, 0), len(masses))]

    return Rule(users, kept, log_false)


def _log_add(one: float, other: float) -> float:
    most, least = max(one, other), min(one, other)
    return most if least == -math.inf else most + math.log1p(math.exp(least - most))


def _first(enough: Callable[[int], bool], start: int) -> int:
    """The least number of users that is enough, from ``start`` on, where more than enough is enough."""
    low, high = start, start
    while not enough(high):
        low, high = high + 1, 2 * high
        if high > MAX_USERS:
            raise ValueError(f"more than {MAX_USERS} users are needed")
    return bisect_left(range(low, high), x=True, key=enough) + low
