"""The privacy claim of a recipe: epsilon per adversary (design rules P16, P17, P17b).

Every party recomputes it from the recipe's parameters; a recipe that states less is refused. It is stated at n = B, and
policy also looks at floor(B/2): half the batch may belong to the adversary. Who the adversaries are, and how the bounds
of this package make the number of each, is the model's (``tacit.models.forms``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

from tacit.dp import parameters
from tacit.dp.amplification import epsilon_fmt22
from tacit.dp.binomial_noise import epsilon_noise
from tacit.dp.rr_exact import epsilon_one_cell, epsilon_two_cells, rappor_flip, rr_flip
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


@dataclass(frozen=True, slots=True)
class Claim(Mapping[str, float]):
    """epsilon ``by_adversary`` at failure probability ``delta``, by replacement, for batches of n reports; infinite
    where nothing is guaranteed. It is a mapping over the adversaries of the recipe's model."""

    by_adversary: Mapping[str, float]
    mechanism: str
    relation: str
    n: int
    epsilon0: float
    delta: float

    def __getitem__(self, adversary: str) -> float:
        """epsilon against ``adversary``."""
        return self.by_adversary[adversary]

    def __iter__(self) -> Iterator[str]:
        """The adversaries, in the order of documents."""
        return iter(self.by_adversary)

    def __len__(self) -> int:
        """How many adversaries there are."""
        return len(self.by_adversary)

    def stated(self) -> dict[str, float | str]:
        """As documents carry it: ``unbounded`` in place of infinity."""
        return {name: value if math.isfinite(value) else UNBOUNDED for name, value in self.items()}

    def rounded_up(self) -> dict[str, str]:
        """The same as decimal strings, rounded up to 6 places, or ``unbounded``: what a recipe states."""
        return {name: stated_epsilon(value) for name, value in self.items()}

    def changed(self, epsilon: Mapping[str, float], **others: Any) -> Claim:
        """This claim with other numbers for the adversaries in ``epsilon``, and ``others`` of its members."""
        return replace(self, by_adversary={**self.by_adversary, **epsilon}, **others)

    def no_worse_than(self, fewer: Claim) -> Claim:
        """This claim, lowered where ``fewer``, the claim for a smaller batch of the same recipe, is lower.

        True epsilon never grows with n (further reports are independent noise); a bound may, where the chance
        of a rejected report is paid for per report.
        """
        if fewer.n > self.n:
            raise ValueError("fewer must be the claim of a batch that is not larger")
        return self.changed({name: min(value, fewer[name]) for name, value in self.items()})

    def exceeds(self, stated: Mapping[str, str]) -> tuple[str, ...]:
        """The adversaries for which ``stated`` (decimal strings) is below this claim, by more than what two ways to
        compute it may differ, or missing."""
        return tuple(name for name, value in self.items() if not covers(stated.get(name, "-1"), value))


def covers(stated: str, computed: float) -> bool:
    """Whether a stated epsilon is not below a computed one, but for what two ways to compute it may differ."""
    return _number(stated) >= computed * (1 - TOLERANCE)


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
