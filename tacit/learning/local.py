"""What one device computes in a round: its update from its own examples, and the vector that it sends of it.

An update is clipped as a whole, before it is encoded: divided by the round's clip, and shrunk to the room that the
recipe's norm leaves, so that its direction stays. Servers multiply the mean of what they receive by the clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DecodeError
from tacit.learning.architectures import Architecture, Reals, architecture_of
from tacit.learning.projection import Projected
from tacit.recipe.quantity import exact
from tacit.recipe.training import ArchitectureSpec, Training

MAX_NUMBERS: Final = 1 << 24
"""Most numbers of all examples of a device: 128 MiB."""
_CELLS: Final = 1 << 20
"""Most numbers of an intermediate result: a gradient takes about six of them, of 8 MiB each."""


@dataclass(frozen=True, slots=True, repr=False)
class Examples:
    """Features ``(examples, inputs)`` and the class of each example, from 0."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def examples_of(spec: ArchitectureSpec, numbers: Sequence[float]) -> Examples:
    """The examples in a flat list: for each its ``inputs`` features and its class. Raises ``DecodeError`` for no
    example, for another number of numbers, for one that is not finite, and for a class that does not exist; the
    message tells none of them. Raises ``UsageError`` as ``architecture_of``."""
    model = architecture_of(spec)
    width = model.inputs + 1
    if not 0 < len(numbers) <= MAX_NUMBERS or len(numbers) % width:
        raise DecodeError(f"examples: there must be a multiple of {width} numbers, at most {MAX_NUMBERS}")
    try:
        rows = np.asarray(numbers, dtype=np.float64).reshape(-1, width)
    except (TypeError, ValueError, OverflowError) as error:
        raise DecodeError("examples: something is not a number") from error
    labels = rows[:, -1]
    if not np.isfinite(rows).all():
        raise DecodeError("examples: a number is not finite")
    if not ((labels >= 0) & (labels < model.classes) & (labels == np.floor(labels))).all():
        raise DecodeError(f"examples: a class is not a whole number below {model.classes}")
    return Examples(rows[:, :-1], labels.astype(np.int64))


def local_update(
    training: Training,
    parameters: Reals,
    examples: Examples,
    random: np.random.Generator,
    is_over: Callable[[], bool] = lambda: False,
) -> NDArray[np.float64]:
    """Trained minus given parameters after the local steps, before clipping. ``random`` only chooses the batches. An
    update that is not finite (a learning rate too high) raises ``ValueError``. ``is_over`` is asked again and again
    whether to give up, which raises ``TimeoutError``."""
    model = architecture_of(training.architecture)
    start = parameters.astype(np.float64)
    trained, rate = start, float(exact(training.learning_rate))
    with np.errstate(over="ignore", invalid="ignore"):
        for chosen in _batches(training, len(examples), random):
            batch = Examples(examples.features[chosen], examples.labels[chosen])
            trained = trained - rate * _gradient(model, trained, batch, is_over)
        update: NDArray[np.float64] = trained - start
        if not np.isfinite(update).all():
            raise ValueError("the update is not finite")
    return update


def room(norm: float, weight: float = 0.0) -> float:
    """The length that the recipe's norm leaves to an update beside a quantile entry of ``weight``."""
    return math.sqrt(max(0.0, norm * norm - weight * weight))


def room_for_units(length: int, radius: int) -> float:
    """The norm, so much shortened that rounding to whole units rarely makes a vector longer than it: its square grows
    by 1/12 unit^2 for each entry, give or take 0.58 units. ``radius``: the norm in units."""
    return math.sqrt(max(0.5, 1 - length / (12 * radius * radius) - 2 / radius))


def sent_vector(
    training: Training, update: Reals, clip: float, norm: float, projected: Projected | None = None
) -> NDArray[np.float64]:
    """What a device encodes, ``training.length`` numbers of Euclidean length at most ``norm``: the update divided by
    ``clip``, projected where the training says so, and shrunk to its room; then, where the training has a quantile, its
    weight, negative where the update had to be shrunk. ``projected``: the round's (``projection_of``)."""
    found: NDArray[np.float64] = sent_vectors(training, update[np.newaxis], clip, norm, projected)[0]
    return found


def sent_vectors(
    training: Training, updates: Reals, clip: float, norm: float, projected: Projected | None = None
) -> NDArray[np.float64]:
    """The same for many devices, a row each. Raises ``ValueError`` for the projection of another training, and where an
    update is so long beside the clip that its length is not a finite number."""
    weight = 0.0 if training.quantile is None else float(exact(training.quantile.weight))
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = updates.astype(np.float64) / clip
        if projected is not None:
            scaled = projected.project(scaled)
        lengths, most = np.linalg.norm(scaled, axis=1, keepdims=True), room(norm, weight)
    if scaled.shape[1] != training.sent:
        raise ValueError("the training and the projection do not belong together")
    if not np.isfinite(lengths).all():
        raise ValueError("the update is too long")
    is_long = lengths > most
    scaled *= np.divide(most, lengths, out=np.ones_like(lengths), where=is_long)
    if training.quantile is None:
        return scaled
    return np.hstack((scaled, np.where(is_long, -weight, weight)))


def _gradient(model: Architecture, parameters: Reals, batch: Examples, is_over: Callable[[], bool]) -> Reals:
    """The mean gradient of the batch, summed over slices of bounded size."""
    most, total = max(1, _CELLS // model.width), np.zeros(parameters.shape)
    for at in range(0, len(batch), most):
        if is_over():
            raise TimeoutError("the training did not end in time")
        labels = batch.labels[at : at + most]
        found = model.gradient(parameters, batch.features[at : at + most], labels)
        total += found * (len(labels) / len(batch))
    return total


def _batches(training: Training, count: int, random: np.random.Generator) -> Iterator[NDArray[np.int64] | slice]:
    """The examples of each step: all, or the next ones of an order that is drawn anew when too few are left."""
    size = training.batch_size
    if size is None or size >= count:
        yield from (slice(None) for _ in range(training.steps))
        return
    order, at = random.permutation(count), 0
    for _ in range(training.steps):
        if at + size > count:
            order, at = random.permutation(count), 0
        yield order[at : at + size]
        at += size
