"""``tacit figures shuffled``: errors are the table of the design, users are what is computed, and a wrong one is
noticed."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

import infra.lab.measure.shuffled as measuring
import infra.lab.measure.shuffled_errors as erring
from infra.cli import run
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.measure.shuffled import CHASING, JUMPING, SUPPORT, Case, beside, cases, compare, measure
from infra.lab.measure.shuffled_errors import EPSILON, EXPONENT, USERS, Largest, largest
from infra.lab.shuffled.variants import (
    CENTRAL,
    PUBLISHED,
    THRESHOLD,
    UNBIASED,
    VARIANTS,
    ZSUM,
    largest_errors,
    noise_threshold,
    zipf_counts,
)
from tacit.dp.shuffled_counts import lambda_hist

TABLE = {
    100: {PUBLISHED: 3887, ZSUM: 21.7, UNBIASED: 22.6, THRESHOLD: 19.2, CENTRAL: 10.7},
    10_000: {PUBLISHED: 3328, ZSUM: 70.8, UNBIASED: 33.5, THRESHOLD: 52.8, CENTRAL: 43.2},
    1_000_000: {PUBLISHED: 3651, ZSUM: 72.6, UNBIASED: 42.5, THRESHOLD: 56.6, CENTRAL: 42.8},
}
"""The largest errors of a count, by number of categories: means of five runs that were made for the design."""
DEVIATIONS = {PUBLISHED: 400, ZSUM: 5.5, UNBIASED: 3.0, THRESHOLD: 4.5, CENTRAL: 3.2}
"""Of one run, from thirty of each size; at 100 categories zsum errs as plain noise does."""


def small_cases(epsilon: float, entropy: SeededEntropy) -> list[Case]:
    """The smallest case of each problem."""
    every = list(cases(epsilon, entropy))
    return [next(one for one in every if one.problem == problem) for problem in (SUPPORT, CHASING, JUMPING)]


@pytest.mark.false_alarm(2e-3, "ten means at 4.5 standard errors of their difference, with tails heavier than normal")
@pytest.mark.parametrize(
    ("categories", "runs"), [(100, 10), (10_000, 10), pytest.param(1_000_000, 2, marks=pytest.mark.slow)]
)
def test_largest_errors_are_those_of_the_design(categories: int, runs: int) -> None:
    found = largest(categories, runs, SeededEntropy(categories))
    for name, mean in TABLE[categories].items():
        assert abs(found.means[name] - mean) < 4.5 * DEVIATIONS[name] * math.sqrt(1 / 5 + 1 / runs), name
    if categories > 100:
        assert found.means[UNBIASED] < found.means[THRESHOLD] < found.means[ZSUM] < found.means[PUBLISHED] / 40


@pytest.mark.false_alarm(1e-5, "a mean of 200 maxima at five standard errors")
def test_the_largest_error_of_plain_noise_is_what_its_law_says() -> None:
    categories, runs, entropy = 50, 200, SeededEntropy(2)
    counts = [USERS // categories] * categories
    noise = lambda_hist(EPSILON, 1e-8, USERS)
    law = binom(USERS, noise / USERS)
    step = 0.02
    centres = [step * (at + 0.5) for at in range(5000)]
    within = [law.cdf(math.floor(noise + at)) - law.cdf(math.ceil(noise - at) - 1) for at in centres]
    expected = step * math.fsum(1 - inside**categories for inside in within)
    found = [largest_errors(counts, EPSILON, 1e-8, entropy)[UNBIASED] for _ in range(runs)]
    mean = sum(found) / runs
    spread = math.sqrt(sum((one - mean) ** 2 for one in found) / (runs - 1) / runs)
    assert abs(mean - expected) < 5 * spread + step


@pytest.mark.false_alarm(1e-6, "the noise of one cell of many users at ten standard deviations")
def test_zsum_and_the_central_model_err_nowhere_that_nobody_is() -> None:
    errors = largest_errors([USERS, *[0] * 2000], EPSILON, 1e-8, SeededEntropy(6))
    assert errors[ZSUM] < 80
    assert errors[PUBLISHED] < 630
    assert errors[CENTRAL] < 40
    assert errors[UNBIASED] > 20
    assert noise_threshold(62.1, 10_000) == pytest.approx(40.0, abs=0.1)


@pytest.mark.false_alarm(1e-6, "a binomial count at five standard deviations, twice")
def test_categories_are_drawn_with_a_share_that_falls_as_their_rank() -> None:
    counts = zipf_counts(USERS, 1000, EXPONENT, SeededEntropy(4))
    weights = [rank**-EXPONENT for rank in range(1, 1001)]
    assert sum(counts) == USERS
    for at in (0, 9):
        share = weights[at] / sum(weights)
        assert abs(counts[at] - USERS * share) < 5 * math.sqrt(USERS * share)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-3, "failures of 4,000 runs beyond twice or half the expected 40, in some trials of three")
def test_the_measured_number_of_users_is_the_computed_one() -> None:
    entropy = SeededEntropy(9)
    for case in small_cases(1.0, entropy):
        found = beside(case, measure(case, 1.0, 1e-6, 4000, entropy), 1.0, 1e-6)
        assert found.holds
        assert abs(found.measured - found.computed) < 0.05 * found.computed + 3
        assert found.published > 80 * found.computed
        assert not replace(found, chance=0.97).holds
        assert not replace(found, chance_before=0.998).holds


def test_the_cases_are_three_problems_whose_answers_follow_from_their_parts() -> None:
    for case in cases(1.0, SeededEntropy(3)):
        assert case.answer(case.parts) is not None
        if case.problem != SUPPORT:
            assert case.answer(case.parts[1:]) is None
            assert case.local is not None


def test_progress_goes_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    monkeypatch.setattr(measuring, "measure", lambda *_: 1000)
    compare(1.0, 1e-6, 10, told.append, small_cases(1.0, SeededEntropy(1)))
    assert told == sorted(told)
    assert told[-1] == 1


@pytest.mark.false_alarm(0, "what is drawn at random is not compared")
def test_the_command_draws_writes_and_fails_where_a_number_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    factor, few = 1, small_cases(1.0, SeededEntropy(5))
    right = {case.problem: beside(case, 1000, 1.0, 1e-6).computed for case in few}
    monkeypatch.setattr(measuring, "cases", lambda *_: few)
    monkeypatch.setattr(measuring, "measure", lambda case, *_: factor * right[case.problem])
    monkeypatch.setattr(erring, "largest", lambda size, runs, _: errors_of(size, runs))
    assert run(["figures", "shuffled", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    names = [f"shuffled-{name}.{kind}" for name in ("users", "errors") for kind in ("png", "svg", "csv")]
    assert [Path(path).name for path in document["files"]] == names
    assert all(Path(path).stat().st_size > 200 for path in document["files"])
    with (tmp_path / "shuffled-users.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["problem"] for row in rows] == [SUPPORT, CHASING, JUMPING]
    assert [int(row["measured"]) for row in rows] == list(right.values())
    with (tmp_path / "shuffled-errors.csv").open() as file:
        assert [int(row["categories"]) for row in csv.DictReader(file)] == list(erring.CATEGORIES)
    factor = 2
    assert run(["figures", "shuffled", "--out", str(tmp_path)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "pointer chasing 4 2 326 163" in shown
    assert "1,000,000 7.0 ± 1.0" in shown


def errors_of(categories: int, runs: int) -> Largest:
    """Errors that nobody measured."""
    names: Any = dict.fromkeys(VARIANTS, 7.0)
    return Largest(categories, runs, names, dict.fromkeys(VARIANTS, 1.0))
