"""A privacy audit: a lower bound on epsilon from samples of a mechanism on two neighbouring inputs.

Whoever sees one output guesses which input it came from. Any set of outputs with probability p under one input and q
under the other forces ``epsilon >= ln((p - delta) / q)``. The set is chosen on the first half of the samples (those
outputs whose empirical likelihood ratio is high), p and q are bounded on the second half (Clopper, Pearson), so the
bound holds with the stated confidence whatever set was chosen.

``Draws`` is a fast source of random bytes for the code under audit, fair or biased: a randomizer fed with biased coins
is one that an audit must catch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Samples = NDArray[np.int64]
"""Outputs as integers; real outputs are put into cells first (which can only lower the bound)."""
_SETS = 24
_BUFFER = 1 << 20


class Draws:
    """An ``Entropy`` of simulated bytes, reproducible by ``seed``. ``ands`` biases every bit: it is a one with
    probability ``2^-(1 + ands)``."""

    def __init__(self, seed: int, ands: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        self._ands = ands
        self._buffer = memoryview(b"")

    def __call__(self, length: int, /) -> bytes:
        """``length`` bytes that were not given before."""
        if length > len(self._buffer):
            size = max(length, _BUFFER)
            bits = np.frombuffer(self._generator.bytes(size), np.uint8)
            for _ in range(self._ands):
                bits = bits & np.frombuffer(self._generator.bytes(size), np.uint8)
            self._buffer = memoryview(bits.tobytes())
        given, self._buffer = self._buffer[:length], self._buffer[length:]
        return bytes(given)


def epsilon_lower_bound(first: Samples, second: Samples, delta: float, false_alarm: float = 1e-6) -> float:
    """A number that exceeds the mechanism's true epsilon at ``delta`` with probability at most ``false_alarm``.

    ``first`` and ``second`` are as many independent outputs on either input, in any order of neighbours: both
    directions are tried.
    """
    halves = [np.array_split(np.asarray(samples), 2) for samples in (first, second)]
    (train_first, test_first), (train_second, test_second) = halves
    best = 0.0
    for top, bottom, shown, hidden in (
        (train_first, train_second, test_first, test_second),
        (train_second, train_first, test_second, test_first),
    ):
        for chosen in _sets(top, bottom):
            best = max(best, _bound(chosen(shown), chosen(hidden), delta, false_alarm / (4 * _SETS)))
    return best


def _sets(top: Samples, bottom: Samples) -> list[Callable[[Samples], Samples]]:
    """Sets of outputs by falling empirical likelihood ratio, from few outputs to many."""
    low = min(top.min(), bottom.min())
    size = int(max(top.max(), bottom.max()) - low) + 1
    ratio = (np.bincount(top - low, minlength=size) + 0.5) / (np.bincount(bottom - low, minlength=size) + 0.5)
    levels = np.unique(np.quantile(ratio[top - low], np.linspace(0.02, 0.998, _SETS)))

    def members(level: float) -> Callable[[Samples], Samples]:
        inside = ratio >= level

        def chosen(samples: Samples) -> Samples:
            places = samples - low
            known = (places >= 0) & (places < size)
            return np.asarray(known & inside[np.clip(places, 0, size - 1)])

        return chosen

    return [members(float(level)) for level in levels]


def _bound(shown: Samples, hidden: Samples, delta: float, false_alarm: float) -> float:
    hits, misses = int(shown.sum()), int(hidden.sum())
    p = stats.beta.ppf(false_alarm, hits, shown.size - hits + 1) if hits else 0.0
    q = stats.beta.ppf(1 - false_alarm, misses + 1, hidden.size - misses) if misses < hidden.size else 1.0
    return math.log((p - delta) / q) if p > delta + q else 0.0
