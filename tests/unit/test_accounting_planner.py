"""The planner: its errors against the estimators' own, its budgets against the claim, its refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.cli import run
from tacit.accounting.planner import CENTRAL, LOCAL, SAMPLED, Alternative, Goal, alternatives, proposal
from tacit.dp.binomial_noise import delta_noise
from tacit.dp.claim import compute_claim
from tacit.errors import Refusal
from tacit.randomizers.design import SampleDesign
from tacit.randomizers.registry import randomizer_from


def only(found: list[Alternative], model: str, randomizer: str) -> Alternative:
    (one,) = [way for way in found if (way.model, way.randomizer) == (model, randomizer)]
    return one


@pytest.mark.parametrize(("population", "cells", "epsilon"), [(20_000, 8, 1.0), (5_000, 1, 0.5), (60_000, 32, 2.0)])
def test_a_proposal_costs_what_was_asked_for_and_errs_as_its_estimator_says(
    population: int, cells: int, epsilon: float
) -> None:
    goal = Goal(population, cells, epsilon, 1e-7)
    for way in alternatives(goal):
        if not way.available or way.epsilon0 is None:
            continue
        claim = compute_claim(
            randomizer=way.randomizer, epsilon0=way.epsilon0, n=way.batch_size, sampling_rate=way.rate, delta=1e-7
        )
        assert claim.aggregator <= epsilon * (1 + 1e-6)
        weight = cells if way.randomizer == "rappor" else None
        randomizer = randomizer_from(way.randomizer, repr(way.epsilon0), max(2, cells), weight)
        truth = [round(goal.holders)] * max(1, cells)
        stderrs = randomizer.expected_stderrs(truth, population, SampleDesign(way.rate))
        assert way.stderr == pytest.approx(stderrs[0], rel=1e-3)


def test_noise_shares_of_half_a_batch_keep_the_whole_budget() -> None:
    goal = Goal(10_000, 16, 1.0, 1e-7)
    way = only(alternatives(goal), "aggregation alone", "flips")
    assert way.share is not None
    assert delta_noise(1.0, way.batch_size // 2 * way.share.flips, way.share.scale, cells=2) <= 1e-7


@settings(max_examples=3, deadline=None)
@given(st.integers(500, 30_000), st.sampled_from([1, 4, 40]), st.floats(0.2, 3))
def test_no_model_beats_a_trusted_server_of_many_devices_and_none_is_worse_than_local(
    population: int, cells: int, epsilon: float
) -> None:
    found = alternatives(Goal(population, cells, epsilon, 1e-6))
    best = only(found, CENTRAL, "Gaussian")
    worst = max(way.stderr for way in found if way.model == LOCAL)
    assert all(way.stderr <= worst * (1 + 1e-9) for way in found if way.available)
    assert all(way.stderr >= 0.5 * best.stderr for way in found if way.share is not None)
    assert [way.stderr for way in found] == sorted(way.stderr for way in found)


def test_a_wanted_accuracy_is_bought_with_the_fewest_contributions() -> None:
    goal = Goal(100_000, 16, 1.0, 1e-8)
    loose, tight = (proposal(alternatives(goal, error), error) for error in (600.0, 200.0))
    assert loose.contributions < tight.contributions
    assert loose.stderr <= 600
    assert tight.stderr <= 200
    assert loose.model == SAMPLED


def test_an_accuracy_out_of_reach_is_refused_with_what_can_be_had() -> None:
    goal = Goal(1000, 16, 1.0, 1e-8)
    with pytest.raises(Refusal, match="can be reached") as refused:
        proposal(alternatives(goal, 1e-3), 1e-3)
    assert refused.value.rule == "accuracy-unreachable"


@pytest.mark.parametrize(
    "bad", [(0, 4, 1.0, 1e-6), (10, 0, 1.0, 1e-6), (10, 4, math.nan, 1e-6), (10, 4, 1.0, 0.0), (10, 4, 0.0, 1e-6)]
)
def test_an_impossible_goal_is_refused(bad: tuple[int, int, float, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        Goal(*bad)


def test_the_command_compares_proposes_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "design.png"
    arguments = ["recipe", "design", "--population", "50000", "--cells", "8", "--accuracy", "0.01"]
    assert run([*arguments, "--plot", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "central, trusted server" in shown
    assert "tacit recipe new --population 50000" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["proposal"]["relative_error"] <= 0.01
    assert document["proposal"] in document["alternatives"]


@pytest.mark.parametrize("bad", [["--accuracy", "2"], ["--epsilon", "0"], ["--cells", "0"], ["--delta", "1"]])
def test_bad_flags_are_one_line(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe", "design", "--population", "1000", *bad]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
