"""The decisions of many devices at once: datum and coin. A device that sends nothing ends here.

The coin is the agent's (``client_agent.coin.coin_threshold``): 128 bits of the operating system's randomness for each
device are compared with the same threshold, but one machine word at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from client_agent.coin import COIN_BITS, coin, coin_threshold
from client_agent.panprivate.recipes import watched_side
from infra.lab.devices.additions import NUMBER, Numbers, messages_of
from infra.lab.devices.events import Opened, kept
from infra.lab.devices.noise_shares import randomise_all
from infra.lab.devices.population import Data, Population
from tacit.methods.base.method import Answer, Measurement, Method
from tacit.methods.flips import Flips
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.methods.shuffled import ShuffledCounts
from tacit.models.interfaces.watched import RandomisedCells
from tacit.ports import Entropy
from tacit.recipe.model import Recipe
from tacit.recipe.randomised import Sampling

CHUNK = 1 << 16
"""Numbers (of data or of measurements) that are decided together; if each device has one, they take 1 MiB of coins."""


@dataclass(frozen=True)
class Decided:
    """One chunk of ``count`` devices from ``first``: which are sampled, their encoded answers, and which send dummies.
    On request also the encoded answers of ``everybody``, and their ``numbers`` if the data are numbers."""

    first: int
    count: int
    sampled: NDArray[np.uint32]
    answers: Sequence[Answer | None] = field(repr=False)
    dummies: NDArray[np.uint32]
    everybody: Sequence[Answer | None] = field(default=(), repr=False)
    numbers: Data | None = field(default=None, repr=False)


def coins(rate: Decimal | Fraction, count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Toss ``count`` coins, each True with probability ``rate`` rounded down to a multiple of 2^-128."""
    return _below(rate, _numbers(count, entropy))


def participation(sampling: Sampling, answers: Data | Sequence[Answer | None], entropy: Entropy) -> NDArray[np.bool_]:
    """Toss one coin per row. With importance sampling its rate is that of the row's encoded answer; a row without an
    answer has the rate of the default."""
    drawn = _numbers(len(answers), entropy)
    takes_part = _below(Decimal(sampling.rate), drawn)
    if sampling.importance is not None:
        usual = (None, sampling.importance.default)
        held = np.fromiter((answer in usual for answer in answers), np.bool_, len(answers))
        takes_part[held] = _below(Decimal(sampling.importance.default_rate), drawn[held])
    return takes_part


def _numbers(count: int, entropy: Entropy) -> NDArray[np.uint64]:
    """Draw a uniform 128-bit number per row, as two halves."""
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
    cells: int = 1,
    *,
    everybody: bool = False,
    chosen: NDArray[np.bool_] | None = None,
) -> Iterator[Decided]:
    """Draw data and coins of ``devices`` devices from ``first``, chunk by chunk. A device's measurement will take
    ``cells`` numbers; with ``everybody`` chunks also hold the answers of devices that are not sampled. ``chosen``:
    which of the devices take part, where a draw for a whole series said it."""
    chunk = max(1, CHUNK // max(population.width, cells))
    for begin in range(first, first + devices, chunk):
        data = population.of(begin, min(chunk, first + devices - begin), generator)
        known = population.answers(data) if everybody or sampling.importance is not None else []
        if chosen is None:
            takes_part = participation(sampling, data if sampling.importance is None else known, entropy)
        else:
            takes_part = chosen[begin - first : begin - first + len(data)]
        asked, dummies = np.flatnonzero(takes_part), np.flatnonzero(~takes_part)
        dummies = dummies[coins(sampling.dummy_rate, len(dummies), entropy) if sampling.dummies else slice(0)]
        sampled, filling = ((places + begin).astype(np.uint32) for places in (asked, dummies))
        answers = [known[place] for place in asked.tolist()] if known else population.answers(data[asked])
        whole = (known, population.numbers(data)) if everybody else ((), None)
        yield Decided(begin, len(data), sampled, answers, filling, *whole)


@dataclass(frozen=True)
class Randomised:
    """One sampled device's randomised answer, as the VDAF takes it. ``cells``: the ciphertexts of a device that watched
    an event; ``measurement`` is then the numbers in them, or empty if these are not known."""

    device: int
    measurement: Measurement | Numbers = field(repr=False)
    cells: RandomisedCells = field(default=(), repr=False)


def with_dummies(
    decided: Decided,
    answers: list[Randomised],
    beyond: list[int],
    randomizer: Method,
    rate: Fraction,
    entropy: Entropy,
) -> tuple[list[Randomised], list[int]]:
    """Add dummies to the result of ``randomise``: of devices that do not take part and, each with probability ``rate``,
    of those ``beyond`` the weight bound. Returns everything to send in the order of the devices, so that dummies are
    not told apart, and the devices that stay silent."""
    filling = {device for device in beyond if rate and coin(rate, entropy)}
    senders, randomiser = (*decided.dummies.tolist(), *filling), device_randomiser_of(randomizer)
    dummies = [Randomised(device, _kept(randomizer, randomiser.dummy(entropy))) for device in senders]
    silent = [device for device in beyond if device not in filling]
    return sorted([*answers, *dummies], key=lambda one: one.device), silent


def randomise(decided: Decided, randomizer: Method, entropy: Entropy) -> tuple[list[Randomised], list[int]]:
    """Return the randomised answers of the sampled devices, and the devices whose output lies beyond the weight bound
    (P18: they do not send it)."""
    devices = decided.sampled.tolist()
    if isinstance(randomizer, Flips):
        return [*map(Randomised, devices, noisy(randomizer, decided.answers, entropy))], []
    answers: list[Randomised] = []
    beyond: list[int] = []
    randomiser = device_randomiser_of(randomizer)
    for device, answer in zip(devices, decided.answers, strict=True):
        measurement = randomiser.missing(entropy) if answer is None else randomiser.randomise(answer, entropy)
        if measurement is None:
            beyond.append(device)
        else:
            answers.append(Randomised(device, _kept(randomizer, measurement)))
    return answers, beyond


def watched(decided: Decided, recipe: Recipe, opened: Opened, entropy: Entropy) -> list[Randomised]:
    """Return the randomised cells of the sampled devices, made from the state that each kept over its stream of
    events."""
    side, answers = watched_side(recipe), []
    stored = side.stored(recipe)
    for device, stream in zip(decided.sampled.tolist(), decided.answers, strict=True):
        if isinstance(stream, tuple):
            cells = side.randomised(recipe, kept(stored, stream, entropy), entropy)
            answers.append(Randomised(device, opened.numbers(cells), cells))
    return answers


def _kept(randomizer: Method, measurement: Measurement) -> Measurement | Numbers:
    """Return a measurement in the form in which it is kept in memory."""
    if isinstance(randomizer, Flips) and isinstance(measurement, list):
        return array(NUMBER, measurement)
    if isinstance(randomizer, ShuffledCounts) and isinstance(measurement, list):
        return messages_of(measurement)
    return measurement


def kept_cells(randomizer: Method) -> int:
    """Return how many numbers a kept measurement has; a category or a few ones count as one."""
    if isinstance(randomizer, ShuffledCounts):
        return randomizer.messages
    return randomizer.cells if isinstance(randomizer, Flips) else 1


def noisy(shares: Flips, answers: Sequence[Answer | None], entropy: Entropy) -> list[int] | list[Numbers]:
    """Return the measurements of devices that add noise shares, in the order of ``answers``."""
    rows = randomise_all(shares, answers, entropy)
    if shares.kind.is_scalar:
        scalars: list[int] = rows[:, 0].tolist()
        return scalars
    return [array(NUMBER, row.tobytes()) for row in rows]
