"""The planner: its errors against the estimators' own, its budgets against the claim, its refusals."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from tacit.accounting.alternatives import AGGREGATION, CENTRAL, LOCAL, SAMPLED, ways_to_sample
from tacit.accounting.planner import alternatives, proposal
from tacit.accounting.requirements import Alternative, Requirements
from tacit.dp.binomial_noise import delta_noise
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise
from tacit.errors import Refusal
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import StatisticName
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.rappor import Rappor
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import vdaf_of
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import Policy
from tacit.rules.table import check
from tacit.vdaf.chunks import chunk_length_for
from tests.claims import compute_claim
from tests.kit.methods import randomizer_from


def only(found: list[Alternative], model: str, randomizer: str) -> Alternative:
    (one,) = [way for way in found if (way.model, way.randomizer) == (model, randomizer)]
    return one


@pytest.mark.parametrize(("population", "cells", "epsilon"), [(20_000, 8, 1.0), (5_000, 1, 0.5), (60_000, 32, 2.0)])
def test_a_proposal_costs_what_was_asked_for_and_errs_as_its_estimator_says(
    population: int, cells: int, epsilon: float
) -> None:
    needs = Requirements(population, cells, epsilon, 1e-7)
    for way in alternatives(needs):
        if not way.available or way.epsilon0 is None:
            continue
        assert way.method is not None
        claim = compute_claim(way.method, n=way.batch_size, sampling_rate=way.rate, delta=1e-7)
        assert claim["aggregator"] <= epsilon * (1 + 1e-6)
        weight = cells if "max_weight" in way.method.MEMBERS else None
        randomizer = randomizer_from(way.randomizer, repr(way.epsilon0), max(2, cells), weight)
        truth = [round(needs.holders)] * max(1, cells)
        stderrs = estimator_of(randomizer).expected_stderrs(truth, population, SampleDesign(way.rate))
        assert way.stderr == pytest.approx(stderrs[0], rel=1e-3)


def test_noise_shares_of_half_a_batch_keep_the_whole_budget() -> None:
    needs = Requirements(10_000, 16, 1.0, 1e-7)
    way = only(alternatives(needs), "aggregation alone", "flips")
    assert isinstance(way.method, Flips)
    assert delta_noise(1.0, way.batch_size // 2 * way.method.flips, way.method.scale, cells=2) <= 1e-7


@settings(max_examples=3, deadline=None)
@given(st.integers(500, 30_000), st.sampled_from([1, 4, 40]), st.floats(0.2, 3))
def test_no_model_beats_a_trusted_server_of_many_devices_and_none_is_worse_than_local(
    population: int, cells: int, epsilon: float
) -> None:
    found = alternatives(Requirements(population, cells, epsilon, 1e-6))
    best = only(found, CENTRAL, "Gaussian")
    worst = max(way.stderr for way in found if way.model == LOCAL)
    assert all(way.stderr <= worst * (1 + 1e-9) for way in found if way.available)
    assert all(way.stderr >= 0.5 * best.stderr for way in found if way.is_summed)
    assert [way.stderr for way in found] == sorted(way.stderr for way in found)


def test_a_wanted_accuracy_is_bought_with_the_fewest_contributions() -> None:
    needs = Requirements(100_000, 16, 1.0, 1e-8)
    loose, tight = (proposal(alternatives(needs, error), error) for error in (600.0, 200.0))
    assert loose.contributions < tight.contributions
    assert loose.stderr <= 600
    assert tight.stderr <= 200
    assert loose.model == SAMPLED


def test_an_accuracy_out_of_reach_is_refused_with_what_can_be_had() -> None:
    needs = Requirements(1000, 16, 1.0, 1e-8)
    with pytest.raises(Refusal, match="can be reached") as refused:
        proposal(alternatives(needs, 1e-3), 1e-3)
    assert refused.value.rule == "accuracy-unreachable"


@pytest.mark.parametrize(
    "bad", [(0, 4, 1.0, 1e-6), (10, 0, 1.0, 1e-6), (10, 4, math.nan, 1e-6), (10, 4, 1.0, 0.0), (10, 4, 0.0, 1e-6)]
)
def test_an_impossible_goal_is_refused(bad: tuple[int, int, float, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        Requirements(*bad)


@pytest.mark.slow
def test_the_command_compares_proposes_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "design.png"
    arguments = ["recipe", "design", "--population", "50000", "--cells", "8", "--accuracy", "0.01"]
    assert run([*arguments, "--plot", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "the server" in shown
    assert "trusting a shuffler apart: tacit recipe new --model shuffled" in shown
    assert "tacit recipe new --population 50000" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["proposal"]["relative_error"] <= 0.01
    assert document["proposal"] in document["alternatives"]


def test_a_picture_that_cannot_be_written_is_one_line_that_names_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = tmp_path / "no" / "design.png"
    assert run(["recipe", "design", "--population", "50000", "--cells", "8", "--plot", str(wanted)]) != 0
    assert capsys.readouterr().err == f"tacit: {wanted}: cannot be written; give --plot another path\n"


NUMBERS = [
    ("sum", 1, {"low": 0, "high": 50}),
    ("mean", 1, {"low": -20, "high": 100, "unit": 4}),
    ("histogram", 8, {}),
    ("count", 1, {}),
]


@pytest.mark.parametrize(("statistic", "cells", "values"), NUMBERS, ids=[case[0] for case in NUMBERS])
def test_where_policy_allows_noise_shares_they_are_proposed_and_err_as_their_estimator_says(
    statistic: StatisticName, cells: int, values: dict[str, Any]
) -> None:
    needs = Requirements(40_000, cells, 1.0, 1e-7, statistic=statistic, allow_unbounded_local=True, **values)
    found = alternatives(needs)
    ways = [way for way in found if way.is_summed]
    assert {way.model for way in ways} == {AGGREGATION, SAMPLED}
    for way in ways:
        assert way.available
        assert isinstance(way.method, Flips)
        given = way.method
        shares = Flips(statistic, given.scale, given.flips, needs.maximum, cells, low=needs.low, unit=needs.unit)
        middle = float(needs.low + needs.high) / 2
        truth = middle if statistic == "mean" else needs.holders if needs.counts else needs.population * middle
        expected = estimator_of(shares).expected_stderrs([truth] * cells, needs.population, SampleDesign(way.rate))
        assert way.stderr == pytest.approx(expected[0], rel=1e-3)
        claim = compute_claim(shares, n=way.batch_size // 2, sampling_rate=way.rate, delta=1e-7)
        assert claim["aggregator"] <= 1.05
        assert claim["aggregator_with_relay"] <= (way.inner or 0) * (1 + 1e-6)
    chosen = proposal(found)
    assert chosen.stderr == min(way.stderr for way in found if way.available)
    assert only(found, CENTRAL, "Gaussian").stderr < chosen.stderr


def test_a_vector_is_hidden_by_noise_shares_near_the_optimum_and_locally_far_from_it() -> None:
    needs = Requirements(
        50_000, 32, 1.0, 1e-7, statistic="vector-sum", low=-10, high=10, norm=15, allow_unbounded_local=True
    )
    found = alternatives(needs)
    best, chosen = only(found, CENTRAL, "Gaussian"), proposal(found)
    assert best.stderr == pytest.approx(sigma_gaussian(1.0, 1e-7, 30.0))
    assert best.stderr < chosen.stderr < 3 * best.stderr
    assert isinstance(chosen.method, Flips)
    step = VectorStep.replaced(32, 20, 15, one_signed=False)
    total = chosen.batch_size // 2 * chosen.method.flips
    assert epsilon_vector_noise(total, step, chosen.method.scale, 1e-7) <= 1.0
    assert only(found, LOCAL, "Gaussian").stderr > 100 * best.stderr


@pytest.mark.parametrize(("population", "accuracy"), [(20_000, 0.02), (100_000, 0.001), (100_000, 0.005)])
def test_what_is_proposed_keeps_the_cap_with_half_a_batch_too(population: int, accuracy: float) -> None:
    ways = alternatives(Requirements(population, 16, 1.0, 1e-6), accuracy * population)
    proposed = [way for way in ways if way.available and way.epsilon0 is not None]
    assert proposed
    for way in proposed:
        assert way.method is not None
        at_batch, at_half = (
            compute_claim(way.method, n=n, sampling_rate=way.rate, delta=1e-6)
            for n in (way.batch_size, max(1, way.batch_size // 2))
        )
        assert at_batch["aggregator"] <= 1 + 1e-6
        assert at_half["aggregator"] <= 2 + 1e-6
        assert at_batch["aggregator_with_relay"] == pytest.approx(way.inner or 0, rel=1e-3)


@pytest.mark.slow
def test_without_leave_noise_shares_are_shown_and_not_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    needs = Requirements(40_000, 2, 1.0, 1e-7, statistic="vector-sum", low=-10, high=10, norm=15)
    found = alternatives(needs)
    assert any(way.is_summed for way in found)
    with pytest.raises(Refusal, match="requires a local guarantee") as refused:
        proposal(found)
    assert refused.value.rule == "no-local-guarantee"
    flags = ["--population", "40000", "--statistic", "vector-sum", "--low", "-10", "--high", "10", "--norm", "15"]
    assert run(["recipe", "design", *flags, "--cells", "2"]) == 1
    assert "only noise shares (flips) can answer this" in (said := capsys.readouterr().err)
    assert "tacit up --allow-unbounded-local" in said
    counts = Requirements(40_000, 8, 1.0, 1e-7)
    assert not proposal(alternatives(counts)).is_summed
    sampled = [way for way in alternatives(counts) if way.is_summed]
    error = 1.01 * min(way.stderr for way in sampled)
    with pytest.raises(Refusal, match="noise shares would reach it") as refused:
        proposal(alternatives(counts, error), error)
    assert refused.value.rule == "accuracy-unreachable"


def test_a_batch_below_the_policys_floor_is_not_proposed() -> None:
    with pytest.raises(Refusal) as refused:
        proposal(alternatives(Requirements(110, 4, 1.0, 1e-6, min_batch_size=100)))
    assert refused.value.rule == "population-too-small"
    assert proposal(alternatives(Requirements(130, 4, 1.0, 1e-6, min_batch_size=100))).batch_size >= 100


def test_what_is_proposed_costs_what_its_vdaf_says() -> None:
    found = alternatives(Requirements(20_000, 16, 1.0, 1e-6))
    krr, flips = only(found, SAMPLED, "krr"), only(found, AGGREGATION, "flips")
    assert (krr.chunk_length, krr.upload_bytes) == (6, 16 * (16 + 19))
    assert isinstance(flips.method, Flips)
    bits = flips.method.largest.bit_length()
    assert flips.chunk_length == chunk_length_for(16 * bits)
    assert only(found, CENTRAL, "Gaussian").upload_bytes is None
    assert {(way.randomizer, way.upload_bytes) for way in found if way.model == LOCAL} == {
        ("krr", 2), ("rappor", 2), ("oue", 2),
    }  # fmt: skip


def test_rappors_proof_is_planned_with_the_bound_that_the_builder_finds() -> None:
    """A bound by mean and deviations was 28 here, and a field element less than there is in a report."""
    way = next(ways_to_sample(Requirements(500, 256, 30.0, 1e-6, max_epsilon0=6.0), Rappor))
    edges = {"kind": "buckets", "edges": list(range(256))}
    asked = Question.model_validate({"text": "?", "metric": "m", "encoder": edges, "statistic": "histogram"})
    same: dict[str, Any] = {"epsilon": Decimal(30), "max_epsilon0": Decimal(6), "min_batch_size": way.batch_size}
    recipe = RecipeKit().recipe(question=asked, randomizer=Rappor.NAME, rate=Decimal(1), population=500, **same)
    assert (way.batch_size, way.epsilon0, recipe.randomizer.max_weight) == (400, 6.0, 47)
    vdaf = vdaf_of(recipe)
    assert way.upload_bytes == (vdaf.flp.MEAS_LEN + vdaf.flp.PROOF_LEN * vdaf.PROOFS) * vdaf.field.ENCODED_SIZE


@pytest.mark.parametrize(
    "bad",
    [
        {"statistic": "sum", "high": 0},
        {"statistic": "sum", "high": 10, "unit": 3},
        {"statistic": "sum", "cells": 2, "high": 10},
        {"high": 7},
        {"statistic": "vector-sum", "cells": 2, "low": 1, "high": 5},
    ],
    ids=repr,
)
def test_a_range_that_no_question_has_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Requirements(**{"population": 1000, "cells": 1, "epsilon": 1.0, "delta": 1e-6, **bad})


@pytest.mark.slow
def test_hundredths_are_planned_as_as_many_whole_steps() -> None:
    cents = Requirements(20_000, 1, 1.0, 1e-6, statistic="sum", low=-20, high=80, allow_unbounded_local=True)
    euros = replace(cents, low=Fraction("-0.2"), high=Fraction("0.8"), unit=Fraction("0.01"))
    for one, other in zip(alternatives(cents), alternatives(euros), strict=True):
        shares, others = (None if way.method is None else way.method.members() for way in (one, other))
        assert (one.model, shares, one.batch_size) == (other.model, others, other.batch_size)
        assert other.stderr == pytest.approx(one.stderr / 100)
        assert other.relative(euros) == pytest.approx(one.relative(cents))
    with pytest.raises(ValueError, match="unit must divide"):
        replace(euros, unit=Fraction("0.03"))


def test_a_policy_file_says_what_may_be_proposed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('allow_unbounded_local = true\nmax_epsilon_local = "3"\n')
    words = ["recipe", "design", "--population", "30000", "--cells", "4", "--json", "--policy", str(policy)]
    assert run(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["proposal"]["randomizer"] == "flips"
    assert max(one["epsilon0"] or 0 for one in document["alternatives"] if one["available"]) <= 3
    assert run(["recipe", "design", "--population", "1000", "--statistic", "median"]) == 1
    assert "--statistic: must be" in capsys.readouterr().err


NUMBER = ["--statistic", "mean", "--low", "0", "--high", "40", "--allow-unbounded-local"]
SHARE = ["--statistic", "mean", "--low", "0", "--high", "1", "--unit", "0.010", "--allow-unbounded-local"]
ASKED = {
    "mean by noise shares": (NUMBER, []),
    "mean in hundredths": (SHARE, []),
    "mean with a local guarantee": (["--statistic", "mean", "--low", "0", "--high", "10"], []),
    "histogram by krr": (["--cells", "16"], ["--buckets", ",".join(map(str, range(16)))]),
    "yes or no": (["--cells", "1"], ["--boolean"]),
}


@pytest.mark.parametrize("case", ASKED)
def test_the_next_command_makes_a_recipe_that_policy_accepts(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags, question = ASKED[case]
    parties = tmp_path / "parties.json"
    parties.write_text(json.dumps(RecipeKit().parties().model_dump(mode="json")))
    assert run(["recipe", "design", "--population", "20000", "--accuracy", "0.01", *flags]) == 0
    shown = capsys.readouterr().out
    command = shlex.split(next(line for line in shown.splitlines() if line.startswith("next:"))[len("next: tacit ") :])
    rest = ["--name", "hours", "--text", "How long?", "--metric", "hours", "--parties", str(parties), *question]
    when = ["--start", "2000000040", "--duration", "3600", "--epoch", "1", "--slot", "0", "--json"]
    assert run([*command, *rest, *when]) == 0
    recipe = Recipe.from_body(json.loads(capsys.readouterr().out)["recipe"])
    policy = Policy(allow_unbounded_local="--allow-unbounded-local" in flags)
    assert check(recipe, policy, Context(Stage.DRAFT, 1e9)) == []


@pytest.mark.parametrize("bad", [["--accuracy", "2"], ["--epsilon", "0"], ["--cells", "0"], ["--delta", "1"]])
def test_bad_flags_are_one_line(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe", "design", "--population", "1000", *bad]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
