"""How reports and sampling make up a claim: who sends, and what the reports reveal (design rules P16, P17, P20).

The theorem is that of ``hidden_count``. Where every device takes part at one rate, the number of messages says nothing
about answers, so P17b applies as well; there, dummies additionally hide who took part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tacit.dp import parameters
from tacit.dp.hidden_count import Crowd, SendingRates, dummies_epsilon, least_devices, smallest_intensity
from tacit.dp.poisson import upper_quantile
from tacit.dp.reports import Reports
from tacit.dp.sampling import SPLIT, amplify, amplify_visible
from tacit.dp.solve import largest_where

IMPORTANCE_SUFFIX = "+importance"
DUMMIES_SUFFIX = "+dummies"
Bound = Callable[[int, float], float]
"""``bound(n, delta)``: epsilon of n reports at ``delta``, without sampling."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Who sends, in batches of at least ``batch`` messages. ``default_rate`` is the rate of devices with the default
    answer (None: one ``rate`` for all); ``intensity`` is the expected number of dummies among ``population`` devices.
    Where the answer decides who sends, a batch that does not fill also reveals something, and only ``attested`` devices
    are counted on: a census has found at least that many."""

    batch: int
    rate: float
    default_rate: float | None = None
    intensity: float = 0.0
    population: int | None = None
    attested: int = 1

    @property
    def is_hidden(self) -> bool:
        """Whether there are dummies or importance sampling, so that plain sampling at one rate does not describe the
        batch."""
        return self.default_rate is not None or self.population is not None

    def __post_init__(self) -> None:
        parameters.reports(self.batch, "batch")
        parameters.reports(self.attested, "attested")
        if parameters.finite("intensity", self.intensity) < 0:
            raise ValueError("intensity must not be negative")
        if self.intensity and (self.population is None or self.intensity >= self.population):
            raise ValueError("intensity must be below the population")

    def sending_rates(self, reports: Reports) -> SendingRates:
        """The sending probabilities of a device of this sample. ``ValueError`` names a bad parameter."""
        dummy = self.intensity / self.population if self.population else 0.0
        least = self.rate if self.default_rate is None else self.default_rate
        return SendingRates(self.rate, least, dummy, reports.reject_probability)

    def devices(self, sends: float, n: int, delta: float) -> int:
        """Return the number N of devices that may be assumed when n messages are honest and batches fill: what the
        batch itself shows (below N, a batch fills with probability below delta) and, for importance sampling, the
        attested devices less the share that is not honest."""
        shown = least_devices(min(n, self.batch), sends, delta)
        return shown if self.default_rate is None else max(shown, self.honest(n))

    def honest(self, n: int) -> int:
        """How many of the attested devices are counted on when n of a batch's messages are honest."""
        return max(1, self.attested * min(n, self.batch) // self.batch)

    def crowd(self, reports: Reports, n: int, delta: float) -> Crowd:
        """All other devices when n messages are honest; for importance sampling also where batches do not fill."""
        rates = self.sending_rates(reports)
        devices = self.devices(rates.sends, n, delta) if self.default_rate is None else self.honest(n)
        return Crowd(rates, devices, min(n, self.batch))

    def reports_among(self, n: int, delta: float) -> int:
        """How many of n messages are not dummies, except with probability delta / 10 (P20). At B/2 half of the dummies
        are assumed dishonest too. ``ValueError`` if no report is left."""
        if not self.intensity:
            return n
        dummies = upper_quantile(self.intensity * min(1.0, n / self.batch), delta / SPLIT)
        if dummies >= n:
            raise ValueError(f"{dummies} of {n} messages may be dummies, and no report is left")
        return n - dummies

    def kept(self, delta: float) -> float:
        """The part of delta that remains after the tail of the number of dummies."""
        return delta * (1 - 1 / SPLIT) if self.intensity else delta


def mechanism_name(reports: Reports, sample: Sample) -> str:
    """The mechanism's name as recipes state it."""
    importance = "" if sample.default_rate is None else IMPORTANCE_SUFFIX
    return reports.mechanism + importance + (DUMMIES_SUFFIX if sample.intensity else "")


def count_cost(reports: Reports, sample: Sample, *, n: int, delta: float) -> float:
    """What the number of messages adds, before sampling, against one aggregator: at most 10, or infinite where nothing
    hides a device's message. ``ValueError`` where no claim can be computed."""
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    return sample.crowd(reports, n, kept).count_epsilon(lambda share: reports.aggregate_epsilon(left, share), kept)


def dummies_cost(reports: Reports, sample: Sample, *, n: int, delta: float) -> float:
    """epsilon at ``delta`` for whether a device sent anything, against an observer who knows which others took part and
    sees only the number of messages of a batch that fills: the protection that the dummies alone give. Infinite where
    they give none."""
    rates = sample.sending_rates(reports)
    return dummies_epsilon(rates, sample.devices(rates.sends, n, delta), delta)


def unfilled_cost(reports: Reports, sample: Sample, *, n: int, delta: float) -> float:
    """epsilon at ``delta`` of the number of messages alone, in a batch that need not fill; 0 where one rate holds for
    everybody. ``ValueError`` where no claim can be computed."""
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    return sample.crowd(reports, n, kept).unfilled_epsilon(lambda share: reports.aggregate_epsilon(left, share), kept)


def sufficient_intensity(sample: Sample, epsilon: float, delta: float) -> float | None:
    """Return the fewest expected dummies, rounded up by at most 1e-4 of it, with which ``dummies_cost`` at B is at most
    ``epsilon``; the sample's own ``intensity`` is ignored. None where half of its population would not be enough."""
    rate, population = sample.rate, sample.population or sample.batch

    def devices(dummy: float) -> int:
        return sample.devices(rate + (1 - rate) * dummy, sample.batch, delta)

    return smallest_intensity(rate, population, devices, epsilon, delta)


def largest_intensity(batch: int, delta: float) -> float:
    """Return the most expected dummies such that at most half of a batch are dummies, except with probability delta /
    10 (P20), rounded down by at most 1e-5 of the batch; 0 where there is no such number."""
    largest = largest_where(
        lambda mean: upper_quantile(mean, delta / SPLIT) <= batch // 2, 1e-3, batch / 2, batch * 1e-5
    )
    return largest or 0.0


def crowd_epsilon(bound: Bound, reports: Reports, sample: Sample, n: int, delta: float) -> float:
    """epsilon at ``delta`` against an observer who does not know who sent; ``bound`` is what a given number of the
    ``reports`` reveals. ``ValueError`` names a bad parameter."""
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    crowd = sample.crowd(reports, n, kept)
    hidden = crowd.epsilon(lambda share: bound(left, share), kept)
    alone = bound(left, kept)
    if sample.default_rate is not None or alone > parameters.MAX_EPSILON0:
        return hidden
    sends = crowd.rates.sends
    # a message is an answer with chance takes / sends: a sampling that no number of messages shows
    mixed = amplify(alone, crowd.rates.takes / sends)
    visible = amplify_visible(mixed, sends, n, kept)
    return min(hidden, mixed if visible is None else visible)
