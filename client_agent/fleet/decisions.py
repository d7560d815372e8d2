"""The decisions of many devices at once: datum, coin, journal line. A device that sends nothing ends here.

The coin is the agent's (``client_agent.coin.coin_threshold``): 128 bits of the operating system's randomness for each
device, compared with the same threshold, only that a machine word at a time is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from client_agent.coin import COIN_BITS, coin, coin_threshold
from client_agent.fleet.population import Categories, Population
from tacit.ports import Entropy
from tacit.randomizers.types import Measurement, Randomizer
from tacit.recipe.model import Sampling

CHUNK = 1 << 16
"""Devices that are decided together: 1 MiB of coins."""


@dataclass(frozen=True)
class Decided:
    """One chunk: numbers of the sampled devices, their categories, and numbers of the devices that send dummies."""

    first: int
    count: int
    sampled: NDArray[np.uint32]
    categories: Categories
    dummies: NDArray[np.uint32]


def coins(rate: Decimal | Fraction, count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """``count`` coins, each True with probability ``rate`` rounded down to a multiple of 2^-128."""
    return _below(rate, _numbers(count, entropy))


def participation(sampling: Sampling, answers: NDArray[np.integer], entropy: Entropy) -> NDArray[np.bool_]:
    """One coin per device, at the rate of its encoded answer."""
    drawn = _numbers(len(answers), entropy)
    takes_part = _below(Decimal(sampling.rate), drawn)
    if sampling.importance is not None:
        held = answers == sampling.importance.default
        takes_part[held] = _below(Decimal(sampling.importance.default_rate), drawn[held])
    return takes_part


def _numbers(count: int, entropy: Entropy) -> NDArray[np.uint64]:
    """A uniform 128-bit number per row: its two halves."""
    return np.frombuffer(entropy(COIN_BITS // 8 * count), dtype=">u8").reshape(count, 2)


def _below(rate: Decimal | Fraction, drawn: NDArray[np.uint64]) -> NDArray[np.bool_]:
    high, low = divmod(coin_threshold(rate), 1 << 64)
    if high >> 64:
        return np.ones(len(drawn), dtype=np.bool_)
    said_yes: NDArray[np.bool_] = (drawn[:, 0] < high) | ((drawn[:, 0] == high) & (drawn[:, 1] < low))
    return said_yes


def decide(
    sampling: Sampling,
    population: Population,
    first: int,
    devices: int,
    entropy: Entropy,
    generator: np.random.Generator,
) -> Iterator[Decided]:
    """Datum and coins of the devices from ``first``, chunk by chunk."""
    for begin in range(first, first + devices, CHUNK):
        count = min(CHUNK, first + devices - begin)
        categories = population.of(begin, count, generator)
        takes_part = participation(sampling, categories, entropy)
        chosen, dummies = np.flatnonzero(takes_part), np.flatnonzero(~takes_part)
        dummies = dummies[coins(sampling.dummy_rate, len(dummies), entropy) if sampling.dummies else slice(0)]
        sampled, filling = ((places + begin).astype(np.uint32) for places in (chosen, dummies))
        yield Decided(begin, count, sampled, categories[chosen], filling)


@dataclass(frozen=True)
class Randomised:
    """One sampled device's answer as it goes into the report: what the VDAF takes, and the cells that are one."""

    device: int
    measurement: Measurement
    ones: tuple[int, ...]


def with_dummies(
    decided: Decided,
    answers: list[Randomised],
    beyond: list[int],
    randomizer: Randomizer,
    rate: Fraction,
    entropy: Entropy,
) -> tuple[list[Randomised], list[int]]:
    """What ``randomise`` gave, with the dummies: of devices that do not take part, and, for each with probability
    ``rate``, of those ``beyond`` the weight bound. In the order of the devices, as if there were no difference."""
    filling = {device for device in beyond if rate and coin(rate, entropy)}
    drawn = [(device, randomizer.dummy(entropy)) for device in (*decided.dummies.tolist(), *filling)]
    dummies = [Randomised(device, sent, ones_of(sent, randomizer.cells)) for device, sent in drawn]
    silent = [device for device in beyond if device not in filling]
    return sorted([*answers, *dummies], key=lambda one: one.device), silent


def randomise(decided: Decided, randomizer: Randomizer, entropy: Entropy) -> tuple[list[Randomised], list[int]]:
    """The randomised answers of the sampled devices, and the devices whose output lay beyond the weight bound (P18:
    they do not send it)."""
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
