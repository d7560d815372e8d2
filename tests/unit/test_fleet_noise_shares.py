"""Noise shares of a whole fleet against the device's own code, and the numbers that its devices have.

``ALPHA`` is the false-alarm rate of each statistical test over the choice of seeds; the seeds are fixed.
"""

from __future__ import annotations

import io
from array import array
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import kstest, norm, uniform

from infra.lab.devices.additions import NUMBER, add, addition_of
from infra.lab.devices.decisions import CHUNK, decide, kept_cells, randomise
from infra.lab.devices.noise_shares import randomise_all
from infra.lab.devices.population import drawn_population, listed_numbers, listed_population
from infra.lab.devices.truth import added, totals
from infra.lab.fleet.oracle import Estimated, Verdict, estimated
from infra.lab.fleet.report import show
from infra.lab.fleet.result import FleetResult
from infra.lab.fleet.run import Load
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from tacit.errors import UsageError
from tacit.methods.base.method import Answer
from tacit.methods.base.statistics import StatisticName
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Question
from tacit.recipe.randomised import Sampling

ALPHA = 1e-6
COUNT = 20_000


class Stream:
    """Random bytes one after the other, however many are asked for at a time."""

    def __init__(self, seed: int) -> None:
        self._bytes = np.random.default_rng(seed).bytes(1 << 20)
        self.at = 0

    def __call__(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self._bytes)
        return self._bytes[self.at - size : self.at]


def question(statistic: str, **encoder: Any) -> Question:
    return Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic})


SUM = question("sum", kind="number", low=-100, high=100, unit=5)
VECTOR = question("vector-sum", kind="vector", length=3, low=-20, high=20, norm=25)
HISTOGRAM = question("histogram", kind="categories", categories=("a", "b", "c"))


@given(
    st.sampled_from(["histogram", "count", "sum", "mean", "vector-sum"]),
    st.integers(1, 1 << 12),
    st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 1000, 65_536])),
    st.integers(0, 2**32),
    st.data(),
)
def test_many_noise_shares_are_the_devices_own_on_the_same_bytes(
    statistic: StatisticName, scale: int, flips: int, seed: int, data: st.DataObject
) -> None:
    cells = 4 if statistic in {"histogram", "vector-sum"} else 1
    maximum = 1 if statistic in {"histogram", "count"} else 50
    shares = Flips(statistic, scale, flips, maximum, cells)
    one = st.integers(0, 3) if statistic == "histogram" else st.integers(0, maximum)
    several = st.lists(one, min_size=4, max_size=4).map(tuple) if statistic == "vector-sum" else one
    answers: list[Answer] = data.draw(st.lists(several, max_size=6))
    many, single = Stream(seed), Stream(seed)
    found = randomise_all(shares, answers, many).tolist()
    alone = [device_randomiser_of(shares).randomise(answer, single) for answer in answers]
    assert found == [[sent] if isinstance(sent, int) else sent for sent in alone]
    assert many.at == single.at


def test_shares_that_are_drawn_in_several_pieces_are_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.lab.devices.noise_shares.PIECE", 10)
    shares, many, single = Flips("histogram", 9, 12, 1, 3), Stream(1), Stream(1)
    answers = [0, 1, 2, 1, 0]
    assert randomise_all(shares, answers, many).tolist() == [
        device_randomiser_of(shares).randomise(one, single) for one in answers
    ]


@pytest.mark.parametrize(
    ("statistic", "answer"), [("sum", 11), ("sum", -1), ("histogram", 4), ("vector-sum", (1,)), ("vector-sum", 3)]
)
def test_answers_out_of_range_are_refused_as_by_the_device(statistic: StatisticName, answer: Answer) -> None:
    cells = 1 if statistic == "sum" else 4
    shares = Flips(statistic, 2, 8, 1 if statistic == "histogram" else 10, cells)
    with pytest.raises(ValueError, match="from 0 to"):
        randomise_all(shares, [answer], SeededEntropy(0))


@pytest.mark.parametrize(
    ("measurement", "cells", "addition"),
    [
        (0, 1, ()),
        (1, 1, (0,)),
        (7, 1, array(NUMBER, [7])),
        (2, 4, (2,)),
        ([0, 1, 1], 3, (1, 2)),
        ([0, 2, 1], 3, array(NUMBER, [0, 2, 1])),
        (array(NUMBER, [0, 1]), 2, (1,)),
        (array(NUMBER, [9, 1]), 2, array(NUMBER, [9, 1])),
    ],
)
def test_cells_are_named_where_ones_are_added_and_numbers_listed_elsewhere(
    measurement: Any, cells: int, addition: Sequence[int]
) -> None:
    assert addition_of(measurement, cells) == addition


def test_additions_of_both_kinds_add_up() -> None:
    sums: Counter[int] = Counter()
    for addition in ((0, 2), array(NUMBER, [5, 0, 2**40]), ()):
        add(sums, addition)
    assert [sums[cell] for cell in range(3)] == [6, 0, 2**40 + 1]


@pytest.mark.parametrize(("asked", "cells"), [(HISTOGRAM, 3), (SUM, 1), (VECTOR, 3)])
def test_devices_of_every_statistic_send_their_scaled_answer_and_flips(asked: Question, cells: int) -> None:
    shares = Flips(asked.statistic, 1000, 10, 1 if asked is HISTOGRAM else 40, cells)
    population = drawn_population(asked, None)
    chunk = next(decide(Sampling(rate="1"), population, 0, 300, SeededEntropy(6), np.random.default_rng(1)))
    answers, beyond = randomise(chunk, shares, SeededEntropy(8))
    assert beyond == []
    for sent, answer in zip(answers, chunk.answers, strict=True):
        values = [sent.measurement] if isinstance(sent.measurement, int) else list(sent.measurement)
        assert answer is not None
        expected = [int(cell == answer) for cell in range(3)] if asked is HISTOGRAM else answer
        assert [value // 1000 for value in values] == ([expected] if isinstance(expected, int) else list(expected))
        assert all(value % 1000 <= 10 for value in values)


@pytest.mark.false_alarm(3 * ALPHA, "three Kolmogorov-Smirnov tests")
def test_numbers_follow_their_distribution_and_are_rounded_and_clipped_by_the_encoder() -> None:
    for text, law in ((None, uniform(-100, 200)), ("uniform", uniform(-100, 200)), ("normal:-7,30", norm(-7, 30))):
        population = drawn_population(SUM, text)
        data = population.of(0, COUNT, np.random.default_rng(3))
        assert kstest(data[:, 0], law.cdf).pvalue > ALPHA
        encoder = encoder_of(SUM)
        assert population.answers(data[:200]) == [encoder.encode(value) for value in data[:200, 0].tolist()]
    wide = drawn_population(SUM, "normal:0,1000")
    assert {0, 40} <= set(wide.answers(wide.of(0, 100, np.random.default_rng(4)))) <= set(range(41))


def test_vectors_are_shrunk_by_the_encoder_and_decided_in_smaller_chunks() -> None:
    population = drawn_population(VECTOR, "normal:10,10")
    assert population.width == 3
    chunks = decide(Sampling(rate="0.01"), population, 0, CHUNK, SeededEntropy(5), np.random.default_rng(2))
    sizes = []
    for chunk in chunks:
        sizes.append(chunk.count)
        for answer in chunk.answers:
            assert isinstance(answer, tuple)
            assert sum((entry - 20) ** 2 for entry in answer) <= 25**2
    assert sum(sizes) == CHUNK
    assert max(sizes) == CHUNK // 3
    shares = Flips("histogram", 9, 12, 1, 500)
    same = listed_population("file", [3])
    few = decide(Sampling(rate="1"), same, 0, 400, SeededEntropy(5), np.random.default_rng(2), kept_cells(shares))
    assert next(few).count == CHUNK // 500


def test_listed_numbers_and_vectors_are_answered_as_they_are() -> None:
    numbers = listed_population("file", [70_000, 3])
    assert numbers.answers(numbers.of(1, 3, np.random.default_rng(1))) == [3, 70_000, 3]
    vectors = listed_population("file", [(1, 2), (3, 4), (5, 6)])
    assert vectors.width == 2
    assert vectors.answers(vectors.of(2, 2, np.random.default_rng(1))) == [(5, 6), (1, 2)]


@pytest.mark.parametrize(
    "text", ["zipf", "weights:1,2", "uniform:3", "normal", "normal:1", "normal:x,1", "normal:1,-1", "normal:inf,1"]
)
def test_a_distribution_of_numbers_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--data"):
        drawn_population(SUM, text)


@pytest.mark.parametrize(
    ("asked", "answers", "expected"),
    [
        (HISTOGRAM, [0, 2, 2], [1, 0, 2]),
        (question("count", kind="boolean"), [1, 0, 1, 1], [3]),
        (SUM, [0, 40, 21], [-100 + 100 + 5]),
        (question("mean", kind="number", low=-10, high=30), [0, 40], [20]),
        (VECTOR, [(20, 20, 20), (0, 25, 40)], [-20, 5, 20]),
    ],
)
def test_what_all_devices_know_is_added_up_in_the_units_of_the_answer(
    asked: Question, answers: list[Answer], expected: list[float]
) -> None:
    assert totals(asked, answers) == expected
    assert added(totals(asked, answers[:1]), totals(asked, answers[1:])) == expected
    assert added([], totals(asked, answers)) == added(totals(asked, answers), []) == expected


def test_everybodys_answers_are_told_where_they_are_wanted_and_agree_with_those_of_the_sampled() -> None:
    population = drawn_population(SUM, None)
    told = next(decide(Sampling(rate="0.5"), population, 0, 400, SeededEntropy(6), np.random.default_rng(1),
                       everybody=True))  # fmt: skip
    assert len(told.everybody) == 400
    assert [told.everybody[device] for device in told.sampled.tolist()] == list(told.answers)
    assert (
        next(decide(Sampling(rate="0.5"), population, 0, 9, SeededEntropy(6), np.random.default_rng(1))).everybody == ()
    )


def released(asked: Question, cells: list[str]) -> Estimated:
    """What a release of a whole fleet with these data says, beside the truth that the fleet knows."""
    recipe = RecipeKit().recipe(question=asked, population=3000, rate=Decimal(1))
    shares, design = randomizer_of(recipe), design_of(recipe)
    population = listed_numbers("file", asked, cells)
    chunks = list(
        decide(recipe.sampling, population, 0, 3000, SeededEntropy(6), np.random.default_rng(1), everybody=True)
    )
    result = FleetResult(devices=3000)
    for chunk in chunks:
        adds = estimator_of(shares).missing_adds(design)
        result.known = added(result.known, totals(asked, chunk.everybody, adds, chunk.numbers))
        result.answered = added(result.answered, totals(asked, chunk.everybody, adds))
    sent = [answer.measurement for chunk in chunks for answer in randomise(chunk, shares, SeededEntropy(8))[0]]
    sums = [sum(one for one in sent if isinstance(one, int))]
    found = estimator_of(shares).estimate(sums, len(sent), design)
    value, error = found.values[0], found.stderrs[0]
    interval = {"population_low": value - 1.96 * error, "population_high": value + 1.96 * error}
    row = {"label": "mean", "estimate": value, "stderr": error, **interval}
    (one,) = estimated({"statistic": asked.statistic, "buckets": [row]}, result)
    return one


def test_a_mean_of_values_about_0_3_is_about_0_3_and_so_is_the_truth() -> None:
    cells = ["0.3", "0.29", "0.31", "0.3", "0.2999"]
    fine = released(question("mean", kind="number", low=0, high=1, unit="0.01"), cells)
    assert fine.truth == pytest.approx(0.29998)
    assert fine.estimate == pytest.approx(0.3, abs=6 * fine.stderr)
    assert fine.stderr < 0.01
    assert fine.inside
    assert not fine.moved
    coarse = released(question("mean", kind="number", low=0, high=1), cells)
    assert coarse.truth == pytest.approx(0.29998), "the truth is that of the data, not of what is left of them"
    assert coarse.answered == 0
    assert coarse.moved
    assert not coarse.inside
    for one, words in ((fine, False), (coarse, True)):
        console = Console(width=120, record=True, file=io.StringIO())
        show(FleetResult(devices=3000), Verdict(answers=[one]), Load(devices=3000), console)
        shown = " ".join(console.export_text().replace("│", "").split())
        assert ("a finer unit or a wider range" in shown) is words


def test_a_fleets_truth_is_of_the_numbers_as_its_devices_have_them() -> None:
    sums = question("sum", kind="number", low=-1, high=2, unit="0.5")
    population = listed_numbers("file", sums, ["0.3", "", "7", "x", " -0.2 ", "1e999"])
    data = population.of(0, 6, np.random.default_rng(1))
    answers = population.answers(data)
    assert answers == [3, None, 6, None, 2, 6]
    assert totals(sums, answers, [0.0], population.numbers(data)) == pytest.approx([0.3 + 7 - 0.2 + 2])
    assert totals(sums, answers, [0.0]) == [0.5 + 2 + 0 + 2]
    rows = question("vector-sum", kind="vector", length=2, low=-1, high=1, unit="0.1", norm=1)
    population = listed_numbers("file", rows, ["0.21,0.39", "3,4", "1", "0.1;2"])
    data = population.of(0, 4, np.random.default_rng(1))
    assert population.answers(data)[0] == (12, 14)
    assert population.answers(data)[2:] == [None, None]
    assert totals(rows, population.answers(data), [0.0, 0.0], population.numbers(data)) == pytest.approx([3.21, 4.39])
    with pytest.raises(UsageError, match="no device with a value"):
        listed_numbers("file", sums, ["", "x"])
