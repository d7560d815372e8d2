"""Accuracy against epsilon on handwritten digits: this system beside central DP-SGD and training without privacy.

All three have the same devices, coins, rounds, local training and server optimiser. Central DP-SGD trusts its server:
its epsilon is that of adding or removing a device, where nobody sees how many take part. This system's is claim (a) of
a series: by replacement, which moves a sum twice as far, with sizes of batches seen, and for the fewest reports that a
batch may have; so it needs about 2.7 times the noise.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.lab.learning.population import CLASSES, INPUTS, TESTED, population
from infra.lab.learning.rounds import Central, Flips, Setting, trained
from tacit.dp.repeated.rounds import epsilon_sampled_gaussian
from tacit.dp.repeated.shares import share_for_rounds
from tacit.dp.reports import NoiseStep
from tacit.dp.vector_noise import VectorStep
from tacit.recipe.training import Training

DELTA: Final = 1e-5
DEVICES: Final = 10_000
LEAST_SHARE: Final = 0.8
"""A batch's minimum size, as a share of the reports that are expected."""
EPSILONS: Final = (1.0, 2.0, 4.0)
_HUNDREDTHS: Final = (30, 10_000)
NONE, CENTRAL, OURS, POISONED = "no privacy", "central DP-SGD", "noise shares", "noise shares, 1 % poison"
POISONERS: Final = 0.01
"""The share of devices that send the opposite of what the others do, as long as the norm allows."""

SETTING: Final = Setting(
    training=Training.model_validate(
        {
            "architecture": {"kind": "softmax", "inputs": INPUTS, "classes": CLASSES},
            "steps": 1,
            "learning_rate": 1,
        }
    ),
    clip=1.0,
    radius=100,
    largest=40,
    rate=0.05,
    rounds=30,
    server_rate=1.0,
    momentum=0.7,
)


@dataclass(frozen=True, slots=True)
class Line:
    """A sort of training at one epsilon (None: without privacy): accuracies of the last round on the test set, one for
    each seed, and the noise of a round's sum in norms."""

    kind: str
    epsilon: float | None
    noise: float
    accuracies: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def accuracy(self) -> float:
        """The median of the accuracies."""
        return statistics.median(self.accuracies)

    def members(self) -> dict[str, Any]:
        """The line as a JSON object."""
        return {
            "kind": self.kind,
            "private": self.epsilon is not None,
            "epsilon": self.epsilon,
            "noise_per_norm": round(self.noise, 4),
            "accuracy": round(self.accuracy, 4),
            "accuracies": [round(one, 4) for one in self.accuracies],
            "loss": round(statistics.median(self.losses), 4),
        }


def central_noise(epsilon: float, setting: Setting = SETTING, delta: float = DELTA) -> Central:
    """The least Gaussian noise, in hundredths of the norm, with which all rounds are (epsilon, delta)-private."""

    def holds(hundredths: int) -> bool:
        return epsilon_sampled_gaussian(hundredths / 100, setting.rate, setting.rounds, delta) <= epsilon

    tried = range(*_HUNDREDTHS)
    return Central(tried[bisect_left(tried, x=True, key=holds)] / 100)


def own_noise(epsilon: float, devices: int, setting: Setting = SETTING, delta: float = DELTA) -> Flips:
    """The noise share with which claim (a) of the series is epsilon at delta. ``ValueError`` where there is none."""
    step = VectorStep.replaced(setting.training.length, 2 * setting.largest, setting.radius, one_signed=False)
    least = int(LEAST_SHARE * setting.rate * devices)
    share = share_for_rounds(NoiseStep(1, 1, vector=step), least, setting.rounds, epsilon, delta, setting.rate)
    return Flips(share)


def measured(
    devices: int, epsilons: Sequence[float], seeds: int, tell: Callable[[float], None] = lambda _: None
) -> Iterator[Line]:
    """Train with every sort of noise, ``seeds`` times each, with a population of its own each time. ``tell`` is given
    the share done."""
    people = [population(devices, seed) for seed in range(seeds)]
    count = 1 + 3 * len(epsilons)
    made = 0

    def line(kind: str, epsilon: float | None, noise: Flips | Central | None, poisoners: float = 0.0) -> Line:
        nonlocal made
        ends = []
        for seed, one in enumerate(people):
            ends.append(trained(one, SETTING, noise, seed, poisoners=poisoners)[-1])
            made += 1
            tell(made / (count * seeds))
        accuracies, losses = zip(*((end.accuracy, end.loss) for end in ends), strict=True)
        return Line(kind, epsilon, _size(noise, devices), accuracies, losses)

    yield line(NONE, None, None)
    for epsilon in epsilons:
        own = own_noise(epsilon, devices)
        yield line(CENTRAL, epsilon, central_noise(epsilon))
        yield line(OURS, epsilon, own)
        yield line(POISONED, epsilon, own, POISONERS)


def _size(noise: Flips | Central | None, devices: int) -> float:
    """The standard deviation of a round's sum in each entry, in norms, where as many take part as expected."""
    if noise is None:
        return 0.0
    return noise.size(SETTING, SETTING.rate * devices)


def document(lines: Sequence[Line], devices: int) -> dict[str, Any]:
    """What was measured, as a JSON object."""
    training = SETTING.training.canonical()
    plan = {"rate": SETTING.rate, "rounds": SETTING.rounds, "clip": SETTING.clip, "training": training}
    return {
        "devices": devices,
        "delta": DELTA,
        "plan": plan,
        "test_examples": TESTED,
        "lines": [line.members() for line in lines],
    }
