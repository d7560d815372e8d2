"""What was run, apart from what it costs: mechanisms, sampling and repetition as frozen values.

An event holds no neighbouring relation. ``sensitivity`` bounds the norm of what one report contributes. A report that
appears, disappears or becomes one that contributes nothing moves the statistic by at most that; one that is replaced
by any other moves it by at most twice that (``Relation.contributions``).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tacit.dp import parameters

MAX_COUNT = 10**7


class Relation(enum.StrEnum):
    """The neighbouring relation: which two data sets must not be told apart."""

    ADD_REMOVE = "add-remove"
    """One report exists or does not."""
    REPLACEMENT = "replacement"
    """One device's value becomes another value."""
    DELETION = "deletion"
    """One device's value becomes a fixed reference, such as all zero."""

    @property
    def contributions(self) -> int:
        """How many times one report's largest contribution separates the statistics of two neighbouring data sets."""
        return 2 if self is Relation.REPLACEMENT else 1


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Normal noise of standard deviation ``sigma`` on a sum of contributions of L2 norm up to ``sensitivity``."""

    sigma: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        _above_zero("sigma", self.sigma)
        _above_zero("sensitivity", self.sensitivity)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Integers with probability proportional to ``e^(-x^2 / (2 sigma^2))``, on a sum of integers of size up to
    ``sensitivity``."""

    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        _above_zero("sigma", self.sigma)
        parameters.reports(self.sensitivity, "sensitivity")


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of scale ``scale`` on a sum of contributions of L1 norm up to ``sensitivity``."""

    scale: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        _above_zero("scale", self.scale)
        _above_zero("sensitivity", self.sensitivity)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Integers with probability proportional to ``e^(-|x| / scale)``, on a sum of integers of size up to
    ``sensitivity``."""

    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        _above_zero("scale", self.scale)
        parameters.reports(self.sensitivity, "sensitivity")


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """k-ary randomised response of one device's category, each response visible: ``epsilon0`` by replacement."""

    epsilon0: float
    categories: int = 2

    def __post_init__(self) -> None:
        parameters.local_epsilon(self.epsilon0)
        if parameters.reports(self.categories, "categories") < 2:
            raise ValueError("categories must be at least 2")


@dataclass(frozen=True, slots=True)
class Approximate:
    """A mechanism of which only an (epsilon, delta) is known, such as a shuffled batch (FMT22)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        parameters.epsilon("epsilon", self.epsilon)
        if not 0 <= parameters.finite("delta", self.delta) < 1:
            raise ValueError("delta must be at least 0 and below 1")


Mechanism = Gaussian | DiscreteGaussian | Laplace | DiscreteLaplace | RandomisedResponse | Approximate


@dataclass(frozen=True, slots=True)
class Sampled:
    """A mechanism run on a Poisson sample of rate ``rate`` whose size nobody sees (see P17b where it is seen)."""

    mechanism: Mechanism
    rate: float

    def __post_init__(self) -> None:
        parameters.rate(self.rate, "rate")


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same event ``count`` times, each with fresh randomness."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        if parameters.reports(self.count, "count") > MAX_COUNT:
            raise ValueError(f"count must be at most {MAX_COUNT}")


@dataclass(frozen=True, slots=True)
class Composed:
    """Several events on the same device."""

    events: tuple[Event, ...]


Event = Mechanism | Sampled | Repeated | Composed


def flatten(event: Event, times: int = 1) -> dict[Mechanism | Sampled, int]:
    """How often each basic step occurs in ``event``."""
    if isinstance(event, Repeated):
        return flatten(event.event, times * event.count)
    steps: dict[Mechanism | Sampled, int] = {}
    if isinstance(event, Composed):
        for part in event.events:
            for step, count in flatten(part, times).items():
                steps[step] = steps.get(step, 0) + count
        return steps
    return {event: times}


def _above_zero(name: str, value: float) -> None:
    if parameters.finite(name, value) <= 0:
        raise ValueError(f"{name} must be above 0")
