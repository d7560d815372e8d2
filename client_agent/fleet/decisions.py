"""The decisions of many devices at once: datum, coin, journal line. A device that is not sampled ends here.

The coin is the agent's (``client_agent.coin.coin_threshold``): 128 bits of the operating system's randomness for each
device, compared with the same threshold, only that a machine word at a time is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from client_agent.coin import COIN_BITS, coin_threshold
from client_agent.fleet.population import Categories, Population
from tacit.ports import Entropy
from tacit.randomizers.types import Measurement, Randomizer

CHUNK = 1 << 16
"""Devices that are decided together: 1 MiB of coins."""


@dataclass(frozen=True)
class Decided:
    """One chunk: numbers of the sampled devices, and their categories."""

    first: int
    count: int
    sampled: NDArray[np.uint32]
    categories: Categories


def coins(rate: Decimal, count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """``count`` coins, each True with probability ``rate`` rounded down to a multiple of 2^-128."""
    high, low = divmod(coin_threshold(rate), 1 << 64)
    drawn = np.frombuffer(entropy(COIN_BITS // 8 * count), dtype=">u8").reshape(count, 2)
    if high >> 64:
        return np.ones(count, dtype=np.bool_)
    said_yes: NDArray[np.bool_] = (drawn[:, 0] < high) | ((drawn[:, 0] == high) & (drawn[:, 1] < low))
    return said_yes


def decide(
    rate: Decimal, population: Population, first: int, devices: int, entropy: Entropy, generator: np.random.Generator
) -> Iterator[Decided]:
    """Datum and coin of the devices from ``first``, chunk by chunk."""
    for begin in range(first, first + devices, CHUNK):
        count = min(CHUNK, first + devices - begin)
        categories = population.of(begin, count, generator)
        chosen = np.flatnonzero(coins(rate, count, entropy))
        yield Decided(begin, count, (chosen + begin).astype(np.uint32), categories[chosen])


@dataclass(frozen=True)
class Randomised:
    """One sampled device's answer as it goes into the report: what the VDAF takes, and the cells that are one."""

    device: int
    measurement: Measurement
    ones: tuple[int, ...]


def randomise(decided: Decided, randomizer: Randomizer, entropy: Entropy) -> tuple[list[Randomised], list[int]]:
    """The randomised answers of the sampled devices, and the devices whose output lay beyond the weight bound (P18:
    they send nothing)."""
    answers: list[Randomised] = []
    beyond: list[int] = []
    for device, category in zip(decided.sampled.tolist(), decided.categories.tolist(), strict=True):
        measurement = randomizer.randomise(category, entropy)
        if measurement is None:
            beyond.append(device)
        else:
            answers.append(Randomised(device, measurement, ones_of(measurement, randomizer.cells)))
    return answers, beyond


def ones_of(measurement: Measurement, cells: int) -> tuple[int, ...]:
    """The cells of the aggregate that a measurement adds one to; ``cells`` is 1 for a single bit."""
    if isinstance(measurement, int):
        if cells == 1:
            return (0,) if measurement else ()
        return (measurement,)
    return tuple(cell for cell, bit in enumerate(measurement) if bit)
