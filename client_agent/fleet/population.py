"""What the devices of a fleet know: one category per device, drawn from a stated distribution or taken from a list.

The data are the simulator's, not anybody's: they are drawn by an ordinary generator. Coins and randomisers are not
(``client_agent.fleet.decisions``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UsageError

Categories: TypeAlias = NDArray[np.uint16]
MAX_CATEGORIES = 4096
DEFAULT_EXPONENT = 1.0


@dataclass(frozen=True)
class Population:
    """Either category probabilities, or one category per device (device i has member i modulo their number)."""

    label: str
    probabilities: tuple[float, ...] = ()
    listed: Categories | None = field(default=None, repr=False)

    def of(self, first: int, count: int, generator: np.random.Generator) -> Categories:
        """The categories of ``count`` devices from number ``first``."""
        if self.listed is not None:
            places = np.arange(first, first + count) % len(self.listed)
            return self.listed[places].astype(np.uint16)
        edges = np.cumsum(np.asarray(self.probabilities))
        drawn = np.searchsorted(edges / edges[-1], generator.random(count), side="right")
        return np.minimum(drawn, len(edges) - 1).astype(np.uint16)


def parse_population(text: str, categories: int) -> Population:
    """``text`` as a distribution over ``categories`` categories. Raises ``UsageError``."""
    if not 2 <= categories <= MAX_CATEGORIES:
        raise UsageError(f"a population has 2 to {MAX_CATEGORIES} categories, not {categories}")
    kind, _, rest = text.partition(":")
    if kind == "uniform" and not rest:
        return Population(text, (1 / categories,) * categories)
    if kind == "zipf":
        exponent = _number(rest) if rest else DEFAULT_EXPONENT
        weights = [(rank + 1) ** -exponent for rank in range(categories)]
    elif kind == "weights" and rest:
        weights = [_number(part) for part in rest.split(",")]
    else:
        raise UsageError("--data takes uniform, zipf[:EXPONENT] or weights:W,W,... (one weight per category)")
    total = math.fsum(weights)
    if len(weights) != categories or not 0 < total < math.inf:
        raise UsageError(f"--data: {categories} weights are needed, of which one at least is above 0")
    return Population(text, tuple(weight / total for weight in weights))


def listed_population(label: str, categories: list[int]) -> Population:
    """One device per member of ``categories``, over and over. Raises ``UsageError`` for an empty list."""
    if not categories:
        raise UsageError(f"{label}: holds no device")
    return Population(label, listed=np.asarray(categories, dtype=np.uint16))


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise UsageError(f"--data: {text[:20]!r} is not a number") from error
    if not 0 <= number < math.inf:
        raise UsageError("--data: numbers are finite and not below 0")
    return number
