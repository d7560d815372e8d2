"""When the contributions of a fleet arrive: open-loop point processes. A slow server does not slow them down.

Each gives the sorted arrival times (seconds from the beginning) of ``count`` contributions at a mean rate per second:

* ``steady``: a Poisson process.
* ``burst``: a Poisson cluster process: clusters at rate / (mean size), each with a geometric number of arrivals
  (mean ``BURST_SIZE``) within ``BURST_SECONDS``.
* ``diurnal``: a Poisson process whose intensity goes through one day, rate (1 - ``SWING`` cos(2 pi t / T)) with
  T = count / rate: night at both ends, noon in the middle.
* ``churn``: steady arrivals; devices that vanish or come back are added as faults (``infra.lab.devices.faults``).

Without a rate everything is due at once, and only the senders' window limits it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from infra.lab.devices.profile import Profile
from tacit.errors import UsageError

Seconds = NDArray[np.float64]
BURST_SIZE = 50.0
BURST_SECONDS = 0.2
SWING = 0.8
_GRID = 4097


def arrivals(profile: Profile, count: int, rate: float | None, generator: np.random.Generator) -> Seconds:
    """Draw ``count`` arrival times at ``rate`` per second. Raises ``UsageError`` for a rate that is not above 0."""
    if rate is None or count == 0:
        return np.zeros(count)
    if not 0 < rate < float("inf"):
        raise UsageError("--rate must be above 0")
    if profile is Profile.BURST:
        return _bursts(count, rate, generator)
    unit = np.cumsum(generator.standard_exponential(count))
    return _warped(unit, count, rate) if profile is Profile.DIURNAL else unit / rate


def _bursts(count: int, rate: float, generator: np.random.Generator) -> Seconds:
    sizes = generator.geometric(1 / BURST_SIZE, size=count)
    clusters = int(np.searchsorted(np.cumsum(sizes), count)) + 1
    starts = np.cumsum(generator.standard_exponential(clusters)) * (BURST_SIZE / rate)
    times = np.repeat(starts, sizes[:clusters])[:count] + generator.random(count) * BURST_SECONDS
    return np.sort(times)


def _warped(unit: Seconds, count: int, rate: float) -> Seconds:
    """Map arrivals of a unit-rate Poisson process through the inverse of the cumulative intensity."""
    period = count / rate
    grid = np.linspace(0.0, period, _GRID)
    cumulative = rate * (grid - SWING * period / (2 * np.pi) * np.sin(2 * np.pi * grid / period))
    days, rest = np.divmod(unit, count)
    warped: Seconds = days * period + np.interp(rest, cumulative, grid)
    return warped
