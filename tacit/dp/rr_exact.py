"""Exact accounting where the aggregate is a sum of flipped bits: binary randomised response and RAPPOR.

What an aggregator (or the analyst) sees of one cell is the count of ones among n reports. Of the other n - 1
devices n1 hold a one, so with flip probability f the count is

    ``Bin(n-1-n1, f) + Bin(n1, 1-f) + own bit``,  own bit Ber(f) or Ber(1-f).

``rr``: one cell, by replacement (the bit changes). ``rappor``, one bit per category: by *deletion* (a one-hot
value against all zeros) one cell changes, by *replacement* two cells change in opposite directions; their
losses are convolved exactly.

What the others hold is the adversary's choice, and the largest delta over it counts. All counts have the variance
n f(1-f); what the others hold moves their mean, and with it the fraction by which a hockey stick's threshold misses the
lattice, and their skewness.

* *Skewness* makes the ends worst. For one cell these are n1 near 0 and the mirror images, which the larger of both
  directions covers; without it n/2 is. For two cells all others hold the category that the device leaves; this costs
  more than the often quoted case "nobody else holds either". They are looked at first, with ``_LATTICE`` on top.
* *The lattice.* Near its best threshold t a hockey stick falls by the share o^2 h^2 / 2 at t + o, h = z/sigma being the
  hazard rate there. Between two lattice points o reaches 1/2: with z^2 = 2 ln(1/delta) that is at most 0.4 %, which
  ``_LATTICE`` covers, only where the variance is at least ``_SMOOTH`` ln(1/delta). Below that others are looked at:
  every n1 up to n = ``_SCANNED``, beyond it steps of 1/``_STEPS`` of the lattice through a whole turn of it. For two
  cells what counts is the difference D of those who hold the one and the other: (D, 0) or (0, -D). Up to ``_LATTICE``
  no other pair of the same D is worse, and none at all is where delta is below ``_LARGE``.
* *Few flips.* Where delta is above ``_COARSE``, as only curves of many rounds ask for, a turn is long, what is beyond
  it may be worse, and two cells are not worst at the ends. Of one cell with more than ``_SCANNED`` reports every n1
  from a to b is bounded by that of a ones among n - (b - a) reports, as further bits are added independently:
  ``_SPANS`` such spans cover all. Of two cells the result is larger by ``_BEYOND``, three times what any composition
  was found to exceed it by; of up to ``_ENUMERATED`` reports none was, of all there are.

That this is all is not a theorem: the tests compare it with every composition of the others at every n up to 120. All
counts are log-concave (sums of independent bits), so the likelihood ratio is monotone and each hockey stick is a tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain

from tacit.dp import parameters
from tacit.dp.binomial import binomial_window, deviation
from tacit.dp.cells import Cell, one_cell_delta, paired, two_cell_delta
from tacit.dp.solve import smallest_epsilon_of_all
from tacit.dp.two_rates import two_rates

_TAIL = 1e-20
_LATTICE = 1.006
_NEAR_ENDS = (0, 1, 2, 3, 4, 6, 8)
_NEAR_ALL = 3
_SMOOTH = 62.0
_SCANNED = 128
_STEPS = 24
_LARGE = 1e-3
_COARSE = 0.01
_SPANS = 64
_BEYOND = 1.02
_ENUMERATED = 8
_FAITHFUL = 1e-9
"""Below this flip probability a crowd hides nothing, and only the end that is looked at first matters."""


def _cell(others: list[float], f: float) -> Cell:
    """Distribution of the count of the others' bits plus the own bit, Ber(f) or Ber(1-f)."""
    lower, upper = [*others, 0.0], [0.0, *others]
    return paired(
        [(1 - f) * a + f * b for a, b in zip(lower, upper, strict=True)],
        [f * a + (1 - f) * b for a, b in zip(lower, upper, strict=True)],
    )


def _with_bits(probabilities: list[float], p: float, count: int) -> list[float]:
    """The distribution after adding ``count`` independent Ber(p) bits."""
    for _ in range(count):
        lower, upper = [*probabilities, 0.0], [0.0, *probabilities]
        probabilities = [(1 - p) * a + p * b for a, b in zip(lower, upper, strict=True)]
    return probabilities


def _balanced_sum(half: int, f: float) -> list[float]:
    """Bin(half, f) + Bin(half, 1-f), symmetric about ``half``, by its generating function's recurrence.

    With u = f(1-f) and s = f^2 + (1-f)^2: ``u (k+1) g[k+1] = s (half-k) g[k] + u (2 half-k+1) g[k-1]``, all
    terms positive up to the middle; run as ratios from the window's lower edge.
    """
    u, s = f * (1 - f), f * f + (1 - f) * (1 - f)
    start = max(0, half - math.ceil(deviation(2 * half * u, _TAIL)))
    # The first ratio is the one that the recurrence would give again. It is not exact, but every step makes the error
    # smaller, and below the window lies next to nothing.
    pull = s * (half - start) / (2 * u)
    ratio = (pull + math.sqrt(pull * pull + start * (2.0 * half - start))) / max(start, 1)
    values = [1.0]
    for k in range(start, half):
        back = 0.0 if k == 0 else (2 * half - k + 1) / ratio
        ratio = (s * (half - k) / u + back) / (k + 1)
        values.append(values[-1] * ratio)
        # only their ratios count, and the largest of them would overflow; what falls to 0 by this is far below the tail
        if values[-1] > 1e250:
            values = [value * 1e-250 for value in values]
    values += values[-2::-1]
    total = math.fsum(values)
    return [value / total for value in values if value > 0]


@lru_cache(maxsize=2 * _SCANNED)
def _cell_with(f: float, n: int, ones: int) -> Cell:
    """The cell where ``ones`` of the n - 1 others hold a one."""
    others = n - 1
    if min(ones, others - ones) > max(_NEAR_ENDS) and ones != others // 2:
        return _cell(two_rates(ones, 1 - f, others - ones, f), f)
    if ones == others // 2 and others >= 2:
        return _cell(_with_bits(_balanced_sum(ones, f), f, others % 2), f)
    if 2 * ones <= others:
        return _cell(_with_bits(binomial_window(others - ones, f, _TAIL)[1], 1 - f, ones), f)
    # Bin(ones, 1 - f) is ``ones`` less Bin(ones, f)
    mirrored = binomial_window(ones, f, _TAIL)[1][::-1]
    return _cell(_with_bits(mirrored, f, others - ones), f)


def _flip(value: float) -> float:
    number = parameters.finite("f", value)
    if not 0 < number < 0.5:
        raise ValueError("f must be above 0 and below 1/2")
    return number


def _ones(n: int) -> list[int]:
    """Candidates for the worst case of one cell: how many of the others hold a one."""
    half = (n - 1) // 2
    return [half, *(ones for ones in _NEAR_ENDS if ones < half)]


def _pairs(n: int, *, others_hold_neither: bool) -> list[tuple[int, int]]:
    """The same for two cells, the worst one mostly first."""
    others = n - 1
    if others_hold_neither:
        return [(0, 0)]
    all_but_few = [(others - few, 0) for few in range(min(_NEAR_ALL, n))]
    return [*all_but_few, (others // 2, others // 2), (0, 0)]


def _steps(f: float, n: int, last: int) -> range:
    """Candidates from 0 up to at most ``last``: all of them, or steps through one period of the lattice, in which a
    mean moves by 1 - 2f."""
    if f < _FAITHFUL:
        return range(0)
    if n <= _SCANNED:
        return range(last + 1)
    turn = min(1 - 2 * f, 2 * f)
    return range(0, min(last, math.ceil(1 / turn)) + 1, max(1, math.floor(1 / (_STEPS * turn))))


def _is_smooth(f: float, n: int, cells: int, delta: float) -> bool:
    return n > _SCANNED and cells * n * f * (1 - f) >= -_SMOOTH * math.log(max(delta, parameters.MIN_DELTA))


def _one_cell(epsilon: float, f: float, n: int, ones: int, factor: float = _LATTICE) -> float:
    return min(1.0, factor * one_cell_delta(_cell_with(f, n, ones), epsilon) + 4 * _TAIL)


def _two_cells(epsilon: float, f: float, n: int, pair: tuple[int, int], factor: float = _LATTICE) -> float:
    first, second = pair
    worst = two_cell_delta(_cell_with(f, n, first), _cell_with(f, n, second), epsilon)
    return min(1.0, factor * worst + 8 * _TAIL)


Delta = Callable[..., float]
"""delta at (epsilon, factor=...) for one composition of the others."""


def _further_ones(f: float, n: int) -> Iterator[Delta]:
    return (partial(_one_cell, f=f, n=n, ones=ones) for ones in _steps(f, n, (n - 1) // 2))


def _further_pairs(f: float, n: int) -> Iterator[Delta]:
    others = n - 1
    pairs = ((max(others - few, 0), max(few - others, 0)) for few in _steps(f, n, 2 * others))
    return (partial(_two_cells, f=f, n=n, pair=pair) for pair in pairs)


def _spans(f: float, n: int) -> Iterator[Delta]:
    """Bounds that cover every number of ones among the others up to half of them; the rest are mirror images."""
    half = (n - 1) // 2
    width = half // _SPANS + 1
    firsts = range(0, half + 1 if f >= _FAITHFUL else 0, width)
    return (partial(_one_cell, f=f, n=n - min(width - 1, half - first), ones=first) for first in firsts)


def _largest(epsilon: float, usual: Sequence[Delta], further: Iterable[Delta]) -> float:
    largest = max(delta_of(epsilon) for delta_of in usual)
    more = max((delta_of(epsilon, factor=1.0) for delta_of in further), default=0.0)
    return largest if more <= largest else min(1.0, _LATTICE * more)


def _smallest(usual: Iterable[Delta], further: Iterable[Delta], delta: float, cap: float) -> float:
    """Return the smallest epsilon that keeps ``delta`` for the usual compositions and for every further one whose delta
    at that epsilon is larger."""
    smallest = smallest_epsilon_of_all(usual, delta, cap)
    factor = 1.0 if delta < _LARGE else _LATTICE
    worse = [delta_of for delta_of in further if smallest < cap and delta_of(smallest, factor=factor) > delta]
    return max(smallest, smallest_epsilon_of_all(worse, delta, cap))


def delta_one_cell(epsilon: float, f: float, n: int) -> float:
    """delta(epsilon) of one count of n bits, each flipped with probability f, when one bit changes.

    This is randomised response by replacement and RAPPOR by deletion. An upper bound over n1, as described in the
    module. ``ValueError`` names a bad parameter.
    """
    parameters.epsilon("epsilon", epsilon)
    _flip(f)
    parameters.reports(n)
    usual = [partial(_one_cell, f=f, n=n, ones=ones) for ones in _ones(n)]
    largest = max(delta_of(epsilon) for delta_of in usual)
    if _is_smooth(f, n, 1, largest):
        return largest
    worst = _largest(epsilon, usual, _further_ones(f, n))
    if n <= _SCANNED or worst <= _COARSE:
        return worst
    return max((worst, *(bound(epsilon, factor=1.0) for bound in _spans(f, n))))


def delta_two_cells(epsilon: float, f: float, n: int) -> float:
    """delta(epsilon) of RAPPOR's counts when one device's category changes (two cells, replacement).

    The worst over what the others hold. ``ValueError`` names a bad parameter.
    """
    parameters.epsilon("epsilon", epsilon)
    _flip(f)
    parameters.reports(n)
    usual = [partial(_two_cells, f=f, n=n, pair=pair) for pair in _pairs(n, others_hold_neither=False)]
    largest = max(delta_of(epsilon) for delta_of in usual)
    if _is_smooth(f, n, 2, largest):
        return largest
    worst = _largest(epsilon, usual, _further_pairs(f, n))
    return min(1.0, _BEYOND * worst) if n > _ENUMERATED and worst > _COARSE else worst


def exceeds_one_cell(epsilon: float, f: float, n: int, delta: float) -> bool:
    """Whether the composition that is usually the worst one already shows that ``delta_one_cell`` is above ``delta``.
    This is a small part of the work. False is inconclusive."""
    return _one_cell(epsilon, f, n, 0) > delta


def exceeds_two_cells(epsilon: float, f: float, n: int, delta: float) -> bool:
    """As ``exceeds_one_cell`` for ``delta_two_cells``."""
    return _two_cells(epsilon, f, n, (n - 1, 0)) > delta


@lru_cache(maxsize=256)
def epsilon_one_cell(f: float, n: int, delta: float) -> float:
    """The smallest epsilon with ``delta_one_cell <= delta``, at most the local ln((1-f)/f)."""
    parameters.failure_probability(delta)
    parameters.reports(n)
    cap = math.log((1 - _flip(f)) / f)
    usual = (partial(_one_cell, f=f, n=n, ones=ones) for ones in _ones(n))
    if _is_smooth(f, n, 1, delta):
        return _smallest(usual, (), delta, cap)
    spans = _spans(f, n) if n > _SCANNED and delta > _COARSE else ()
    return _smallest(usual, chain(_further_ones(f, n), spans), delta, cap)


@lru_cache(maxsize=256)
def epsilon_two_cells(f: float, n: int, delta: float, *, others_hold_neither: bool = False) -> float:
    """The smallest epsilon with ``delta_two_cells <= delta``, at most the local 2 ln((1-f)/f)."""
    parameters.failure_probability(delta)
    parameters.reports(n)
    cap = 2 * math.log((1 - _flip(f)) / f)
    usual = (partial(_two_cells, f=f, n=n, pair=pair) for pair in _pairs(n, others_hold_neither=others_hold_neither))
    if others_hold_neither or _is_smooth(f, n, 2, delta):
        return _smallest(usual, (), delta, cap)
    left = delta / _BEYOND if n > _ENUMERATED and delta > _COARSE else delta
    return _smallest(usual, _further_pairs(f, n), left, cap)


def rr_flip(epsilon0: float) -> float:
    """Flip probability of binary randomised response, ``1/(e^epsilon0 + 1)``."""
    return 1 / (math.exp(parameters.local_epsilon(epsilon0)) + 1)


def rappor_flip(epsilon0: float) -> float:
    """Flip probability per cell for epsilon0 by replacement, ``1/(e^(epsilon0/2) + 1)``."""
    return 1 / (math.exp(parameters.local_epsilon(epsilon0) / 2) + 1)
