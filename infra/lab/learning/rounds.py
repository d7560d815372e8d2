"""A training run in memory, with one of three sorts of noise.

* ``Flips``: what devices do. Each participant's vector is made whole units by the recipe's encoder and has the noise of
  coin flips added; their sum is the release. The flips of all participants together are drawn as one binomial.
* ``Central``: a server that everybody trusts adds Gaussian noise to the sum of the clipped vectors (DP-SGD of M. Abadi
  et al., Deep Learning with Differential Privacy, 2016, with a device in the place of an example).
* None: no noise and no clip by units; the best that this training can do.

Some devices may lie (``Liars``): they know the model, the sum of all others' contributions and examples of the test
set, and add what is worst for the model within what a proof lets through, noise included (``Flips.longest``). The
direction is that in which the loss of the next model, as the others alone would make it, grows fastest. Of seven tried
(also: against the others' mean, its signs, its first one in all rounds; back to the first model; towards one class) it
left the fewest digits right wherever the model was not lost to all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from infra.lab.learning.population import Population
from tacit.dp.binomial_noise import NoiseShare
from tacit.learning import model_file
from tacit.learning.architectures import Reals, architecture_of
from tacit.learning.clipping import Clip
from tacit.learning.local import Examples, room_for_units, sent_vectors
from tacit.learning.plan import Plan
from tacit.learning.projection import projection_of
from tacit.operations.learning.rounds import learn, optimiser_of
from tacit.recipe.encoder_specs import Update, Vector
from tacit.recipe.quantity import exact
from tacit.recipe.training import Training

_SLICE: Final = 256
"""Devices that train together."""


@dataclass(frozen=True, slots=True)
class Flips:
    """The noise share of every participant, in units. ``longest``: the length, in norms, of what one contribution that
    is accepted adds at most."""

    share: NoiseShare
    longest: float = 1.0

    def noisy(self, vectors: NDArray[np.float64], spec: Vector, random: np.random.Generator) -> NDArray[np.float64]:
        """The sum of the encoded vectors with everybody's flips, as a release has it, in norms."""
        total = encoded(vectors, spec).sum(axis=0) * self.share.scale
        flips = len(vectors) * self.share.flips
        noise = random.binomial(flips, 0.5, size=total.shape) - flips / 2
        released: NDArray[np.float64] = (total + noise) / (self.share.scale * spec.radius)
        return released

    def size(self, spec: Vector, reports: float) -> float:
        """The standard deviation in each entry of the sum of so many reports, in norms."""
        return math.sqrt(reports * self.share.flips) / (2 * self.share.scale * spec.radius)


@dataclass(frozen=True, slots=True)
class Central:
    """Gaussian noise of ``sigma`` norms on the sum."""

    sigma: float

    def noisy(self, vectors: NDArray[np.float64], _spec: Vector, random: np.random.Generator) -> NDArray[np.float64]:
        """The sum with its noise, in norms."""
        released: NDArray[np.float64] = vectors.sum(axis=0) + self.sigma * random.standard_normal(vectors.shape[1])
        return released

    def size(self, _spec: Vector, _reports: float) -> float:
        """The standard deviation in each entry of the sum, in norms."""
        return self.sigma


@dataclass(frozen=True, slots=True)
class Liars:
    """The share of devices that lie. ``always``: whatever their coins say, which nobody sees, they take part in every
    round; otherwise they toss them as everybody does."""

    share: float
    always: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """What a round gave: how many took part; loss (nats) and accuracy of its model on the test set."""

    contributions: int
    loss: float
    accuracy: float


def encoded(vectors: NDArray[np.float64], spec: Vector) -> NDArray[np.int64]:
    """The whole units that ``VectorEncoder`` makes of each row, around 0."""
    largest = int(spec.most // spec.step)
    entries = np.rint(np.clip(vectors / float(spec.step), -largest, largest)).astype(np.int64)
    squares = (entries * entries).sum(axis=1, keepdims=True)
    is_long = squares > spec.radius**2
    scaled = entries * entries * spec.radius**2 // np.maximum(squares, 1)
    sizes = np.sqrt(scaled.astype(np.float64)).astype(np.int64)
    sizes -= sizes * sizes > scaled
    sizes += (sizes + 1) * (sizes + 1) <= scaled
    found: NDArray[np.int64] = np.where(is_long, np.sign(entries) * sizes, entries)
    return found


def trained(
    people: Population, plan: Plan, noise: Flips | Central | None, seed: int, liars: Liars | None = None
) -> list[Round]:
    """Train for all rounds of the plan, whose steps take all examples; the same for the same seed. Who trusts no server
    sees how many took part, and divides by that; the others divide by how many are expected."""
    random, model = np.random.default_rng(seed), architecture_of(plan.training.architecture)
    parameters, optimiser, rate, clip = model.initial(seed), optimiser_of(plan), float(plan.rate), plan.clip
    found = list[Round]()
    for _ in range(plan.rounds):
        coins = random.random(len(people)) < rate
        if liars is not None and liars.always:
            coins[: round(liars.share * len(people))] = True
        takes_part = np.flatnonzero(coins)
        lying = 0 if liars is None else _lying(liars, len(people), takes_part)
        vectors = vectors_of(people, takes_part[lying:], parameters, plan.encoder, clip)
        total = vectors.sum(axis=0) if noise is None else noise.noisy(vectors, plan.encoder, random)
        count = len(takes_part) if isinstance(noise, Flips) else rate * len(people)
        if lying:
            longest = noise.longest if isinstance(noise, Flips) else 1.0
            total = total + lying * longest * worst_direction(people, plan, parameters, total / max(count, 1), clip)
        update, clip = learn(plan, total / max(count, 1), clip, _name_of(parameters))
        parameters = optimiser.step(parameters, update)
        found.append(tested(len(takes_part), parameters, people.test, plan.training))
    return found


def tested(contributions: int, parameters: Reals, test: Examples, training: Training) -> Round:
    """A round that so many took part in and that gave a model with these parameters."""
    model = architecture_of(training.architecture)
    loss = float(model.loss(parameters, test.features, test.labels))
    return Round(contributions, loss, model.accuracy(parameters, test.features, test.labels))


def _name_of(parameters: NDArray[np.float32]) -> str:
    return model_file.name_of(model_file.encode(parameters))


def vectors_of(
    people: Population,
    takes_part: NDArray[np.int64],
    parameters: NDArray[np.float32],
    spec: Update,
    clip: Clip,
) -> NDArray[np.float64]:
    """What each device that takes part encodes, of length 1 at most, a row each; ``clip``: the round's."""
    projected = projection_of(spec.training, _name_of(parameters))
    room = float(exact(spec.norm)) * room_for_units(spec.length, spec.radius)
    rows = [np.zeros((0, spec.length))]
    for at in range(0, len(takes_part), _SLICE):
        chosen = takes_part[at : at + _SLICE]
        updates = _updates(*people.examples(chosen), parameters, spec.training)
        rows.append(sent_vectors(spec.training, updates, float(exact(clip)), room, projected))
    return np.concatenate(rows)


def _updates(
    features: NDArray[np.float32], labels: NDArray[np.int64], parameters: NDArray[np.float32], training: Training
) -> Reals:
    """What each device's examples change in the model, a row each."""
    model, rate = architecture_of(training.architecture), np.float32(exact(training.learning_rate))
    start: Reals = np.broadcast_to(parameters, (len(labels), len(parameters)))
    at = start
    for _ in range(training.steps):
        at = at - rate * model.gradient(at, features, labels)
    return at - start


def _lying(liars: Liars, devices: int, takes_part: NDArray[np.int64]) -> int:
    """How many of those that take part, the first ones, lie: their share of them, or all that always do."""
    return round(liars.share * (devices if liars.always else len(takes_part)))


def worst_direction(
    people: Population, plan: Plan, parameters: NDArray[np.float32], mean: NDArray[np.float64], clip: Clip
) -> NDArray[np.float64]:
    """The direction, of length 1, in which the loss of the model that follows from the others' ``mean`` grows fastest,
    as a device would encode it."""
    training, name, test = plan.training, _name_of(parameters), people.test
    ahead = (parameters + learn(plan, mean, clip, name)[0]).astype(np.float32)[np.newaxis]
    features = test.features.astype(np.float32)[np.newaxis]
    gradient = architecture_of(training.architecture).gradient(ahead, features, test.labels[np.newaxis])
    rows = gradient.astype(np.float64)
    projected = projection_of(training, name)
    rows = rows if projected is None else projected.project(rows)
    found = np.zeros(plan.encoder.length)
    found[: training.sent] = rows[0] / max(float(np.linalg.norm(rows)), 1e-12)
    return found
