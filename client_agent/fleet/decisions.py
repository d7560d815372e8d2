"""The decisions of many devices at once: datum, coin, journal line. A device that is not sampled ends here.

The coin is the agent's (``client_agent.coin.coin_threshold``): 128 bits of the operating system's randomness for each
device, compared with the same threshold, only that a machine word at a time is compared.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from client_agent.coin import COIN_BITS, coin_threshold
from client_agent.fleet.additions import NUMBER, Numbers
from client_agent.fleet.noise_shares import randomise_all
from client_agent.fleet.population import Population
from tacit.ports import Entropy
from tacit.randomizers.flips import SCALAR, Flips
from tacit.randomizers.types import Answer, Measurement, Randomizer

CHUNK = 1 << 16
"""Numbers, of data or of measurements, that are decided together: where devices have one each, 1 MiB of coins."""


@dataclass(frozen=True)
class Decided:
    """One chunk: numbers of the sampled devices, and their encoded answers."""

    first: int
    count: int
    sampled: NDArray[np.uint32]
    answers: Sequence[Answer] = field(repr=False)


def coins(rate: Decimal, count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """``count`` coins, each True with probability ``rate`` rounded down to a multiple of 2^-128."""
    high, low = divmod(coin_threshold(rate), 1 << 64)
    drawn = np.frombuffer(entropy(COIN_BITS // 8 * count), dtype=">u8").reshape(count, 2)
    if high >> 64:
        return np.ones(count, dtype=np.bool_)
    said_yes: NDArray[np.bool_] = (drawn[:, 0] < high) | ((drawn[:, 0] == high) & (drawn[:, 1] < low))
    return said_yes


def decide(
    rate: Decimal,
    population: Population,
    first: int,
    devices: int,
    entropy: Entropy,
    generator: np.random.Generator,
    cells: int = 1,
) -> Iterator[Decided]:
    """Datum and coin of the devices from ``first``, chunk by chunk; ``cells`` numbers of each are to be kept."""
    chunk = max(1, CHUNK // max(population.width, cells))
    for begin in range(first, first + devices, chunk):
        count = min(chunk, first + devices - begin)
        data = population.of(begin, count, generator)
        chosen = np.flatnonzero(coins(rate, count, entropy))
        yield Decided(begin, count, (chosen + begin).astype(np.uint32), population.answers(data[chosen]))


@dataclass(frozen=True)
class Randomised:
    """One sampled device's answer as it goes into the report: what the VDAF takes."""

    device: int
    measurement: Measurement | Numbers = field(repr=False)


def randomise(decided: Decided, randomizer: Randomizer, entropy: Entropy) -> tuple[list[Randomised], list[int]]:
    """The randomised answers of the sampled devices, and the devices whose output lay beyond the weight bound (P18:
    they send nothing)."""
    devices = decided.sampled.tolist()
    if isinstance(randomizer, Flips):
        return [*map(Randomised, devices, noisy(randomizer, decided.answers, entropy))], []
    answers: list[Randomised] = []
    beyond: list[int] = []
    for device, answer in zip(devices, decided.answers, strict=True):
        measurement = randomizer.randomise(answer, entropy)
        if measurement is None:
            beyond.append(device)
        else:
            answers.append(Randomised(device, measurement))
    return answers, beyond


def kept_cells(randomizer: Randomizer) -> int:
    """Numbers in a measurement as it is kept: a category or a few ones count as one."""
    return randomizer.cells if isinstance(randomizer, Flips) else 1


def noisy(shares: Flips, answers: Sequence[Answer], entropy: Entropy) -> list[int] | list[Numbers]:
    """The measurements of devices that add noise shares."""
    rows = randomise_all(shares, answers, entropy)
    if shares.statistic in SCALAR:
        scalars: list[int] = rows[:, 0].tolist()
        return scalars
    return [array(NUMBER, row.tobytes()) for row in rows]
