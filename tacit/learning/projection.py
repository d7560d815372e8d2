"""Sending fewer numbers than an update has: a random projection that everybody derives from the model's name.

``S H D / sqrt(r)``: ``D`` flips signs, ``H`` is the orthonormal Walsh-Hadamard transform of the update filled up with
zeros to the next power of two, ``S`` keeps ``entries`` of its numbers, and r is the share that is kept (N. Ailon and B.
Chazelle, The Fast Johnson-Lindenstrauss Transform, 2009). Its transpose estimates the update without bias from the
projection, with an error of expected squared length (1 / r - 1) times that of the update at most, and noise on the
projected numbers comes out with the same size on each entry. Lengths are kept in expectation; the clip holds after the
projection, so that no claim depends on it.

Signs and choice come from SHAKE128 of a label and the SHA-256 of the round's model file.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.codec import unb64url
from tacit.recipe.training import Training

_LABEL: Final = b"tacit projection v1"
_HASH_SIZE: Final = 32
_WORD_SIZE: Final = 8


class Projected:
    """The projection of rows of ``length`` numbers to rows of ``entries``, fewer than those, by a 32-byte ``seed``."""

    def __init__(self, length: int, entries: int, seed: bytes) -> None:
        self.length, self.entries = length, entries
        self._size = 1 << (length - 1).bit_length()
        stream = hashlib.shake_128(_LABEL + seed).digest(self._size // 8 + 1 + _WORD_SIZE * self._size)
        at = self._size // 8 + 1
        bits = np.unpackbits(np.frombuffer(stream, np.uint8, at), bitorder="little")[:length]
        self._signs = 1.0 - 2.0 * bits
        order = np.argsort(np.frombuffer(stream, "<u8", self._size, at), kind="stable")
        self._kept = np.sort(order[:entries])

    def project(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """``(rows, length)`` numbers to ``(rows, entries)``."""
        filled = np.zeros((len(rows), self._size))
        filled[:, : self.length] = rows * self._signs
        found: NDArray[np.float64] = _transform(filled).take(self._kept, axis=1) / math.sqrt(self.entries)
        return found

    def estimate(self, projected: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transpose: ``entries`` projected numbers to an unbiased estimate of the ``length`` before."""
        filled = np.zeros((1, self._size))
        filled[0, self._kept] = projected
        found: NDArray[np.float64] = _transform(filled)[0, : self.length] * self._signs / math.sqrt(self.entries)
        return found


def projection_of(training: Training, model: str) -> Projected | None:
    """The projection of the round whose model file has the name ``model`` (base64url of its SHA-256); None where whole
    updates are sent."""
    if training.projection is None:
        return None
    return Projected(training.parameters, training.projection.entries, unb64url(model, length=_HASH_SIZE))


def relative_error(training: Training) -> float:
    """The expected length of the projection's error beside that of the update (root of the mean square)."""
    if training.projection is None:
        return 0.0
    size = 1 << (training.parameters - 1).bit_length()
    return math.sqrt(size / training.projection.entries - 1)


def _transform(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Walsh-Hadamard transform of each row, without its scaling by the root of the length: only sums, in one order,
    so that every machine has the same bits."""
    count, size = rows.shape
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        rows = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        half *= 2
    return rows.reshape(count, size)
