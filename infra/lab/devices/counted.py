"""Devices of the shuffled model whose messages are drawn and counted, but not sealed.

What the analyzer learns of a crowd are its totals. They are drawn here by the law of the devices' own draws, with work
for each rare bit instead of each message: a missing noise message of ``zsum``, a noise message of ``unbiased`` and
``flipped``.

* ``zsum``: bits of all devices and cells are independent, so the missing messages of a cell are ``Bin(n, T / 2^128)``
  and independent of all other cells (T: the method's threshold).
* ``unbiased``, ``flipped``: each device draws its number of noise messages with the method's own thresholds, and then a
  uniform set of as many cells: the first distinct ones of a uniform sequence.

Numbers of 192 bits are compared with exact thresholds, as in ``tacit.methods.bounded``, so that every total has the law
of the devices' but for less than 2^-150 in total variation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.dp.binomial import deviation
from tacit.methods.base.draws import ONE
from tacit.methods.bounded import DRAW_BITS, DRAW_BYTES, weight_thresholds
from tacit.methods.shuffled import ShuffledCounts
from tacit.methods.shuffled_few import Unbiased
from tacit.ports import Entropy

Counts = NDArray[np.int64]
Draw = Callable[[int], Counts]
"""Draws so many uniform cells."""

TOGETHER = 1 << 21
"""About so many rare bits are drawn together: they take 100 MB."""
NO_ANSWER = -1
_WORD = 1 << 64
_TAIL = 2.0**-160


def crowd_totals(
    method: ShuffledCounts, answers: Counts, entropy: Entropy, tick: Callable[[int], None] = lambda _: None
) -> Counts:
    """The messages about each cell that devices with these encoded ``answers`` send together, shape (cells,);
    ``NO_ANSWER``: a device without one. ``tick`` is told of devices that are done. ``ValueError`` for an answer out of
    range."""
    given = answers[answers != NO_ANSWER]
    if given.size and not 0 <= given.min() <= given.max() < max(2, method.cells):
        raise ValueError("an answer is out of range")
    own = given if not method.is_scalar else np.zeros(int(given.sum()), np.int64)
    totals = np.bincount(own, minlength=method.cells).astype(np.int64)
    if not isinstance(method, Unbiased):
        totals += len(answers) - missing_noise(method, len(answers), entropy)
        tick(len(answers))
        return totals
    for weights in _groups(method, len(answers), entropy):
        cells = distinct_cells(weights, method.cells, lambda count: uniform_cells(count, method.cells, entropy))
        totals += np.bincount(cells, minlength=method.cells)
        tick(len(weights))
    return totals


def missing_noise(method: ShuffledCounts, devices: int, entropy: Entropy) -> Counts:
    """The noise messages of ``zsum`` that ``devices`` devices together leave out of each cell."""
    share = method.noise_threshold / ONE
    most = min(devices, int(devices * share + deviation(devices * share, _TAIL)) + 1)
    return places_among(weight_thresholds(devices, ONE - method.noise_threshold, most), method.cells, entropy)


def _groups(method: Unbiased, devices: int, entropy: Entropy) -> list[Counts]:
    """The numbers of noise messages of all devices, in groups that are drawn together."""
    thresholds = weight_thresholds(method.cells, ONE - method.noise_threshold, method.max_weight)
    weights = places_among(thresholds, devices, entropy)
    groups = max(1, -(-int(weights.sum()) // TOGETHER))
    return np.array_split(weights, groups)


def places_among(thresholds: Sequence[int], count: int, entropy: Entropy) -> Counts:
    """For each of ``count`` uniform numbers of 192 bits how many of the rising ``thresholds`` are not above it."""
    drawn = np.frombuffer(entropy(DRAW_BYTES * count), dtype=">u8").reshape(count, DRAW_BYTES // 8).astype(np.uint64)
    heads = np.array([min(one >> (DRAW_BITS - 64), _WORD - 1) for one in thresholds], dtype=np.uint64)
    found = np.searchsorted(heads, drawn[:, 0], side="right").astype(np.int64)
    below = np.searchsorted(heads, drawn[:, 0], side="left")
    for at in np.flatnonzero(below < found):  # the first 64 bits are those of a threshold: the rest decides
        number = int.from_bytes(drawn[at].astype(">u8").tobytes(), "big")
        found[at] = bisect_right(thresholds, number)
    return found


def uniform_cells(count: int, cells: int, entropy: Entropy) -> Counts:
    """``count`` independent uniform cells, exactly: a word from the incomplete last part of all words is redrawn."""
    usable = _WORD - _WORD % cells
    words = np.frombuffer(entropy(8 * count), dtype=np.uint64)
    while usable < _WORD and (again := words >= np.uint64(usable)).any():
        words = words.copy()
        words[again] = np.frombuffer(entropy(8 * int(again.sum())), dtype=np.uint64)
    return (words % np.uint64(cells)).astype(np.int64)


def distinct_cells(weights: Counts, cells: int, draw: Draw) -> Counts:
    """For each device as many distinct cells as its weight, all in one array, in no order: of a sequence of uniform
    cells of its own, the first distinct ones, so that every set of as many is equally likely."""
    devices = np.repeat(np.arange(len(weights), dtype=np.int64), weights)
    found = _once(devices * cells + draw(len(devices)))
    while len(found) < len(devices):
        lacking = weights - np.bincount(found // cells, minlength=len(weights))
        more = np.repeat(np.arange(len(weights), dtype=np.int64), lacking)
        found = _once(np.concatenate([found, more * cells + draw(len(more))]))
    return found % cells


def _once(numbers: Counts) -> Counts:
    """The distinct numbers, sorted; ``numbers`` is sorted in place."""
    numbers.sort()
    first = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    return numbers[first]
