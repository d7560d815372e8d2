"""Attackers: each learns from devices that it knows the truth about, and then guesses for others."""

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


class Attacker(Protocol):
    """One way to guess."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def learn(self, traces: Sequence[Trace], labels: Bits) -> Callable[[Sequence[Trace]], Bits]:
        """From traces and truths, how to guess: 0 or 1 for every trace."""
        ...


class BestFeature:
    """Takes the one number of a trace that, cut at the best place, was right most often."""

    def __init__(self, name: str, features: Callable[[Trace], Sequence[float]]) -> None:
        self.name = name
        self._features = features

    def learn(self, traces: Sequence[Trace], labels: Bits) -> Callable[[Sequence[Trace]], Bits]:
        """The rule that cuts the best single feature of ``traces`` at its best place."""
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
    """How often the best cut is right, where it is, and whether what lies above it is a 1."""
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

    name = "classifier"

    def learn(self, traces: Sequence[Trace], labels: Bits) -> Callable[[Sequence[Trace]], Bits]:
        """The classifier that gradient descent finds for ``labels``."""
        raw = _byte_table(traces)
        mean, spread = raw.mean(axis=0), raw.std(axis=0)
        varying = spread > 0

        def scaled(table: Floats) -> Floats:
            return np.array((table[:, varying] - mean[varying]) / spread[varying], dtype=np.float64)

        table, weights, bias = scaled(raw), np.zeros(int(varying.sum())), 0.0
        for _ in range(_ROUNDS):
            wrong = 1 / (1 + np.exp(-(table @ weights + bias))) - labels
            weights -= _RATE * (table.T @ wrong / len(labels) + _DECAY * weights)
            bias -= _RATE * float(wrong.mean())
        return lambda others: np.array(scaled(_byte_table(others)) @ weights + bias > 0, dtype=np.int64)


def _byte_table(traces: Sequence[Trace]) -> Floats:
    states = [b"".join(trace.memories) for trace in traces]
    return np.frombuffer(b"".join(states), dtype=np.uint8).reshape(len(states), -1).astype(np.float64)


def byte_statistics(trace: Trace) -> list[float]:
    """Repeated halves of ciphertexts, repeated differences of them, bits, bytes, and how well they compress."""
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
    """CPU seconds of the updates: least, most, middle, sum."""
    seconds = trace.seconds
    return [min(seconds), max(seconds), statistics.median(seconds), sum(seconds)]


def work(trace: Trace) -> list[float]:
    """Random bytes that the updates drew: as many as there were group operations, on a machine of any load."""
    return [float(min(trace.drawn)), float(max(trace.drawn)), float(sum(trace.drawn))]


def metadata(trace: Trace) -> list[float]:
    """Sizes of the file; how many writes, of how many bytes, when; syncs; how often it was read."""
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


ATTACKERS: Sequence[Attacker] = (
    BestFeature("byte statistics", byte_statistics),
    LogisticRegression(),
    BestFeature("timing", timing),
    BestFeature("work", work),
    BestFeature("file metadata", metadata),
)
