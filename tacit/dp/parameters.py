"""Range checks shared by the accountant. Each error names the parameter that was refused."""

from __future__ import annotations

import math

MIN_EPSILON0 = 1e-6
MAX_EPSILON0 = 40.0
"""Largest epsilon0: above it a local guarantee is meaningless, and the samplers' thresholds lose precision."""
MAX_N = 10**9
MIN_DELTA = 1e-15


class ParameterError(ValueError):
    """A parameter has a value that it cannot have. ``name``: the parameter; ``reason``: what it must be."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason


def finite(name: str, value: float) -> float:
    """Return ``value`` as a float; ``ValueError`` naming it when it is NaN or infinite."""
    number = float(value)
    if not math.isfinite(number):
        raise ParameterError(name, "must be a finite number")
    return number


def epsilon(name: str, value: float) -> float:
    """Return ``value`` if it is finite and at least 0; raises ``ValueError`` otherwise."""
    number = finite(name, value)
    if number < 0:
        raise ParameterError(name, "must not be negative")
    return number


def local_epsilon(value: float) -> float:
    """Return ``epsilon0`` if it is from 1e-6 to 40; raises ``ValueError`` otherwise."""
    number = finite("epsilon0", value)
    if not MIN_EPSILON0 <= number <= MAX_EPSILON0:
        raise ParameterError("epsilon0", f"must be from {MIN_EPSILON0:g} to {MAX_EPSILON0:g}")
    return number


def failure_probability(value: float, name: str = "delta") -> float:
    """A delta in [1e-15, 1). Below that, the rounding of tail masses in double precision would dominate the value."""
    number = finite(name, value)
    if not MIN_DELTA <= number < 1:
        raise ParameterError(name, f"must be at least {MIN_DELTA:g} and below 1")
    return number


def reports(value: int, name: str = "n") -> int:
    """Return a number of reports if it is from 1 to 1e9; ``TypeError`` for no integer, ``ValueError`` out of range."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer")
    if not 1 <= value <= MAX_N:
        raise ParameterError(name, f"must be from 1 to {MAX_N}")
    return value


def rate(value: float, name: str = "sampling_rate") -> float:
    """Return ``value`` if it lies in (0, 1]; raises ``ValueError`` otherwise."""
    number = finite(name, value)
    if not 0 < number <= 1:
        raise ParameterError(name, "must be above 0 and at most 1")
    return number


def probability(value: float, name: str) -> float:
    """Return a probability strictly between 0 and 1; raises ``ValueError`` for any other value."""
    number = finite(name, value)
    if not 0 < number < 1:
        raise ParameterError(name, "must be above 0 and below 1")
    return number
