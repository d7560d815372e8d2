"""The ways to find the frequent ones among more texts than can be listed, compared before a recipe exists.

A device answers the local ways once, with all of epsilon. Prefix rounds over secure aggregation are computed for noise
shares: the first round is a histogram of the shortest prefixes, and each further one is about the extensions of the
prefixes that stood out; every device answers every round with an equal part of epsilon and delta. The rounds that
``tacit series`` runs are others: a device answers one of them, with all of epsilon and noise of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from statistics import NormalDist
from typing import Any

from tacit.accounting.alternatives import aggregated
from tacit.accounting.requirements import Requirements
from tacit.errors import FieldError
from tacit.methods.design import SampleDesign
from tacit.methods.method import Method
from tacit.methods.registry import methods_for
from tacit.methods.statistics import Shape
from tacit.models.local.task import packing_of
from tacit.recipe.survey import Survey
from tacit.succinct.engines import engine_of
from tacit.succinct.tree import FALSE_POSITIVE_RATE

EPSILONS = (Decimal(1), Decimal(2), Decimal(4), Decimal(8))
"""Local epsilons that are compared beside the one that is asked for."""
ROUND_BITS, KEPT_BITS = 10, 4
"""A round has up to 2^10 prefixes, extensions of the 2^4 best ones of the round before."""
NOBODY, TWO_SERVERS = "nobody", "two servers apart"
LOCAL, PREFIXES = "local", "secure-aggregation"


@dataclass(frozen=True)
class SearchedWay:
    """One way. ``trust``: whom a device has to trust for ``epsilon``; ``stderr``: the standard error of a rare text's
    estimate, and ``listed_from``: the estimate from which on a text is listed if one that nobody has is with
    probability 0.05 at most (``paper``: its own bound), both in devices, None where there is ``refusal``;
    ``payload_bytes``: of one message, without token and seals; ``messages``: of all devices; ``rounds``: how often
    devices are asked, one after the other. ``available``: a recipe can ask so."""

    model: str
    way: str
    trust: str
    epsilon: float
    messages: int
    rounds: int
    stderr: float | None = None
    listed_from: float | None = None
    payload_bytes: int | None = None
    refusal: str | None = None
    available: bool = True

    def document(self) -> dict[str, Any]:
        """The members of this way, as JSON documents state them."""
        return asdict(self)


def searched_ways(survey: Survey) -> list[SearchedWay]:
    """Every way to answer a survey's question about frequent texts: each local method at several epsilons, and prefix
    rounds at the survey's; the most accurate first, and last what is impossible. Raises ``FieldError``."""
    for name in ("population", "encoder"):
        if getattr(survey, name) is None:
            raise FieldError(name, "is needed to compare ways to ask")
    shape, population = survey.shape, survey.given("population")
    epsilons = sorted({*EPSILONS, survey.epsilon})
    found = [_local(method, shape, epsilon, population) for method in methods_for(shape) for epsilon in epsilons]
    delta = float(survey.delta)
    found += [_rounds(shape, float(epsilon), delta, population) for epsilon in {Decimal(1), survey.epsilon}]
    return sorted(found, key=lambda one: (math.inf if one.stderr is None else one.stderr, one.epsilon))


def _local(method: type[Method], shape: Shape, epsilon: Decimal, population: int) -> SearchedWay:
    rate = min(1.0, method.MOST_PLANNED / population)
    messages = round(rate * population)
    way = SearchedWay(LOCAL, method.ENGINE or method.NAME, NOBODY, float(epsilon), messages, 1)
    try:
        made = method.tuned(shape, epsilon, 1, 1e-6).planned_for(messages)
    except ValueError as error:
        return replace(way, refusal=str(error), available=False)
    engine = engine_of(made)
    if engine is None:
        return replace(way, refusal=f"{made.NAME} searches nothing", available=False)
    least, stderr = engine.expected(messages, SampleDesign(rate))
    return replace(way, stderr=stderr, listed_from=least, payload_bytes=packing_of(made).size)


def _rounds(shape: Shape, epsilon: float, delta: float, population: int) -> SearchedWay:
    """Prefix rounds with the most accurate noise shares of each round's histogram."""
    first = min(shape.item_bits, ROUND_BITS)
    rounds = 1 + -(-(shape.item_bits - first) // (ROUND_BITS - KEPT_BITS))
    way = SearchedWay(PREFIXES, "prefix rounds", TWO_SERVERS, epsilon, rounds * population, rounds, available=False)
    cells = 1 << first
    needs = Requirements(population, cells, epsilon / rounds, delta / rounds, allow_unbounded_local=True)
    best = min(aggregated(needs), key=lambda one: one.stderr, default=None)
    if best is None:
        return replace(way, refusal=f"no noise share keeps epsilon {epsilon / rounds:.2g} in a round")
    least = NormalDist().inv_cdf(1 - FALSE_POSITIVE_RATE / cells) * best.stderr
    return replace(way, stderr=best.stderr, listed_from=least, payload_bytes=best.upload_bytes)


def refusals(ways: list[SearchedWay]) -> Iterator[str]:
    """Why ways are impossible, one line for each way and reason."""
    yield from dict.fromkeys(f"{one.way} at epsilon {one.epsilon:g}: {one.refusal}" for one in ways if one.refusal)
