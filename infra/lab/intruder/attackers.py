"""Attackers: each learns from devices whose truth it knows, and then guesses for others."""

from __future__ import annotations

import itertools
import statistics
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from infra.lab.intruder.traces import Trace
from tacit.panprivate.ristretto import RISTRETTO255

Floats = NDArray[np.float64]
Bits = NDArray[np.int64]
_ELEMENT = RISTRETTO255.element_size
_ROUNDS, _RATE, _DECAY = 300, 0.5, 1e-2
MOST_LOGIT = 500.0
"""Larger logits are cut: their probability is 0 or 1 anyway, and the exponential function would overflow."""


class Attacker(Protocol):
    """One way to guess on which devices an event happened."""

    @property
    def name(self) -> str: ...

    @property
    def by_time(self) -> bool:
        """Whether it guesses by how long updates took, which needs devices that live side by side."""
        ...

    def learn(self, traces: Sequence[Trace], labels: Bits) -> Callable[[Sequence[Trace]], Bits]:
        """Learn from ``traces`` and their truths ``labels``; returns a function that guesses 0 or 1 for each trace."""
        ...


class BestFeature:
    """Guesses by the one feature of a trace that, with its best threshold, was right most often."""

    def __init__(self, name: str, features: Callable[[Trace], Sequence[float]], *, by_time: bool = False) -> None:
        self.name, self.by_time = name, by_time
        self._features = features

    def learn(self, traces: Sequence[Trace], labels: Bits) -> Callable[[Sequence[Trace]], Bits]:
        """Find the best feature and threshold; returns the rule that applies them."""
        table = self._table(traces)
        cuts = [_best_cut(table[:, column], labels) for column in range(table.shape[1])]
        column = max(range(len(cuts)), key=lambda at: cuts[at][0])
        _, cut, above = cuts[column]

        def guess(others: Sequence[Trace]) -> Bits:
            over = (self._table(others)[:, column] > cut).astype(np.int64)
            return over if above else 1 - over

        return guess

    def _table(self, traces: Sequence[Trace]) -> Floats:
        return np.array([self._features(trace) for trace in traces], dtype=np.float64)


def _best_cut(values: Floats, labels: Bits) -> tuple[float, float, bool]:
    """Return the share of labels that the best threshold gets right, the threshold, and whether values above it mean
    1."""
    order = np.argsort(values, kind="stable")
    ordered, ones = values[order], labels[order]
    right_above = np.cumsum(1 - ones) + ones.sum() - np.cumsum(ones)
    possible = np.append(ordered[1:] > ordered[:-1], True)
    share = np.where(possible, right_above / len(ones), 0.5)
    above = share.max() >= 1 - share.min()
    at = int(share.argmax() if above else share.argmin())
    best = float(share[at] if above else 1 - share[at])
    upper = ordered[at + 1] if at + 1 < len(ordered) else ordered[at] + 1
    return best, float((ordered[at] + upper) / 2), bool(above)


class LogisticRegression:
    """Logistic regression on the bytes of what memory held after every step, by gradient descent."""

    name, by_time = "classifier", False

    def learn(self, traces: Sequence[Trace], labels: Bits) -> Callable[[Sequence[Trace]], Bits]:
        """The classifier that gradient descent finds for ``labels``."""
        raw = _byte_table(traces)
        mean, spread = raw.mean(axis=0), raw.std(axis=0)
        varying = spread > 0

        def scaled(table: Floats) -> Floats:
            return np.array((table[:, varying] - mean[varying]) / spread[varying], dtype=np.float64)

        table, weights, bias = scaled(raw), np.zeros(int(varying.sum())), 0.0
        for _ in range(_ROUNDS):
            wrong = 1 / (1 + np.exp(-np.clip(table @ weights + bias, -MOST_LOGIT, MOST_LOGIT))) - labels
            weights -= _RATE * (table.T @ wrong / len(labels) + _DECAY * weights)
            bias -= _RATE * float(wrong.mean())
        return lambda others: np.array(scaled(_byte_table(others)) @ weights + bias > 0, dtype=np.int64)


def _byte_table(traces: Sequence[Trace]) -> Floats:
    states = [b"".join(trace.memories) for trace in traces]
    return np.frombuffer(b"".join(states), dtype=np.uint8).reshape(len(states), -1).astype(np.float64)


def byte_statistics(trace: Trace) -> list[float]:
    """Return statistics of the bytes: repeated halves of ciphertexts, repeated differences of them, unchanged files,
    the share of ones among the bits, the mean byte, and the compressed size."""
    states = trace.memories
    halves = [[state[at : at + _ELEMENT] for at in range(0, len(state), _ELEMENT)] for state in states]
    pairs = itertools.pairwise(halves)
    differences = [
        RISTRETTO255.subtract(new, old) for before, after in pairs for old, new in zip(before, after, strict=True)
    ]
    everything = b"".join(states)
    same_file = sum(old == new for old, new in itertools.pairwise(trace.files))
    return [
        _repeats(half for state in halves for half in state),
        _repeats(differences),
        float(same_file),
        int.from_bytes(everything, "big").bit_count() / len(everything),
        statistics.fmean(everything),
        float(len(zlib.compress(b"".join(trace.files)))),
    ]


def _repeats(pieces: Any) -> float:
    return float(sum(count - 1 for count in Counter(pieces).values()))


def timing(trace: Trace) -> list[float]:
    """Return least, most, median and sum of the updates' CPU seconds."""
    seconds = trace.seconds
    return [min(seconds), max(seconds), statistics.median(seconds), sum(seconds)]


def work(trace: Trace) -> list[float]:
    """Return least, most and sum of the random bytes that updates drew: they show the number of group operations,
    whatever the load of the machine."""
    return [float(min(trace.drawn)), float(max(trace.drawn)), float(sum(trace.drawn))]


def metadata(trace: Trace) -> list[float]:
    """Return file sizes, number, bytes and times of writes, and numbers of syncs and reads."""
    writes = [write for step in trace.writes for write in step]
    return [
        float(max(trace.sizes)),
        float(sum(trace.sizes)),
        float(len(writes)),
        float(sum(size for _, _, size in writes)),
        float(sum(when for when, _, _ in writes)),
        float(sum(trace.syncs)),
        float(sum(trace.accessed)),
    ]


TIMING: Attacker = BestFeature("timing", timing, by_time=True)
ATTACKERS: Sequence[Attacker] = (
    BestFeature("byte statistics", byte_statistics),
    LogisticRegression(),
    TIMING,
    BestFeature("work", work),
    BestFeature("file metadata", metadata),
)
