"""Noise shares of many devices at once: a vectorised
``tacit.methods.randomisers.flips.FlipsRandomiser.randomise``.

Every number has its own coin flips from the operating system's randomness. They take as many bytes, in the same order,
as the device's own code draws, so that the same bytes give the same outputs (the tests compare them).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.methods.base.method import Answer
from tacit.methods.base.proof import NormProof
from tacit.methods.flips import Flips
from tacit.ports import Entropy

PIECE = 1 << 22
"""Bytes of randomness that are drawn and counted together."""


def randomise_all(shares: Flips, answers: Sequence[Answer | None], entropy: Entropy) -> NDArray[np.uint64]:
    """Return the measurements, a row per answer: ``shares.cells`` numbers, or, where the norm of the values alone is
    proved, as many values and then noises. Raises ``ValueError`` for an answer out of range."""
    values = encoded_rows(shares, answers)
    rows = max(1, PIECE // (_size(shares.flips) * shares.cells))
    noise = [
        flips_of(shares.flips, min(rows, len(answers) - at) * shares.cells, entropy)
        for at in range(0, len(answers), rows)
    ]
    drawn = (np.concatenate(noise) if noise else np.zeros(0, dtype=np.uint64)).reshape(values.shape)
    if shares.norm_proof is NormProof.VALUES:
        return np.hstack((values, drawn))
    noisy = values * np.uint64(shares.scale) + drawn
    bounds = shares.proof.vector
    if bounds is not None:
        # The entries are below 2^33 and the squares of a vector of them below 2^64 only as Python's numbers; rounding
        # as floating-point ones may be off by 2^-40 of it, so close ones are added up exactly.
        shifts = noisy.astype(np.float64) - bounds.centre
        for row in np.flatnonzero((shifts * shifts).sum(axis=1) > bounds.max_square * (1 - 1e-9)):
            if bounds.square(noisy[row].tolist()) > bounds.max_square:
                noisy[row] = bounds.centre
    return noisy


def encoded_rows(shares: Flips, answers: Sequence[Answer | None]) -> NDArray[np.uint64]:
    """Return the values before noise, a row per answer: one-hot for a histogram; a missing answer has a dummy's values.
    Raises ``ValueError``."""
    missing = [place for place, answer in enumerate(answers) if answer is None]
    if missing:
        blank = 0 if shares.cells == 1 or shares.kind.is_one_hot else (0,) * shares.cells
        values = encoded_rows(shares, [blank if answer is None else answer for answer in answers])
        values[missing] = shares.neutral
        return values
    is_category = shares.kind.is_one_hot
    columns, most = (1, shares.cells - 1) if is_category else (shares.cells, shares.maximum)
    given = np.asarray(answers, dtype=np.int64)
    if given.size != len(answers) * columns or (given.size and not 0 <= given.min() <= given.max() <= most):
        raise ValueError(f"an answer is {columns} numbers from 0 to {most}")
    rows = given.reshape(len(answers), columns)
    encoded: NDArray[np.uint64] = (rows == np.arange(shares.cells) if is_category else rows).astype(np.uint64)
    return encoded


def flips_of(flips: int, count: int, entropy: Entropy) -> NDArray[np.uint64]:
    """Return ``count`` draws of ``tacit.methods.base.draws.fair_flips``."""
    size = _size(flips)
    drawn = np.frombuffer(entropy(size * count), dtype=np.uint8).reshape(count, size)
    spare = size * 8 - flips
    heads: NDArray[np.uint64] = np.bitwise_count(drawn[:, 1:]).sum(axis=1, dtype=np.uint64)
    heads += np.bitwise_count(drawn[:, 0] & np.uint8(0xFF >> spare))
    return heads


def _size(flips: int) -> int:
    """Bytes that hold ``flips`` bits."""
    return (flips + 7) // 8
