"""The ways to find the frequent ones among more texts than can be listed, compared before a recipe exists.

A device answers the local ways once, with all of epsilon, and so it does the rounds over secure aggregation: it takes
part in one round of the series at most. That series is made as ``tacit series new`` makes it
(``tacit.operations.design_rounds``), with each randomizer that hides a report by itself, and the one that finds the
most stands for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

from tacit.errors import DecodeError, FieldError, Refusal, UsageError
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import Method, plain
from tacit.methods.base.statistics import HEAVY_HITTERS, HISTOGRAM, Shape
from tacit.methods.packing import packing_of
from tacit.methods.planners.registry import planner_of
from tacit.methods.registry import methods_for, methods_of
from tacit.models.forms import form_of
from tacit.models.local.form import Local
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.operations.design_rounds import RoundsPlan, expected_levels, plan_of_rounds, rounds_series, rounds_survey
from tacit.recipe.derive import vdaf_of
from tacit.recipe.encoder_specs import Domain
from tacit.recipe.policy import Policy
from tacit.recipe.writing.survey import Survey
from tacit.succinct.engines import engine_of

EPSILONS = (Decimal(1), Decimal(2), Decimal(4), Decimal(8))
"""Local epsilons that are compared beside the one that is asked for."""
NOBODY, TWO_SERVERS = "nobody", "two servers apart"
LOCAL, PREFIXES = Local.name, SecureAggregation.name
ROUNDS = "prefix rounds"


@dataclass(frozen=True)
class SearchedWay:
    """One way. ``trust``: whom a device has to trust for ``epsilon``, which is that of ``asked`` or less: in rounds the
    claim for the whole series against one aggregator; ``randomizer`` and ``rate``: as its recipe states them;
    ``stderr``: the standard error of a rare text's estimate, and ``listed_from``: the estimate from which on a text is
    listed if one that nobody has is with probability 0.05 at most (``paper``: its own bound), both in devices, None
    where there is ``refusal``; ``payload_bytes``: of one message, without token and seals (in rounds, the leader's
    share); ``messages``: of all devices; ``rounds``: how often devices are asked, one after the other; ``series``: what
    those rounds are. ``available``: a recipe can ask so."""

    model: str
    way: str
    trust: str
    asked: Decimal
    epsilon: float
    messages: int
    rounds: int
    randomizer: str
    rate: float = 1.0
    stderr: float | None = None
    listed_from: float | None = None
    payload_bytes: int | None = None
    series: RoundsPlan | None = None
    refusal: str | None = None
    available: bool = True

    def document(self) -> dict[str, Any]:
        """The members of this way, as JSON documents state them."""
        return {**asdict(self), "asked": plain(self.asked)}

    def refused(self, words: str) -> SearchedWay:
        """This way with ``words`` as its ``refusal``, and no longer available."""
        return replace(self, refusal=words, available=False)


def searched_ways(survey: Survey, pause: int = 0, policy: Policy | None = None) -> list[SearchedWay]:
    """Every way to answer a survey's question about frequent texts: each local method at several epsilons, and prefix
    rounds, ``pause`` seconds apart, at the survey's and at 1; what finds the rarest texts first, and last what is
    impossible or ``policy`` refuses. Raises ``FieldError``."""
    for name in ("population", "encoder"):
        if getattr(survey, name) is None:
            raise FieldError(name, "is needed to compare ways to ask")
    shape, most = texts_shape(survey), _most(survey, policy)
    epsilons = sorted({min(one, most) for one in (*EPSILONS, survey.epsilon)})
    found = [_local(method, shape, one, survey, policy) for method in methods_for(shape) for one in epsilons]
    found += [_rounds(survey.having(epsilon=one), pause, policy) for one in sorted({Decimal(1), survey.epsilon})]
    return sorted(found, key=lambda one: (math.inf if one.listed_from is None else one.listed_from, one.epsilon))


def texts_shape(survey: Survey) -> Shape:
    """The texts that a survey asks about, as methods of large domains see them. Raises ``FieldError``."""
    if not isinstance(survey.encoder, Domain):
        raise FieldError("encoder", "must be `strings` or `prefixes`")
    return Shape(HEAVY_HITTERS, 0, item_bits=survey.encoder.bits)


def _most(survey: Survey, policy: Policy | None) -> Decimal:
    """The largest local epsilon that survey and policy allow."""
    caps = [survey.max_epsilon0, None if policy is None else Decimal(policy.max_epsilon_local)]
    return min((one for one in caps if one is not None), default=Decimal("Infinity"))


def _local(method: type[Method], shape: Shape, epsilon: Decimal, survey: Survey, policy: Policy | None) -> SearchedWay:
    population, planner = survey.given("population"), planner_of(method)
    rate = min(1.0, planner.MOST_PLANNED / population)
    messages = round(rate * population)
    way = SearchedWay(
        LOCAL, method.ENGINE or method.NAME, NOBODY, epsilon, float(epsilon), messages, 1, method.NAME, rate
    )
    if policy is not None and method.NAME not in policy.randomizers:
        return way.refused(f"the policy does not allow {method.NAME}")
    if policy is not None and messages < policy.min_batch_size:
        return way.refused(f"the policy wants batches of at least {policy.min_batch_size}")
    try:
        made = planner.planned_for(planner.tuned(shape, epsilon, 1, float(survey.delta)), messages)
    except ValueError as error:
        return way.refused(str(error))
    engine = engine_of(made)
    if engine is None:
        return way.refused(f"{made.NAME} searches nothing")
    least, stderr = engine.expected(messages, SampleDesign(rate))
    if least > population:
        return way.refused(f"a text would be listed from {least:,.0f} devices on, and there are {population:,}")
    return replace(way, stderr=stderr, listed_from=least, payload_bytes=packing_of(made).size)


def _rounds(survey: Survey, pause: int, policy: Policy | None) -> SearchedWay:
    """Rounds with the randomizer that finds the most."""
    form = form_of(PREFIXES)
    methods = [one for one in methods_of(HISTOGRAM) if form.answers_by(one) and one.IS_LOCAL]
    tried = [_rounds_by(method, survey, pause, policy) for method in methods]
    return min(tried, key=lambda one: math.inf if one.listed_from is None else one.listed_from)


def _rounds_by(method: type[Method], survey: Survey, pause: int, policy: Policy | None) -> SearchedWay:
    population, form = survey.given("population"), form_of(PREFIXES)
    way = SearchedWay(PREFIXES, ROUNDS, TWO_SERVERS, survey.epsilon, float(survey.epsilon), 0, 0, method.NAME)
    try:
        asked = rounds_survey(survey, method)
        series = rounds_series(asked, pause, policy)
    except (DecodeError, FieldError, Refusal, UsageError) as error:
        return way.refused(str(error))
    plan, levels = plan_of_rounds(series, asked), expected_levels(series, population)
    way = replace(
        way, epsilon=float(plan.epsilon[form.charged]), messages=sum(plan.contributions), rounds=series.rounds,
        series=plan,
    )  # fmt: skip
    least, last = population * max(one.share(one.least) for one in levels), levels[-1]
    if least > population:
        return way.refused(f"a text would be listed from {least:,.0f} devices on, and there are {population:,}")
    stderr = population * last.stderr(last.empty * last.reports)
    return replace(way, stderr=stderr, listed_from=least, payload_bytes=vdaf_of(series.probe).leader_share_size)


def refusals(ways: list[SearchedWay]) -> Iterator[str]:
    """Why ways are impossible: a line for each, at the largest epsilon at which it is."""
    last = {one.way: one for one in sorted(ways, key=lambda one: one.asked) if one.refusal}
    yield from (f"{one.way} at epsilon {plain(one.asked)} and less: {one.refusal}" for one in last.values())
