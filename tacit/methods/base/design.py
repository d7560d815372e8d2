"""The sample design: the probabilities with which a device sends a report of its answer or a dummy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleDesign:
    """``rate`` is the probability of taking part; that of devices with the encoded answer ``default`` is
    ``default_rate`` (importance sampling). A device that does not take part sends a dummy with ``dummy_probability``.
    """

    rate: float
    default: int | None = None
    default_rate: float | None = None
    dummy_probability: float = 0.0

    def __post_init__(self) -> None:
        rates = [self.rate] if self.default_rate is None else [self.rate, self.default_rate]
        if not all(0 < rate <= 1 for rate in rates):
            raise ValueError("q must be above 0 and at most 1")
        if not 0 <= self.dummy_probability < 1:
            raise ValueError("the probability of a dummy must be at least 0 and below 1")
        if (self.default is None) != (self.default_rate is None):
            raise ValueError("a default answer and its rate must be given together")

    @property
    def is_uniform(self) -> bool:
        """Whether every device takes part with the same probability."""
        return self.default_rate is None

    def rate_of(self, answer: object) -> float:
        """The probability of taking part with this encoded answer; None (no answer) has the rate of the default."""
        held = self.default_rate is not None and answer in (None, self.default)
        return self.default_rate if self.default_rate is not None and held else self.rate

    def sends(self, takes_part: float) -> float:
        """The probability that a device sends anything, including a dummy, if it takes part with probability
        ``takes_part``."""
        return takes_part + (1 - takes_part) * self.dummy_probability

    def dummy_share(self, takes_part: float) -> float:
        """The expected share of dummies among the reports of devices that each take part with probability
        ``takes_part``."""
        return 1 - takes_part / self.sends(takes_part)
