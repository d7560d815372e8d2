"""Devices with examples: a training set dealt out unevenly, and a set for testing that no device has.

Unless another file is given, the examples are the handwritten digits of ``digits.csv`` beside this module
(``digits.md`` says where they come from). A device has examples of a few classes: the shares of its classes are drawn
from a symmetric Dirichlet distribution, and its examples, which other devices may have too, at random among those of
the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DecodeError
from tacit.learning.examples_file import examples_in
from tacit.learning.local import Examples
from tacit.recipe.training import ArchitectureSpec

DIGITS: Final = Path(__file__).with_name("digits.csv")
TESTED: Final = 397
"""Digits that are kept for testing."""
TESTED_SHARE: Final = 5
"""Of other examples, one in so many is kept for testing."""
EXAMPLES: Final = 8
"""Examples of each device."""
CONCENTRATION: Final = 0.3
"""Of the Dirichlet distribution: about three of ten classes a device."""
_BRIGHTEST = 16.0
_SPLIT_SEED = 1


@dataclass(frozen=True, slots=True, repr=False)
class Population:
    """Which examples of ``train`` each device has, ``(devices, examples)``; ``test``: examples that no device has."""

    train: Examples
    held: NDArray[np.int64]
    test: Examples

    def __len__(self) -> int:
        return len(self.held)

    def examples(self, devices: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Features ``(devices, examples, inputs)`` from 0 to 1 and labels ``(devices, examples)`` of these devices."""
        held = self.held[devices]
        return self.train.features[held].astype(np.float32), self.train.labels[held]

    def text(self, number: int) -> str:
        """The examples of a device as its source gives them: for each its features and its class."""
        features, labels = self.examples(np.array([number]))
        rows = np.column_stack((features[0], labels[0]))
        return ",".join(f"{entry:g}" for entry in rows.ravel().tolist())


@dataclass(frozen=True, slots=True, repr=False)
class DataSet:
    """Examples for training and for testing."""

    train: Examples
    test: Examples


@cache
def digits() -> DataSet:
    """The digits, from 0 to 1; always the same split."""
    rows = np.loadtxt(DIGITS, delimiter=",")
    return _split(Examples(rows[:, :-1] / _BRIGHTEST, rows[:, -1].astype(np.int64)), TESTED)


def data_set(spec: ArchitectureSpec, data: bytes, name: str) -> DataSet:
    """The examples for models of ``spec`` in a file called ``name`` (``tacit.learning.examples_file``), divided by the
    largest of their features; always the same split. Raises ``DecodeError``, and
    ``UsageError`` for an external model."""
    found = examples_in(spec, data, name)
    if len(found) < TESTED_SHARE:
        raise DecodeError(f"{name}: {len(found)} examples are too few to keep some for testing")
    largest = float(np.abs(found.features).max()) or 1.0
    return _split(Examples(found.features / largest, found.labels), len(found) // TESTED_SHARE)


def _split(examples: Examples, tested: int) -> DataSet:
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(examples))
    features, labels = examples.features[order], examples.labels[order]
    return DataSet(Examples(features[tested:], labels[tested:]), Examples(features[:tested], labels[:tested]))


def population(devices: int, seed: int, data: DataSet | None = None) -> Population:
    """``devices`` devices with examples of ``data`` (default: the digits) each, the same for the same seed."""
    data = data or digits()
    random, train = np.random.default_rng(seed), data.train
    counts = np.unique(train.labels, return_counts=True)[1]
    shares = random.dirichlet(np.full(len(counts), CONCENTRATION), size=devices)
    drawn = random.random((devices, EXAMPLES, 1)) > shares.cumsum(axis=1)[:, np.newaxis, :]
    kinds = np.minimum(drawn.sum(axis=2), len(counts) - 1)
    order = np.argsort(train.labels, kind="stable")
    first = np.concatenate(([0], counts.cumsum()[:-1]))
    chosen = order[first[kinds] + (random.random(kinds.shape) * counts[kinds]).astype(np.int64)]
    return Population(train, chosen, data.test)
