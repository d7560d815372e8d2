"""The statistics that a question may ask for, each defined here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

StatisticName = Literal["histogram", "count", "sum", "mean", "vector-sum", "heavy-hitters"]
"""A statistic's name in a recipe."""

MAX_OCCURRENCES = 256
"""An event is counted up to this number: a device's state and its report have at least one ciphertext for each number.
"""


MAX_ITEM_BITS = 512
"""Most bits of an item of a large domain: a text of 64 bytes."""
MAX_SYMBOLS_OF_ITEM = 64
"""Most symbols of such an item."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic that a recipe may compute, and what follows from it.

    ``encoders``: the kinds of encoder that turn a device's value into its answer. ``is_scalar``: its result is one
    number. ``counts_devices``: values are 0 and 1. ``is_one_hot``: an answer is one of the cells. ``is_ratio``: the
    result is a total divided by the number of devices. ``bounds_spread``: a release gives only the mean of the values,
    and only a bound on their spread is known. ``bears_importance``: it can be estimated where the sampling rate depends
    on the answer. ``is_ranked``: the result lists the most frequent of more answers than anybody could name.
    """

    name: StatisticName
    encoders: tuple[str, ...]
    is_scalar: bool = False
    counts_devices: bool = False
    is_one_hot: bool = False
    is_ratio: bool = False
    bounds_spread: bool = False
    bears_importance: bool = False
    is_ranked: bool = False

    @property
    def is_vector(self) -> bool:
        """Whether a device's answer is a vector of numbers, each of which it may change."""
        return not (self.is_scalar or self.is_one_hot or self.is_ranked)

    def moved(self, cells: int) -> int:
        """How many of ``cells`` numbers change when one device's answer is replaced."""
        return cells if self.is_vector else min(cells, 2)


HISTOGRAM = Statistic(
    "histogram",
    ("buckets", "categories", "attributes", "prefixes", "number"),
    counts_devices=True,
    is_one_hot=True,
    bears_importance=True,
)
COUNT = Statistic("count", ("boolean",), is_scalar=True, counts_devices=True, bears_importance=True)
SUM = Statistic("sum", ("number",), is_scalar=True, bounds_spread=True, bears_importance=True)
MEAN = Statistic("mean", ("number",), is_scalar=True, is_ratio=True, bounds_spread=True)
VECTOR_SUM = Statistic("vector-sum", ("vector", "update"), bounds_spread=True)
HEAVY_HITTERS = Statistic("heavy-hitters", ("strings",), counts_devices=True, is_ranked=True)

STATISTICS: dict[StatisticName, Statistic] = {
    one.name: one for one in (HISTOGRAM, COUNT, SUM, MEAN, VECTOR_SUM, HEAVY_HITTERS)
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A question as a method sees it: the statistic, ``cells`` numbers in the result, and, for numeric values, their
    range from ``low`` to ``high`` in steps of ``unit``; ``norm`` bounds a vector's Euclidean length;
    ``item_bits``: bits of an item of a large domain."""

    statistic: Statistic
    cells: int
    low: int | Fraction = 0
    high: int | Fraction = 1
    unit: int | Fraction = 1
    norm: int | Fraction | None = None
    item_bits: int = 64

    @property
    def maximum(self) -> int:
        """The largest encoded value of a cell."""
        return int((self.high - self.low) // self.unit)

    @property
    def moved(self) -> int:
        """Cells that change when one device's answer is replaced."""
        return self.statistic.moved(self.cells)


def neutral_of(low: int | Fraction, unit: int | Fraction, maximum: int) -> int:
    """The encoded value with which a dummy answers: that of 0 where 0 is a possible value, else that of ``low``."""
    steps, rest = divmod(-low, unit)
    return int(steps) if rest == 0 and 0 <= steps <= maximum else 0


def check_zero_default(kind: Statistic, default: int, low: int | Fraction, unit: int | Fraction, maximum: int) -> None:
    """``ValueError`` unless numbers of this statistic can be estimated where devices with the encoded answer
    ``default`` have a rate of their own: it must be one of the values, and stand for 0 in a sum."""
    if not kind.bears_importance:
        raise ValueError(f"importance sampling is not possible for a {kind.name}")
    if not 0 <= default <= maximum:
        raise ValueError(f"the default answer must be from 0 to {maximum}")
    if kind is SUM and low + unit * default:
        raise ValueError(f"the default answer of a sum must stand for 0, not for {float(low + unit * default):g}")
