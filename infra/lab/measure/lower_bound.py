"""How large the error of every local protocol is at least (Theorem 5.2 of Bassily and Smith, 2015), with constants.

Theory. Let V be uniform among d items. A device has the item V with probability a, and otherwise a uniform one; its
report comes from a randomizer of its own, of local epsilon e (for one item, laws Q_v with mean Q).

* The report's law given V is the mixture ``a Q_v + (1 - a) Q``. Its information about V is at most its mean chi-square
  divergence from Q, which is a^2 times that of Q_v. All densities q_v(z) of one output lie within a factor ``e^e`` of
  each other; numbers between 1 and E with mean x have a variance of at most ``(x - 1)(E - x)``, and ``(x - 1)(E - x) /
  x^2`` is at most ``(E - 1)^2 / 4E``. So a report tells at most ``I = a^2 sinh(e/2)^2`` nats. The mixtures also have
  local epsilon ``g = ln(1 + a (e^e - 1))``, and two laws of local epsilon g diverge by at most ``g tanh(g/2)`` nats,
  that of randomised response. The smaller bound is taken.
* n independent reports tell at most n I. By Fano's inequality V is guessed wrong from them with probability at least
  ``1 - (n I + ln 2) / ln d``, in whatever way.
* The item's probability is a more than any other's. Whoever knows the law of items to within less than a/2 everywhere
  guesses V right. So the expected largest error of an estimate of that law is at least ``a/2`` times that probability.

That is Lemma 5.1. For small e, and the best a, it is ``0.385 sqrt(ln d / n) / e`` when d is large. The shares of the
devices themselves differ from the law, in expectation and at the worst item, by at most the standard deviation of V's
share plus, for all others, the least over t > 0 of ``ln((d - 1) (M(t) + M(-t))) / t``, M being the moment-generating
function of such a share minus its mean. What remains after subtracting is the bound for shares (Theorem 5.2, where the
paper subtracts by Hoeffding's inequality). With a = 1 nothing is subtracted.

Public randomness does not help, since the bound holds given it. Protocols in which a device's randomizer depends on
earlier reports are not covered.
"""

from __future__ import annotations

import math

_GRID = 400


def information_bound(share: float, epsilon0: float) -> float:
    """How many nats about an item a report tells at most, if a device has the item with probability ``share`` and else
    a uniform one: I."""
    mixed = math.log1p(share * math.expm1(epsilon0))
    return min((share * math.sinh(epsilon0 / 2)) ** 2, mixed * math.tanh(mixed / 2))


def law_error_bound(epsilon0: float, items: int, reports: int) -> float:
    """The least expected largest error with which the law of items, of which each device has one, can be estimated.
    ``ValueError`` for parameters that are out of range."""
    _check(epsilon0, items, reports)
    return max(_law_error(share, epsilon0, items, reports) for share in _shares())


def share_error_bound(epsilon0: float, items: int, reports: int) -> float:
    """The least expected largest error with which the shares of devices that have each item can be estimated, for the
    worst population: the line to draw beside measured errors."""
    _check(epsilon0, items, reports)
    left = (_law_error(share, epsilon0, items, reports) - _sampling(share, items, reports) for share in _shares())
    return max(0.0, *left)


def _check(epsilon0: float, items: int, reports: int) -> None:
    if not 0 < epsilon0 <= 40 or items < 2 or reports < 1:
        raise ValueError("epsilon0 must be above 0 and at most 40, items at least 2, and reports at least 1")


def _shares() -> list[float]:
    return [10 ** (-8 * at / _GRID) for at in range(_GRID + 1)]


def _law_error(share: float, epsilon0: float, items: int, reports: int) -> float:
    told = information_bound(share, epsilon0)
    return share / 2 * max(0.0, 1 - (reports * told + math.log(2)) / math.log(items))


def _sampling(share: float, items: int, reports: int) -> float:
    """A bound on the expected largest difference between the devices' shares and the law."""
    if share == 1:
        return 0.0
    other = (1 - share) / items
    common = share + other
    return math.sqrt(common * (1 - common) / reports) + _sampling_of_others(other, items, reports)


def _sampling_of_others(chance: float, items: int, reports: int) -> float:
    def bound(rate: float) -> float:
        up, down = (reports * math.log1p(chance * math.expm1(way)) - reports * chance * way for way in (rate, -rate))
        return (math.log(items - 1) + up + math.log1p(math.exp(down - up))) / (rate * reports)

    return min(bound(10 ** (exponent / 10)) for exponent in range(-60, 28))
