"""The privacy claim of a recipe, per adversary (design rules P16, P17, P17b).

Every party recomputes it from the recipe's parameters; a recipe that states less is refused. It is stated at
n = B, and policy also looks at floor(B/2): half the batch may belong to the adversary.

| adversary                    | what still hides a device                     |
|------------------------------|-----------------------------------------------|
| aggregator (or the analyst)  | sampling, the exact aggregate                 |
| aggregator with the relay    | the aggregate; who took part is known         |
| both aggregators             | sampling, shuffling (FMT22); ``CONDITIONS``   |
| both aggregators, the relay  | local randomisation alone                     |

Noise shares have no local guarantee: whoever sees single reports sees values through one device's share, and both
rows of both aggregators are infinite, stated as ``unbounded``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal, localcontext

from tacit.dp import parameters
from tacit.dp.amplification import epsilon_fmt22
from tacit.dp.binomial_noise import epsilon_noise
from tacit.dp.rr_exact import epsilon_one_cell, epsilon_two_cells, rappor_flip, rr_flip
from tacit.dp.sampling import amplify_visible
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise

SHUFFLE_FMT22 = "shuffle-fmt22"
RR_EXACT = "rr-exact"
RAPPOR_EXACT = "rappor-exact"
FLIPS_EXACT = "flips-exact"
FLIPS_VECTOR = "flips-vector"
UNBOUNDED = "unbounded"
"""What is stated where nothing is guaranteed: an infinite epsilon."""
SAMPLING_SUFFIX = "+sampling"
RELATION = "replacement"
MECHANISM_OF = {"krr": SHUFFLE_FMT22, "rr": RR_EXACT, "rappor": RAPPOR_EXACT}

TOLERANCE = 1e-9
"""Relative slack of comparisons between a stated claim and a recomputed one."""

ADVERSARIES = (
    "aggregator",
    "aggregator_with_relay",
    "both_aggregators",
    "both_aggregators_with_relay",
)


CONDITIONS = {
    "both_aggregators": {"if": "at least n honest devices reported", "otherwise": "both_aggregators_with_relay"},
}
"""Claims that hold on a condition which nobody enforces (P16): on which, and whose number to go by without it. Both
aggregators together need not keep B; of fewer reports than n they may learn up to what they learn of one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """epsilon per adversary at failure probability ``delta``, by replacement, for batches of n reports; infinite where
    nothing is guaranteed."""

    aggregator: float
    aggregator_with_relay: float
    both_aggregators: float
    both_aggregators_with_relay: float
    mechanism: str
    relation: str
    n: int
    epsilon0: float
    delta: float

    def stated(self) -> dict[str, float | str]:
        """``by_adversary`` as documents carry it: ``unbounded`` in place of infinity."""
        return {name: value if math.isfinite(value) else UNBOUNDED for name, value in self.by_adversary().items()}

    def by_adversary(self) -> dict[str, float]:
        """epsilon by the adversary names of ``ADVERSARIES``."""
        return {name: float(getattr(self, name)) for name in ADVERSARIES}

    def rounded_up(self) -> dict[str, str]:
        """The same as decimal strings, rounded up to 6 places, or ``unbounded``: what a recipe states."""
        return {name: stated_epsilon(value) for name, value in self.by_adversary().items()}

    def no_worse_than(self, fewer: Claim) -> Claim:
        """This claim, lowered where ``fewer``, the claim for a smaller batch of the same recipe, is lower.

        True epsilon never grows with n (further reports are independent noise); a bound may, where the chance
        of a rejected report is paid for per report.
        """
        if fewer.n > self.n:
            raise ValueError("fewer must be the claim of a batch that is not larger")
        lower = {name: min(value, getattr(fewer, name)) for name, value in self.by_adversary().items()}
        return replace(self, **lower)

    def exceeds(self, stated: dict[str, str]) -> tuple[str, ...]:
        """The adversaries for which ``stated`` (decimal strings) is below this claim, by more than what two ways to
        compute it may differ, or missing."""
        own = self.by_adversary()
        return tuple(name for name, value in own.items() if _number(stated.get(name, "-1")) < value * (1 - TOLERANCE))


@dataclass(frozen=True, slots=True)
class Claims:
    """The claim at n = B and, for policy, at n = floor(B/2)."""

    at_batch: Claim
    at_half: Claim


def stated_epsilon(value: float) -> str:
    """``value`` rounded up to 6 places, or ``unbounded``."""
    return decimal_up(value) if math.isfinite(value) else UNBOUNDED


def _number(text: str) -> float:
    return math.inf if text == UNBOUNDED else float(Decimal(text))


def decimal_up(value: float, places: int = 6) -> str:
    """``value`` rounded up to ``places`` decimals, without trailing zeros or exponent."""
    number = parameters.epsilon("value", value)
    with localcontext() as context:
        context.prec = 60
        text = format(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def epsilon_shuffle(mechanism: str, epsilon0: float, n: int, delta: float, *, reject_probability: float = 0.0) -> float:
    """epsilon of n randomised reports without any credit for sampling, by replacement.

    ``mechanism`` is one of ``shuffle-fmt22``, ``rr-exact``, ``rappor-exact``. The general bound holds for
    each of them, so the smaller one is returned. ``reject_probability`` is that of a RAPPOR output above the
    weight bound. It does not depend on the value, so the output given that it is sent is still epsilon0-LDP
    and the general bound holds as it stands; the exact aggregate moves by the chance eta that any of n is rejected:
    ``(delta' + e^epsilon eta) / (1 - eta) <= delta``.
    """
    general = epsilon_fmt22(float(epsilon0), n, delta)
    if mechanism == SHUFFLE_FMT22:
        return general
    if mechanism == RR_EXACT:
        return min(general, epsilon_one_cell(rr_flip(epsilon0), n, delta))
    if mechanism != RAPPOR_EXACT:
        raise ValueError(f"mechanism {mechanism!r} is not known")
    if not 0 <= parameters.finite("reject_probability", reject_probability) < 1:
        raise ValueError("reject_probability must be at least 0 and below 1")
    eta = -math.expm1(n * math.log1p(-reject_probability))
    inner = delta * (1 - eta) - math.exp(general) * eta
    if inner < parameters.MIN_DELTA:
        return general
    return min(general, epsilon_two_cells(rappor_flip(epsilon0), n, inner))


def compute_claim(
    *,
    randomizer: str,
    epsilon0: float,
    n: int,
    sampling_rate: float,
    delta: float,
    reject_probability: float = 0.0,
) -> Claim:
    """The claim of a recipe whose batches hold n reports.

    ``randomizer`` is ``krr``, ``rr`` or ``rappor``. The sampling factor is claimed when it fits into
    ``delta`` (see ``tacit.dp.sampling``), and then the mechanism's name ends in ``+sampling``. ``ValueError`` names a
    parameter that is out of range.
    """
    if randomizer not in MECHANISM_OF:
        raise ValueError(f"randomizer {randomizer!r} is not known")
    parameters.local_epsilon(epsilon0)
    parameters.reports(n)
    parameters.rate(sampling_rate)
    parameters.failure_probability(delta)
    mechanism = MECHANISM_OF[randomizer]
    one = epsilon_shuffle(mechanism, epsilon0, n, delta, reject_probability=reject_probability)
    both = epsilon_shuffle(SHUFFLE_FMT22, epsilon0, n, delta)
    one_sampled = amplify_visible(one, sampling_rate, n, delta)
    both_sampled = amplify_visible(both, sampling_rate, n, delta)
    return Claim(
        aggregator=one if one_sampled is None else one_sampled,
        aggregator_with_relay=one,
        both_aggregators=both if both_sampled is None else both_sampled,
        both_aggregators_with_relay=float(epsilon0),
        mechanism=mechanism if one_sampled is None else mechanism + SAMPLING_SUFFIX,
        relation=RELATION,
        n=n,
        epsilon0=float(epsilon0),
        delta=float(delta),
    )


@dataclass(frozen=True, slots=True)
class NoiseStep:
    """What one device changes in a sum of noise shares when its value is replaced: ``cells`` (1 or 2, in opposite
    directions) by at most ``maximum``, or a vector as in ``vector``; all of it times ``scale``, under ``flips`` fair
    flips of every device in every cell. ``batch_flips``: those that each aggregator adds of its own; an adversary who
    is one of them still faces the other's."""

    scale: int
    flips: int
    maximum: int = 1
    cells: int = 1
    vector: VectorStep | None = None
    batch_flips: int = 0

    @property
    def mechanism(self) -> str:
        """The mechanism's name, without sampling."""
        return FLIPS_EXACT if self.vector is None else FLIPS_VECTOR

    def epsilon(self, devices: int, delta: float) -> float:
        """epsilon of the sum over ``devices`` honest shares; infinite where they are too few."""
        total = devices * self.flips + self.batch_flips
        if self.vector is not None:
            return epsilon_vector_noise(total, self.vector, self.scale, delta)
        return epsilon_noise(total, self.scale * self.maximum, delta, self.cells)


def compute_noise_claim(step: NoiseStep, *, n: int, sampling_rate: float, delta: float) -> Claim:
    """The claim of a recipe whose n devices add noise shares; whoever drops out or colludes is not among the n.

    ``ValueError`` names a parameter that is out of range, or says that the noise gives no finite epsilon.
    """
    parameters.reports(n)
    parameters.rate(sampling_rate)
    parameters.failure_probability(delta)
    one = step.epsilon(n, delta)
    if one > parameters.MAX_EPSILON0:
        raise ValueError(f"the noise of {n} devices gives no epsilon up to {parameters.MAX_EPSILON0:g}")
    sampled = amplify_visible(one, sampling_rate, n, delta)
    return Claim(
        aggregator=one if sampled is None else sampled,
        aggregator_with_relay=one,
        both_aggregators=math.inf,
        both_aggregators_with_relay=math.inf,
        mechanism=step.mechanism if sampled is None else step.mechanism + SAMPLING_SUFFIX,
        relation=RELATION,
        n=n,
        epsilon0=math.inf,
        delta=float(delta),
    )


def compute_claims(
    *,
    randomizer: str,
    epsilon0: float,
    n: int,
    sampling_rate: float,
    delta: float,
    reject_probability: float = 0.0,
) -> Claims:
    """The claim at n and at floor(n/2) (at least 1)."""
    full, half = (
        compute_claim(
            randomizer=randomizer,
            epsilon0=epsilon0,
            n=size,
            sampling_rate=sampling_rate,
            delta=delta,
            reject_probability=reject_probability,
        )
        for size in (parameters.reports(n), max(1, n // 2))
    )
    return Claims(at_batch=full, at_half=half)
