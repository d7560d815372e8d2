"""What is estimated: numbers of the population with their errors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """Per cell: the unbiased estimate of the population's count and its standard error. ``typical`` is set where that
    standard error is the largest that any values could give (sums and means of a sample): an estimate of the error that
    ordinary values give."""

    values: tuple[float, ...]
    stderrs: tuple[float, ...]
    typical: tuple[float, ...] | None = None
