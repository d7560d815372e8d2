"""Watched events on the devices of a fleet: how often they happen in each step, and the state that a device keeps.

A datum is a row with one number per step. ``kept`` runs this stream through the product's own state updates, as an
agent does (``client_agent.panprivate.watch``): one for each event, one at the end of each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from infra.lab.devices.population import Data
from tacit.errors import UsageError
from tacit.methods.base.method import Answer
from tacit.models.interfaces.watched import RandomisedCells, Stored
from tacit.models.servers import server_side
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.two_servers import SharedCell, opened_share, sealed_shares
from tacit.ports import Entropy
from tacit.recipe.encoder import labels
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Question, Recipe
from tacit.task import Task
from tacit.vdaf.count_vec import Prio3CountVec

Stream: TypeAlias = Sequence[int]
"""How often the event happened in each step."""
DEFAULT_RATE = 0.02
MOST_A_STEP = 255
DATA_HELP = f"events[:RATE], the probability in each step (default {DEFAULT_RATE})"


@dataclass(frozen=True)
class _Events:
    """Data for a question about an event, with ``width`` steps per device."""

    label: str
    width: int
    is_mean: bool

    def answers(self, data: Data) -> list[Answer | None]:
        """The streams themselves, from which the devices' states are made later."""
        return [tuple(row) for row in data.tolist()]

    def numbers(self, data: Data) -> Data | None:
        """How often the event happened on each device if the question asks for the mean, else None."""
        return data.sum(axis=1, keepdims=True, dtype=np.float64) if self.is_mean else None


@dataclass(frozen=True)
class DrawnEvents(_Events):
    """In each step of each device the event happens once with probability ``rate``."""

    rate: float

    def of(self, _first: int, count: int, generator: np.random.Generator) -> Data:
        """Shape (count, steps), as uint8."""
        drawn: NDArray[np.uint8] = (generator.random((count, self.width)) < self.rate).astype(np.uint8)
        return drawn


@dataclass(frozen=True)
class ListedEvents(_Events):
    """Numbers of events, which happen at random steps; device i has number i modulo the length of the list."""

    times: tuple[int, ...] = field(repr=False)

    def of(self, first: int, count: int, generator: np.random.Generator) -> Data:
        """Shape (count, steps), as uint8."""
        rows = [self.times[device % len(self.times)] for device in range(first, first + count)]
        return generator.multinomial(rows, [1 / self.width] * self.width).astype(np.uint8)


def drawn_events(question: Question, spec: Occurrences, text: str | None) -> DrawnEvents:
    """Parse ``events`` or ``events:RATE``. Raises ``UsageError``."""
    kind, _, number = (text or "events").partition(":")
    try:
        rate = float(number) if number else DEFAULT_RATE
    except ValueError:
        rate = -1.0
    if kind != "events" or not 0 <= rate <= 1:
        raise UsageError(f"--data of watched events takes {DATA_HELP}")
    return DrawnEvents(f"events:{rate:g}", spec.steps, question.statistic == "mean", rate)


def listed_events(label: str, question: Question, spec: Occurrences, cells: Sequence[str]) -> ListedEvents:
    """Read one device per cell: how often the event happened on it. Raises ``UsageError``."""
    if not cells or not all(cell.strip().isascii() and cell.strip().isdigit() for cell in cells):
        raise UsageError(f"{label}: each row must say how often the event happened, a whole number of 0 or more")
    times = tuple(int(cell) if len(cell.strip()) <= len(str(MOST_A_STEP)) else MOST_A_STEP + 1 for cell in cells)
    if max(times) > MOST_A_STEP:
        raise UsageError(f"{label}: the event happened more than {MOST_A_STEP} times on a device")
    return ListedEvents(label, spec.steps, question.statistic == "mean", times)


def kept(stored: Stored, stream: Stream, entropy: Entropy) -> bytes:
    """Return the state of a device after all steps of ``stream``."""
    state = stored.initial(entropy)
    for times in stream:
        for event in (*(1,) * times, 0):
            state = stored.step(event, state, entropy)
    return state


def totals(question: Question, spec: Occurrences, streams: Sequence[Stream]) -> list[float]:
    """Return one total per label: the number of devices with an event, of devices by number of events, or of events.
    A device's events count up to the question's maximum."""
    times = [min(sum(stream), spec.most) for stream in streams]
    if question.statistic == "histogram":
        return [float(times.count(number)) for number in range(spec.most + 1)]
    return [float(sum(times) if question.statistic == "mean" else sum(one > 0 for one in times))]


class Opened:
    """Opens what devices send with the servers' own private state keys, so that the fleet knows what it has sent; only
    a local stack has them. Without keys nothing is known."""

    def __init__(self, recipe: Recipe, task: Task | None, keys: Sequence[PrivateKey]) -> None:
        """``keys``: the analyzer's, or the leader's and the helper's; ``task``: None with one server."""
        self._keys = tuple(keys)
        self._task = task
        self._reading = server_side(recipe.model).reading(recipe, self._keys[0]) if keys and task is None else None
        self._vdaf = Prio3CountVec(2, len(labels(recipe))) if task is not None else None

    def numbers(self, cells: RandomisedCells) -> list[int]:
        """Return the numbers of the randomised answer in ``cells``; empty without keys. Raises what opening raises."""
        shared = [cell for cell in cells if isinstance(cell, SharedCell)]
        if self._vdaf is not None and self._task is not None and self._keys:
            return self._recombined(self._vdaf, self._task.ctx, shared)
        if self._reading is None:
            return []
        payload = b"".join(cell.encode() for cell in cells if not isinstance(cell, SharedCell))
        return list(self._reading.read(b"", payload).numbers)

    def _recombined(self, vdaf: Prio3CountVec, ctx: bytes, cells: Sequence[SharedCell]) -> list[int]:
        verify_key, nonce = bytes(vdaf.VERIFY_KEY_SIZE), bytes(vdaf.NONCE_SIZE)
        shares = []
        for agg_id, (key, payload) in enumerate(zip(self._keys, sealed_shares(cells), strict=True)):
            share = vdaf.decode_input_share(agg_id, opened_share(key, agg_id, len(cells), payload))
            state, _ = vdaf.verify_init(verify_key, ctx, agg_id, None, nonce, None, share)
            shares.append(state.out_share)
        return vdaf.field.add_vec(*shares)
