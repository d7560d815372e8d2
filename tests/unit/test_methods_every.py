"""What holds of every method of the registry, by the exact law of what a device sends, silence included.

A tiny question each: every outcome of a device's draws is gone through, and every crowd of a few devices.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import LocalMethod, Method
from tacit.methods.base.statistics import STATISTICS, Shape, StatisticName
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.planners.local import local_planner_of
from tacit.methods.planners.registry import planner_of
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.methods.registry import METHODS, method_named, methods_for, methods_of
from tacit.vdaf.registry import prio3_named
from tests.unit.device_path import SILENCE, Enumerated, Law, classes, convolved, divergence, log_ratio

SHAPES = {
    "histogram": Shape(STATISTICS["histogram"], 3),
    "count": Shape(STATISTICS["count"], 1),
    "sum": Shape(STATISTICS["sum"], 1, low=-1, high=2),
    "mean": Shape(STATISTICS["mean"], 1, low=1, high=3),
    "vector-sum": Shape(STATISTICS["vector-sum"], 2, low=-1, high=1, norm=1),
}
ANSWERS: dict[str, list[Any]] = {
    "histogram": [0, 1, 2],
    "count": [0, 1],
    "sum": [0, 1, 3],
    "mean": [0, 2],
    "vector-sum": [(1, 1), (2, 1), (1, 0)],
}
VALUES: dict[str, Callable[[Any], tuple[float, ...]]] = {
    "histogram": lambda answer: tuple(float(answer == cell) for cell in range(3)),
    "count": lambda answer: (float(answer),),
    "sum": lambda answer: (answer - 1.0,),
    "vector-sum": lambda answer: tuple(entry - 1.0 for entry in answer),
}
EPSILON0, DELTA = 1.0, 0.02
STATED: dict[str, Any] = {"epsilon0": Decimal(1), "max_weight": 2, "scale": 1, "flips": 2}
CASES = [(method.NAME, name) for method in METHODS.values() if method.IS_PROVED for name in method.STATISTICS]
"""Methods without a proof have tests of their own (``test_methods_affine.py``)."""


def made(name: str, statistic: str) -> Method:
    """The method at the tiny question, with members of its own."""
    method, shape = method_named(name), SHAPES[statistic]
    stated = {**STATED, "maximum": shape.maximum, "categories": method.categories_of(shape)}
    return method.of(shape, {member: stated[member] for member in ("categories", *method.MEMBERS)})


def frozen(measurement: Any) -> Any:
    return tuple(measurement) if isinstance(measurement, list) else measurement


def outcomes(method: Method, draw: Callable[[Any], Any]) -> Law:
    """The exact law of what ``draw`` makes of its randomness."""
    hexed = [value for value in device_randomiser_of(method).thresholds().values() if isinstance(value, str)]
    spread = math.lcm(method.cells, max(1, method.cells - 1)) if hexed else 1
    spread = math.lcm(spread, getattr(method, "maximum", 1) if hexed else 1)  # a number is rounded below its maximum
    entropy = Every(thresholds=tuple(int(value, 16) for value in hexed), modulus=spread)
    entropy.flips = STATED["flips"] if "flips" in method.MEMBERS else 1
    found: Law = defaultdict(Fraction)
    for _ in entropy.runs():
        found[frozen(draw(entropy))] += entropy.weight
    return dict(found)


class Every(Enumerated):
    """Draws of 128 bits by all that thresholds and remainders tell apart."""

    def __init__(self, thresholds: tuple[int, ...], modulus: int) -> None:
        super().__init__()
        self._thresholds, self._modulus = thresholds, modulus

    def _choices(self, size: int) -> Any:
        return classes(self._thresholds, self._modulus) if size == 16 else super()._choices(size)


@functools.cache
def law(name: str, statistic: str, answer: Any) -> Law:
    method = made(name, statistic)
    return outcomes(method, lambda entropy: device_randomiser_of(method).randomise(answer, entropy))


@functools.cache
def dummy_law(name: str, statistic: str) -> Law:
    """Bounded vectors by their definition, everything else by its draws."""
    method = made(name, statistic)
    if method.proof is None or method.proof.max_weight is None:
        return outcomes(method, device_randomiser_of(method).dummy)
    assert isinstance(method, LocalMethod)
    one = method.output_probabilities()[1]
    fitting = [bits for bits in itertools.product((0, 1), repeat=method.cells) if sum(bits) <= method.proof.max_weight]
    shares = [math.prod((one if bit else 1 - one for bit in bits), start=Fraction(1)) for bits in fitting]
    return {bits: share / sum(shares) for bits, share in zip(fitting, shares, strict=True)}


@pytest.mark.parametrize(("name", "statistic"), CASES)
def test_every_output_and_every_dummy_can_be_proved(name: str, statistic: str) -> None:
    method = made(name, statistic)
    proof, entropy = method.proof, SeededEntropy(1)
    assert proof is not None
    vdaf = prio3_named(proof.name, proof.length, proof.chunk_length, **proof.bounds)
    outputs = {output for answer in ANSWERS[statistic] for output in law(name, statistic, answer)} - {SILENCE}
    for output in outputs | {frozen(device_randomiser_of(method).dummy(entropy)) for _ in range(40)}:
        measurement = list(output) if isinstance(output, tuple) else output
        vdaf.shard(b"", measurement, entropy(vdaf.NONCE_SIZE), entropy(vdaf.RAND_SIZE))
        assert frozen(device_randomiser_of(method).dummy(entropy)) in dummy_law(name, statistic)


@pytest.mark.parametrize(("name", "statistic"), CASES)
def test_one_report_or_its_absence_keeps_the_local_epsilon(name: str, statistic: str) -> None:
    method = made(name, statistic)
    laws = [law(name, statistic, answer) for answer in ANSWERS[statistic]]
    told = max(log_ratio(one, other) for one, other in itertools.permutations(laws, 2))
    assert told <= method.local_epsilon * (1 + 1e-12)
    assert method.local_epsilon == math.inf or told > 0.9 * method.local_epsilon
    assert math.isinf(method.local_epsilon) is not method.IS_LOCAL


@pytest.mark.parametrize(("name", "statistic"), CASES)
def test_silence_depends_on_no_answer_nor_on_whether_there_is_one(name: str, statistic: str) -> None:
    method = made(name, statistic)
    silent = {law(name, statistic, answer).get(SILENCE, Fraction(0)) for answer in ANSWERS[statistic]}
    assert len(silent) == 1
    assert float(silent.pop()) == pytest.approx(method.reject_probability)
    draws = (SeededEntropy(seed) for seed in range(400))
    missing = [device_randomiser_of(method).missing(entropy) for entropy in draws]
    kept = [
        device_randomiser_of(method).randomise(ANSWERS[statistic][0], entropy)
        for entropy in map(SeededEntropy, range(400))
    ]
    assert [one is SILENCE for one in missing] == [one is SILENCE for one in kept]
    assert {frozen(one) for one in missing} - {SILENCE} <= dummy_law(name, statistic).keys()


def summed(cells: int, output: Any) -> tuple[int, ...]:
    """What a message adds to the aggregate, and to the number of messages."""
    if output is SILENCE:
        return (0,) * (cells + 1)
    if isinstance(output, tuple):
        return (*output, 1)
    return (output, 1) if cells == 1 else (*(int(cell == output) for cell in range(cells)), 1)


def plus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(left + right for left, right in zip(one, other, strict=True))


def crowds(name: str, statistic: str, others: int) -> Iterator[list[Law]]:
    """For every composition of the others, the law of the sum by the answer of one more device that is sent."""
    cells, answers = made(name, statistic).cells, ANSWERS[statistic]
    rejected = [law(name, statistic, answer).get(SILENCE, Fraction(0)) for answer in answers]
    sent = [
        {
            summed(cells, out): share / (1 - gone)
            for out, share in law(name, statistic, answer).items()
            if out != SILENCE
        }
        for answer, gone in zip(answers, rejected, strict=True)
    ]
    for held in itertools.combinations_with_replacement(sent, others):
        crowd = convolved(held, plus, (0,) * (cells + 1))
        yield [convolved([crowd, own], plus, (0,) * (cells + 1)) for own in sent]


@pytest.mark.parametrize(("name", "statistic"), CASES)
def test_the_sum_of_a_few_reports_tells_no_more_than_is_claimed(name: str, statistic: str) -> None:
    method = made(name, statistic)
    for n in (1, 3):
        epsilon = method.aggregate_epsilon(n, DELTA)
        assert epsilon <= method.local_epsilon
        if math.isfinite(epsilon):
            for sums in crowds(name, statistic, n - 1):
                assert all(divergence(*pair, epsilon) <= DELTA for pair in itertools.permutations(sums, 2))


def sending(name: str, statistic: str, answer: Any, design: SampleDesign) -> dict[tuple[int, ...], float]:
    """The law of what a device adds whose coins are ``design``'s."""
    cells, found = made(name, statistic).cells, defaultdict[tuple[int, ...], float](float)
    rate, dummy = design.rate_of(answer), design.dummy_probability
    own = law(name, statistic, answer)
    real = rate * float(1 - own.get(SILENCE, 0))
    for output, share in own.items():
        if output != SILENCE:
            found[summed(cells, output)] += rate * float(share)
    for output, share in dummy_law(name, statistic).items():
        found[summed(cells, output)] += (1 - real) * dummy * float(share)
    found[summed(cells, SILENCE)] += (1 - real) * (1 - dummy)
    return found


DESIGNS = {
    "everybody": SampleDesign(1.0),
    "a sample": SampleDesign(0.5),
    "a sample and dummies": SampleDesign(0.5, dummy_probability=0.25),
}
RARER = {"importance": SampleDesign(0.5, 0, 0.25), "both": SampleDesign(0.5, 0, 0.25, 0.25)}


@pytest.mark.parametrize(("name", "statistic"), [case for case in CASES if not STATISTICS[case[1]].is_ratio])
def test_estimates_are_unbiased_and_err_as_they_say_over_every_outcome(name: str, statistic: StatisticName) -> None:
    """A mean is a ratio of two such totals and unbiased to first order alone."""
    method = made(name, statistic)
    designs = {**DESIGNS, **(RARER if STATISTICS[statistic].counts_devices else {})}
    held = [ANSWERS[statistic][0], ANSWERS[statistic][-1]]
    truth = [sum(column) for column in zip(*(VALUES[statistic](one) for one in held), strict=True)]
    squares = [sum(v * v for v in column) for column in zip(*(VALUES[statistic](one) for one in held), strict=True)]
    for design in designs.values():
        laws = [sending(name, statistic, answer, design) for answer in held]
        means, seconds = [0.0] * len(truth), [0.0] * len(truth)
        for pair in itertools.product(*(one.items() for one in laws)):
            *counts, reports = plus(pair[0][0], pair[1][0])
            share = pair[0][1] * pair[1][1]
            values: Sequence[float] = (
                estimator_of(method).estimate(counts, reports, design).values if reports else [0.0] * len(truth)
            )
            for cell, value in enumerate(values):
                means[cell] += share * value
                seconds[cell] += share * value * value
        assert means == pytest.approx(truth, abs=1e-9)
        deviations = [math.sqrt(second - mean * mean) for second, mean in zip(seconds, means, strict=True)]
        assert estimator_of(method).expected_stderrs(truth, len(held), design, squares) == pytest.approx(deviations)


@pytest.mark.parametrize(("name", "statistic"), CASES)
def test_members_say_all_that_makes_the_method_and_only_that(name: str, statistic: str) -> None:
    method, shape = made(name, statistic), SHAPES[statistic]
    stated = {member: STATED["epsilon0"] if member == "epsilon0" else v for member, v in method.members().items()}
    assert type(method).of(shape, stated) == method
    assert type(method).stated_wrongly(stated) is None
    assert type(method).mismatch(shape, stated) is None
    assert "leave it out" in str(type(method).stated_wrongly({**stated, "sigma": 1}))
    assert type(method).MEMBERS[0] in str(type(method).stated_wrongly({"categories": method.cells}))
    assert type(method) in methods_of(shape.statistic)
    assert type(method) in methods_for(shape)


@pytest.mark.parametrize(("name", "statistic"), CASES)
def test_a_method_that_is_tuned_keeps_its_target(name: str, statistic: str) -> None:
    kind, shape, n = method_named(name), SHAPES[statistic], 400
    epsilon = Decimal(1)
    if issubclass(kind, LocalMethod):
        epsilon = Decimal(repr(local_planner_of(kind).largest_epsilon0(n, 1e-6, 1.0)))
    method = planner_of(kind).tuned(shape, epsilon, n, 1e-6)
    assert 0.8 < method.aggregate_epsilon(n, 1e-6) <= 1
    assert method.reject_probability < 1e-3
