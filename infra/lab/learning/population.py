"""Devices with handwritten digits: a training set dealt out unevenly, and a set for testing that no device has.

The digits are ``digits.csv`` beside this module (``digits.md`` says where they come from). A device has digits of a few
kinds: the shares of its kinds are drawn from a symmetric Dirichlet distribution, and its examples, which other devices
may have too, at random among those of the kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.learning.local import Examples

DIGITS: Final = Path(__file__).with_name("digits.csv")
CLASSES: Final = 10
TESTED: Final = 397
"""Digits that are kept for testing."""
EXAMPLES: Final = 8
"""Examples of each device."""
CONCENTRATION: Final = 0.3
"""Of the Dirichlet distribution: about three kinds of digits a device."""
_BRIGHTEST = 16.0
_SPLIT_SEED = 1


@dataclass(frozen=True, slots=True, repr=False)
class Population:
    """Features ``(devices, examples, inputs)`` from 0 to 1 and labels ``(devices, examples)``; ``test``: examples that
    no device has."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    test: Examples

    def __len__(self) -> int:
        return len(self.labels)

    def text(self, number: int) -> str:
        """The examples of a device as its source gives them: for each its features and its class."""
        rows = np.column_stack((self.features[number], self.labels[number]))
        return ",".join(f"{entry:g}" for entry in rows.ravel().tolist())


@cache
def digits() -> tuple[Examples, Examples]:
    """The digits for training and for testing; always the same split."""
    rows = np.loadtxt(DIGITS, delimiter=",")
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(rows))
    examples = Examples(rows[order, :-1] / _BRIGHTEST, rows[order, -1].astype(np.int64))
    train = Examples(examples.features[TESTED:], examples.labels[TESTED:])
    return train, Examples(examples.features[:TESTED], examples.labels[:TESTED])


def population(devices: int, seed: int) -> Population:
    """``devices`` devices with examples each, the same for the same seed."""
    random, (train, test) = np.random.default_rng(seed), digits()
    shares = random.dirichlet(np.full(CLASSES, CONCENTRATION), size=devices)
    drawn = random.random((devices, EXAMPLES, 1)) > shares.cumsum(axis=1)[:, np.newaxis, :]
    kinds = np.minimum(drawn.sum(axis=2), CLASSES - 1)
    order = np.argsort(train.labels, kind="stable")
    counts = np.bincount(train.labels, minlength=CLASSES)
    first = np.concatenate(([0], counts.cumsum()[:-1]))
    chosen = order[first[kinds] + (random.random(kinds.shape) * counts[kinds]).astype(np.int64)]
    return Population(train.features[chosen].astype(np.float32), train.labels[chosen], test)
