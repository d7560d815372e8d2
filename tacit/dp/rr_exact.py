"""Exact accounting where the aggregate is a sum of flipped bits: binary randomised response and RAPPOR.

What an aggregator (or the analyst) sees of one cell is the count of ones among n reports. Of the other n - 1
devices n1 hold a one, so with flip probability f the count is

    ``Bin(n-1-n1, f) + Bin(n1, 1-f) + own bit``,  own bit Ber(f) or Ber(1-f).

``rr``: one cell, by replacement (the bit changes). ``rappor``, one bit per category: by *deletion* (a one-hot
value against all zeros) one cell changes, by *replacement* two cells change in opposite directions; their
losses are convolved exactly.

What the others hold is the adversary's choice. For one cell the worst n1 lies near its ends (n1 = 0 ... 8 and
the mirror images, which the larger of both directions covers) or at n/2. For two cells the worst case is that
all others hold the category which the device leaves; this costs more than the often quoted case "nobody else
holds either". Searches over the other n1 (n up to 2000) found at most 0.6 % more delta in between, an effect
of the lattice; delta is multiplied by ``_LATTICE`` to cover it. All counts are log-concave (sums of independent
bits), so the likelihood ratio is monotone and each hockey stick is a tail.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

from tacit.dp import parameters
from tacit.dp.binomial import binomial_window, deviation
from tacit.dp.cells import Cell, one_cell_delta, paired, two_cell_delta
from tacit.dp.solve import smallest_epsilon_of_all

_TAIL = 1e-20
_LATTICE = 1.006
_NEAR_ENDS = (0, 1, 2, 3, 4, 6, 8)
_NEAR_ALL = 3


def _cell(others: list[float], f: float) -> Cell:
    """The count of the others and the own bit, Ber(f) or Ber(1-f)."""
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


def _balanced(half: int, f: float) -> list[float]:
    """Bin(half, f) + Bin(half, 1-f), symmetric about ``half``, by its generating function's recurrence.

    With u = f(1-f) and s = f^2 + (1-f)^2: ``u (k+1) g[k+1] = s (half-k) g[k] + u (2 half-k+1) g[k-1]``, all
    terms positive up to the middle; run as ratios from the window's lower edge.
    """
    u, s = f * (1 - f), f * f + (1 - f) * (1 - f)
    start = max(0, half - math.ceil(deviation(2 * half * u, _TAIL)))
    pull = s * (half - start) / (2 * u)
    ratio = (pull + math.sqrt(pull * pull + start * (2.0 * half - start))) / max(start, 1)
    values = [1.0]
    for k in range(start, half):
        back = 0.0 if k == 0 else (2 * half - k + 1) / ratio
        ratio = (s * (half - k) / u + back) / (k + 1)
        values.append(values[-1] * ratio)
        if values[-1] > 1e250:
            values = [value * 1e-250 for value in values]
    values += values[-2::-1]
    total = math.fsum(values)
    return [value / total for value in values if value > 0]


@lru_cache(maxsize=16)
def _cell_with(f: float, n: int, ones: int) -> Cell:
    """The cell where ``ones`` of the n - 1 others hold a one: few of them, all but few, or half."""
    others = n - 1
    if ones == others // 2 and others >= 2:
        return _cell(_with_bits(_balanced(ones, f), f, others % 2), f)
    if 2 * ones <= others:
        return _cell(_with_bits(binomial_window(others - ones, f, _TAIL)[1], 1 - f, ones), f)
    mirrored = binomial_window(ones, f, _TAIL)[1][::-1]
    return _cell(_with_bits(mirrored, f, others - ones), f)


def _flip(value: float) -> float:
    number = parameters.finite("f", value)
    if not 0 < number < 0.5:
        raise ValueError("f must be above 0 and below 1/2")
    return number


def _ones(n: int) -> list[int]:
    """How many of the others hold a one, where the worst case for one cell may lie."""
    half = (n - 1) // 2
    return [half, *(ones for ones in _NEAR_ENDS if ones < half)]


def _pairs(n: int, *, others_hold_neither: bool) -> list[tuple[int, int]]:
    """The same for two cells, the worst one mostly first."""
    others = n - 1
    if others_hold_neither:
        return [(0, 0)]
    all_but_few = [(others - few, 0) for few in range(min(_NEAR_ALL, n))]
    return [*all_but_few, (others // 2, others // 2), (0, 0)]


def _one_cell(epsilon: float, f: float, n: int, ones: int) -> float:
    return min(1.0, _LATTICE * one_cell_delta(_cell_with(f, n, ones), epsilon) + 4 * _TAIL)


def _two_cells(epsilon: float, f: float, n: int, first: int, second: int) -> float:
    worst = two_cell_delta(_cell_with(f, n, first), _cell_with(f, n, second), epsilon)
    return min(1.0, _LATTICE * worst + 8 * _TAIL)


def delta_one_cell(epsilon: float, f: float, n: int) -> float:
    """delta(epsilon) of one count of n bits, each flipped with probability f, when one bit changes.

    This is randomised response by replacement and RAPPOR by deletion. Upper bound over n1 as said above.
    ``ValueError`` names a bad parameter.
    """
    parameters.epsilon("epsilon", epsilon)
    _flip(f)
    parameters.reports(n)
    return max(_one_cell(epsilon, f, n, ones) for ones in _ones(n))


def delta_two_cells(epsilon: float, f: float, n: int, *, others_hold_neither: bool = False) -> float:
    """delta(epsilon) of RAPPOR's counts when one device's category changes (two cells, replacement).

    The worst over what the others hold, or with ``others_hold_neither`` that one case, as quoted in the
    literature (never a claim). ``ValueError`` names a bad parameter.
    """
    parameters.epsilon("epsilon", epsilon)
    _flip(f)
    parameters.reports(n)
    pairs = _pairs(n, others_hold_neither=others_hold_neither)
    return max(_two_cells(epsilon, f, n, first, second) for first, second in pairs)


@lru_cache(maxsize=256)
def epsilon_one_cell(f: float, n: int, delta: float) -> float:
    """The smallest epsilon with ``delta_one_cell <= delta``, at most the local ln((1-f)/f)."""
    parameters.failure_probability(delta)
    parameters.reports(n)
    cap = math.log((1 - _flip(f)) / f)
    return smallest_epsilon_of_all((partial(_one_cell, f=f, n=n, ones=ones) for ones in _ones(n)), delta, cap)


@lru_cache(maxsize=256)
def epsilon_two_cells(f: float, n: int, delta: float, *, others_hold_neither: bool = False) -> float:
    """The smallest epsilon with ``delta_two_cells <= delta``, at most the local 2 ln((1-f)/f)."""
    parameters.failure_probability(delta)
    parameters.reports(n)
    cap = 2 * math.log((1 - _flip(f)) / f)
    pairs = _pairs(n, others_hold_neither=others_hold_neither)
    deltas = (partial(_two_cells, f=f, n=n, first=first, second=second) for first, second in pairs)
    return smallest_epsilon_of_all(deltas, delta, cap)


def rr_flip(epsilon0: float) -> float:
    """Flip probability of binary randomised response, ``1/(e^epsilon0 + 1)``."""
    return 1 / (math.exp(parameters.local_epsilon(epsilon0)) + 1)


def rappor_flip(epsilon0: float) -> float:
    """Flip probability per cell for epsilon0 by replacement, ``1/(e^(epsilon0/2) + 1)``."""
    return 1 / (math.exp(parameters.local_epsilon(epsilon0) / 2) + 1)
