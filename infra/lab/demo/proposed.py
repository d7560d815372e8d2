"""How many answers a population can show, and the buckets that a demo proposes for it.

Rule: if k answers are held by equally many devices, each of them is at least ``SHOWN`` times its margin (half of the
95 % interval). Where small counts are released as 0, behind a shuffler, each is also at least what a 0 may stand for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.estimators.shuffled import shuffled_estimator_of
from tacit.methods.figures import NORMAL_95
from tacit.methods.shuffled import ShuffledCounts
from tacit.recipe.quantity import exact
from tacit.recipe.writing.builder import MAX_EPSILON0, plan_of
from tacit.recipe.writing.privacy_target import PrivacyTarget
from tacit.recipe.writing.survey import Survey

SHOWN = 2
LEAST_ANSWERS, MOST_ANSWERS = 2, 16
CHANCE = 0.05
"""That a count so large is released as 0."""

Edges = Sequence[int | str]


@dataclass(frozen=True)
class Shown:
    """What a kind of question shows. ``rate``: at which rate so many devices are asked; ``asked``: what its survey
    states besides, its model and its randomizer."""

    rate: Callable[[int], Decimal]
    asked: Mapping[str, Any] = field(default_factory=dict)

    def least(self, devices: int, answers: int, margins: int = SHOWN) -> float:
        """How many of ``devices`` have to hold one of so many answers, devices without a value having one of their own,
        for it to be so many margins large and not released as 0."""
        rate = self.rate(devices)
        body = {"population": devices, "encoder": {"kind": "cells", "cells": answers + 1}, "rate": str(rate)}
        survey = Survey.from_body({**body, **self.asked})
        plan = plan_of(survey)
        method = _target(survey).made(plan, plan.batch_size())
        (error,) = estimator_of(method).expected_stderrs([devices / answers], devices, SampleDesign(float(rate)))
        cut = None
        if isinstance(method, ShuffledCounts):
            cut = shuffled_estimator_of(method).zeros_below(int(rate * devices), float(rate), CHANCE)
        return max(margins * NORMAL_95 * error, cut or 0.0)

    def most(self, devices: int) -> int:
        """How many answers, from ``LEAST_ANSWERS`` to ``MOST_ANSWERS``, so many devices can show."""
        for answers in range(MOST_ANSWERS, LEAST_ANSWERS, -1):
            if devices / answers >= self.least(devices, answers):
                return answers
        return LEAST_ANSWERS

    def buckets(self, edges: Edges, values: Sequence[float], devices: int) -> tuple[int | str, ...]:
        """The ``edges`` with neighbours joined until each bucket holds what can be seen, of the ``values`` of all
        ``devices``."""
        return merged(edges, values, self.least(devices, self.most(devices)))

    def words(self, devices: int, answers: int) -> str:
        """A sentence where an answer of average size is below its own margin; else an empty text."""
        held, least = devices / answers, self.least(devices, answers)
        if held >= self.least(devices, answers, margins=1):
            return ""
        return (
            f"{devices:,} devices show about {self.most(devices)} answers, and this question has {answers}: on average "
            f"{held:,.0f} devices have one, and it is seen from about {least:,.0f} on; ask for fewer, or more devices"
        )


def _target(survey: Survey) -> PrivacyTarget:
    name = survey.randomizer or survey.method.NAME
    return PrivacyTarget(name, survey.shape, survey.epsilon, survey.delta, MAX_EPSILON0)


def merged(edges: Edges, values: Sequence[float], least: float) -> tuple[int | str, ...]:
    """The ``edges`` without those between which fewer than ``least`` of the values lie: neighbours become one bucket.
    Two edges stay in any case."""
    places = [float(exact(edge)) for edge in edges]
    ordered = sorted(values)
    until = [bisect_right(ordered, place) - ordered.count(place) for place in places[1:]] + [len(ordered)]
    held = [high - low for low, high in pairwise([0, *until])]
    kept, inside = [edges[0]], 0
    for edge, number in zip(edges, held, strict=True):
        if inside >= least and number:
            kept.append(edge)
            inside = 0
        inside += number
    if inside < least and len(kept) > LEAST_ANSWERS:
        kept.pop()
    return tuple(kept) if len(kept) > 1 else tuple(edges[:2])
