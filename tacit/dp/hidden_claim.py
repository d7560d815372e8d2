"""What reports and samples give a claim: who sends, and what their reports are worth (design rules P16, P17, P20).

The theorem is that of ``hidden_count``. Where every device takes part at one rate, the number of messages says nothing
about answers, so P17b stands beside it; what dummies add there is that nobody sees who took part.
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
"""epsilon of so many reports at a delta, without sampling."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Who sends, in batches of at least ``batch`` messages: ``default_rate`` for devices with the default answer (None:
    one ``rate`` for all), and ``intensity`` expected dummies among ``population`` devices. Where answers decide who
    sends, a batch that does not fill tells too, and only ``attested`` devices are counted on, of which a census has
    found so many at least."""

    batch: int
    rate: float
    default_rate: float | None = None
    intensity: float = 0.0
    population: int | None = None
    attested: int = 1

    @property
    def is_hidden(self) -> bool:
        """Whether what hides a device is more, or less, than a sample at one rate."""
        return self.default_rate is not None or self.population is not None

    def __post_init__(self) -> None:
        parameters.reports(self.batch, "batch")
        parameters.reports(self.attested, "attested")
        if parameters.finite("intensity", self.intensity) < 0:
            raise ValueError("intensity must not be negative")
        if self.intensity and (self.population is None or self.intensity >= self.population):
            raise ValueError("intensity must be below the population")

    def sending_rates(self, reports: Reports) -> SendingRates:
        """How a device of this sample may behave. ``ValueError`` names a bad parameter."""
        dummy = self.intensity / self.population if self.population else 0.0
        least = self.rate if self.default_rate is None else self.default_rate
        return SendingRates(self.rate, least, dummy, reports.reject_probability)

    def devices(self, sends: float, n: int, delta: float) -> int:
        """N where n messages are honest and batches fill: what the batch itself shows (below it, a batch comes together
        with probability below delta) and, for importance sampling, what is attested, less the share that is not
        honest."""
        shown = least_devices(min(n, self.batch), sends, delta)
        return shown if self.default_rate is None else max(shown, self.honest(n))

    def honest(self, n: int) -> int:
        """How many of the attested devices are counted on where n of a batch's messages are honest."""
        return max(1, self.attested * min(n, self.batch) // self.batch)

    def crowd(self, reports: Reports, n: int, delta: float) -> Crowd:
        """Everybody else where n messages are honest; for importance sampling also where batches do not fill."""
        rates = self.sending_rates(reports)
        devices = self.devices(rates.sends, n, delta) if self.default_rate is None else self.honest(n)
        return Crowd(rates, devices, min(n, self.batch))

    def reports_among(self, n: int, delta: float) -> int:
        """How many of n messages are no dummies, except with probability delta / 10 (P20). At B/2 half of the
        dummies are dishonest too. ``ValueError`` if none are."""
        if not self.intensity:
            return n
        dummies = upper_quantile(self.intensity * min(1.0, n / self.batch), delta / SPLIT)
        if dummies >= n:
            raise ValueError(f"{dummies} of {n} messages may be dummies, and no report is left")
        return n - dummies

    def kept(self, delta: float) -> float:
        """What the dummies' own tail leaves of delta."""
        return delta * (1 - 1 / SPLIT) if self.intensity else delta


def mechanism_name(reports: Reports, sample: Sample) -> str:
    """The mechanism as recipes state it."""
    importance = "" if sample.default_rate is None else IMPORTANCE_SUFFIX
    return reports.mechanism + importance + (DUMMIES_SUFFIX if sample.intensity else "")


def count_cost(reports: Reports, sample: Sample, *, n: int, delta: float) -> float:
    """What the number of messages adds, before sampling, against one aggregator: at most 10, or infinite where nothing
    hides a device's message. ``ValueError`` where no claim can be computed."""
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    return sample.crowd(reports, n, kept).count_epsilon(lambda share: reports.aggregate_epsilon(left, share), kept)


def dummies_cost(reports: Reports, sample: Sample, *, n: int, delta: float) -> float:
    """epsilon at ``delta`` of whether a device sent anything, against somebody who knows which others took part and
    sees only the number of messages of a batch that fills: what the dummies alone are good for. Infinite where that is
    nothing."""
    rates = sample.sending_rates(reports)
    return dummies_epsilon(rates, sample.devices(rates.sends, n, delta), delta)


def unfilled_cost(reports: Reports, sample: Sample, *, n: int, delta: float) -> float:
    """epsilon at ``delta`` of the number of messages alone, in a batch that need not fill; 0 where one rate holds for
    everybody. ``ValueError`` where no claim can be computed."""
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    return sample.crowd(reports, n, kept).unfilled_epsilon(lambda share: reports.aggregate_epsilon(left, share), kept)


def sufficient_intensity(sample: Sample, epsilon: float, delta: float) -> float | None:
    """The fewest expected dummies, rounded up by at most 1e-4 of it, with which ``dummies_cost`` at B is at most
    ``epsilon``; the sample's own are not looked at. None where half of its population would not be enough."""
    rate, population = sample.rate, sample.population or sample.batch

    def devices(dummy: float) -> int:
        return sample.devices(rate + (1 - rate) * dummy, sample.batch, delta)

    return smallest_intensity(rate, population, devices, epsilon, delta)


def largest_intensity(batch: int, delta: float) -> float:
    """The most expected dummies of which a batch holds at most half, except with probability delta / 10 (P20); 0 where
    that is not possible; rounded down by at most 1e-5 of the batch."""
    found = largest_where(lambda mean: upper_quantile(mean, delta / SPLIT) <= batch // 2, 1e-3, batch / 2, batch * 1e-5)
    return found or 0.0


def crowd_epsilon(bound: Bound, reports: Reports, sample: Sample, n: int, delta: float) -> float:
    """epsilon at ``delta`` against somebody who does not know who sent, where ``bound`` is what so many of the
    ``reports`` tell. ``ValueError`` names a bad parameter."""
    left, kept = sample.reports_among(n, delta), sample.kept(delta)
    crowd = sample.crowd(reports, n, kept)
    hidden = crowd.epsilon(lambda share: bound(left, share), kept)
    alone = bound(left, kept)
    if sample.default_rate is not None or alone > parameters.MAX_EPSILON0:
        return hidden
    sends = crowd.rates.sends
    mixed = amplify(alone, crowd.rates.takes / sends)
    visible = amplify_visible(mixed, sends, n, kept)
    return min(hidden, mixed if visible is None else visible)
