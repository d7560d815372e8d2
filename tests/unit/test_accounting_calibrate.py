"""Every mechanism backwards: what is found keeps the target when it is accounted for anew, and hardly anything more."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.cli import run
from tacit.accounting.calibrate import RANGES, TOLERANCE, WHOLE, Calibration, calibrate
from tacit.accounting.events import Relation
from tacit.accounting.mechanisms import MECHANISMS, explain
from tacit.dp.binomial_noise import noise_share
from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.gaussian import sigma_gaussian
from tacit.dp.poisson import dummy_intensity
from tacit.dp.sampling import amplify_visible
from tacit.errors import Refusal
from tacit.methods.krr import Krr
from tacit.methods.planners.local import local_planner_of

SHUFFLED = {"e0": 3.0, "n": 20_000, "delta": 1e-8}
SHARES = {"scale": 12, "flips": 3, "n": 5000, "delta": 1e-8}
VECTORS = {"scale": 2, "flips": 40, "n": 5000, "delta": 1e-8, "length": 16, "maximum": 20, "norm": 12}
ROUNDS = {"sigma": 2.0, "q": 0.02, "delta": 1e-7, "rounds": 20}
COMPOSED = {"epsilon": 0.1, "delta": 1e-10, "rounds": 40, "total_delta": 1e-6}
ORDINARY: dict[str, dict[str, Any]] = {
    "rr": {"e0": 1.0},
    "krr": {"e0": 1.0, "k": 5},
    "rappor": {"e0": 1.0},
    "oue": {"e0": 1.0, "k": 5},
    "shuffle-fmt22": SHUFFLED,
    "shuffle-fmt21": SHUFFLED,
    "shuffle-sampled": {**SHUFFLED, "q": 0.1},
    "rr-exact": SHUFFLED,
    "rappor-exact": SHUFFLED,
    "rappor-deletion": SHUFFLED,
    "flips-exact": SHARES,
    "flips-vector": VECTORS,
    "gaussian": {"sigma": 5.0, "delta": 1e-8, "sensitivity": 1.0, "rounds": 2},
    "subsampled-gaussian": ROUNDS,
    "laplace": {"scale": 4.0, "delta": 1e-8, "sensitivity": 1.0, "rounds": 2},
    "discrete-laplace": {"scale": 4.0, "delta": 1e-8, "sensitivity": 1, "rounds": 2},
    "discrete-gaussian": {"scale": 4.0, "delta": 1e-8, "sensitivity": 1, "rounds": 2},
    "sampling": {"epsilon": 2.0, "q": 0.1},
    "sampling-visible": {"epsilon": 2.0, "q": 0.1, "n": 20_000, "delta": 1e-6},
    "dummies-cost": {"intensity": 60.0, "delta": 1e-8},
    "donation": {"epsilon": 1.0, "delta": 1e-8, "m": 20},
    "composition": COMPOSED,
    "heterogeneous": {"steps": ((0.2, 1e-9), (0.5, 1e-8)) * 6, "total_delta": 1e-6},
}
CHEAP = [
    (name, solve)
    for name in ("shuffle-fmt22", "rr-exact", "flips-exact", "flips-vector", "gaussian", "sampling", "dummies-cost",
                 "composition", "shuffle-sampled", "sampling-visible")
    for solve in (*MECHANISMS[name].rising, *MECHANISMS[name].falling)
    if solve in ORDINARY[name]
]  # fmt: skip
COSTLY = [
    ("rappor-exact", "e0"),
    pytest.param("subsampled-gaussian", "sigma", marks=pytest.mark.slow),
    pytest.param("subsampled-gaussian", "q", marks=pytest.mark.slow),
    ("laplace", "scale"),
    pytest.param("discrete-gaussian", "scale", marks=pytest.mark.slow),
    ("discrete-laplace", "rounds"),
    ("donation", "m"),
    ("heterogeneous", "total_delta"),
]


def solved(name: str, solve: str, target: float, relation: Relation | None = None) -> Calibration:
    others = {key: value for key, value in ORDINARY[name].items() if key != solve}
    found = calibrate(name, solve, target, others, relation)
    anew = explain(name, {**others, solve: found.value}, relation)
    assert anew["epsilon"] == found.answer["epsilon"] <= target
    return found


def assert_nothing_more_fits(found: Calibration, name: str, target: float) -> None:
    """The next whole number, or a real number further by ten times the tolerance, is over the target."""
    sign = 1 if found.solved in MECHANISMS[name].rising else -1
    whole = MECHANISMS[name].integral(found.solved)
    further = int(found.value) + sign if whole else found.value * (1 + sign * 10 * TOLERANCE)
    others = {key: value for key, value in ORDINARY[name].items() if key != found.solved}
    with contextlib.suppress(Refusal):
        assert explain(name, {**others, found.solved: further}, found.relation)["epsilon"] > target


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(CHEAP), st.floats(0.7, 1.4))
def test_what_calibration_finds_keeps_the_target_and_wastes_nothing(case: tuple[str, str], factor: float) -> None:
    name, solve = case
    target = explain(name, ORDINARY[name])["epsilon"] * factor
    if safest(name, solve) > target:
        with pytest.raises(Refusal, match="keeps epsilon"):
            solved(name, solve, target)
        return
    found = solved(name, solve, target)
    if not at_an_end(found):
        assert_nothing_more_fits(found, name, target)


def safest(name: str, solve: str) -> float:
    """The least epsilon that any value of the parameter gives."""
    bounds = (WHOLE if MECHANISMS[name].integral(solve) else RANGES)[solve]
    value = bounds.low if solve in MECHANISMS[name].rising else bounds.high
    most = math.inf if name == "sampling-visible" else 10**6
    return explain(name, {**ORDINARY[name], solve: min(value, most)})["epsilon"]


def at_an_end(found: Calibration) -> bool:
    return found.value in (1, 2) or found.value >= 0.999


@pytest.mark.parametrize(("name", "solve"), [*CHEAP, *COSTLY])
def test_calibration_returns_to_the_parameter_that_gave_the_target(name: str, solve: str) -> None:
    target = explain(name, ORDINARY[name])["epsilon"] * (1 + 1e-9)
    found = solved(name, solve, target)
    original = ORDINARY[name][solve]
    if solve in MECHANISMS[name].rising:
        assert found.value >= original * (1 - 1e-3)
    else:
        assert found.value <= original * (1 + 1e-3)


def test_calibration_agrees_with_the_inverses_that_devices_and_builders_use() -> None:
    shuffled = {"n": 100_000, "delta": 1e-8}
    e0 = calibrate("shuffle-fmt22", "epsilon0", 0.5, shuffled)
    assert e0.value == pytest.approx(6.202, abs=1e-3)
    assert e0.value == pytest.approx(largest_epsilon0(local_planner_of(Krr).keeps, 100_000, 1e-8, 0.5), abs=2e-4)
    reports = calibrate("shuffle-fmt22", "B", 0.5, {"e0": 4.0, "delta": 1e-8})
    assert local_planner_of(Krr).keeps(4.0, int(reports.value), 1e-8, 0.5)
    assert not local_planner_of(Krr).keeps(4.0, int(reports.value) - 1, 1e-8, 0.5)
    rate = calibrate("sampling-visible", "q", 0.5, {"epsilon": 2.0, "n": 10_000, "delta": 1e-6}).value
    reached, beyond = (amplify_visible(2.0, q, 10_000, 1e-6) for q in (rate, rate * (1 + 1e-4)))
    assert reached is not None
    assert beyond is not None
    assert reached <= 0.5 < beyond
    noise = calibrate("gaussian", "sigma", 1.0, {"delta": 1e-8}, Relation.REPLACEMENT).value
    assert noise == pytest.approx(sigma_gaussian(1.0, 1e-8, 2.0), rel=2e-6)
    assert calibrate("dummies-cost", "lambda", 1.0, {"delta": 1e-8}).value == pytest.approx(
        dummy_intensity(1.0, 1e-8), rel=1e-5
    )
    share = noise_share(1.0, 1e-8, 5000)
    found = calibrate("flips-exact", "scale", 1.0, {"flips": share.flips, "n": 5000, "delta": 1e-8})
    assert found.value == share.scale


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["gaussian", "composition", "flips-exact", "shuffle-fmt22", "rr-exact", "dummies-cost"]),
    st.data(),
)
def test_epsilon_moves_with_each_parameter_as_the_table_says(name: str, data: st.DataObject) -> None:
    entry, ordinary = MECHANISMS[name], ORDINARY[name]
    moved = data.draw(st.sampled_from([key for key in (*entry.rising, *entry.falling) if key in ordinary]))
    factor = data.draw(st.floats(1.01, 2.5))
    value = ordinary[moved]
    more = math.ceil(value * factor) if entry.integral(moved) else value * factor
    before, after = (explain(name, {**ordinary, moved: one})["epsilon"] for one in (value, more))
    assert after >= before * (1 - 1e-6) if moved in entry.rising else after <= before * (1 + 1e-6)


STEP = st.tuples(st.floats(0.001, 2), st.floats(0, 1e-8))


@settings(max_examples=25, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=12), STEP, st.floats(1, 2))
def test_a_composition_grows_with_every_step_every_epsilon_and_every_delta(
    steps: list[tuple[float, float]], further: tuple[float, float], factor: float
) -> None:
    def epsilon(some: list[tuple[float, float]], key: str = "epsilon") -> float:
        return explain("heterogeneous", {"steps": tuple(some), "total_delta": 1e-6})[key]

    (first, delta), *others = steps
    for key in ("epsilon", "epsilon_light"):
        alone = epsilon(steps, key) * (1 - 1e-4)
        assert epsilon([*steps, further], key) >= alone
        assert epsilon([(first * factor, delta), *others], key) >= alone
        assert epsilon([(first, delta * factor), *others], key) >= alone


@pytest.mark.parametrize(
    ("name", "solve", "target", "rule"),
    [
        ("nothing-of-this-name", "e0", 1.0, "mechanism-unknown"),
        ("dummies", "intensity", 1.0, "calibrate-parameter"),
        ("gaussian", "q", 1.0, "calibrate-parameter"),
        ("krr", "k", 1.0, "calibrate-parameter"),
        ("gaussian", "sigma", 0.0, "calibrate-target"),
        ("gaussian", "sigma", math.nan, "calibrate-target"),
        ("gaussian", "sigma", 1.0, "gaussian-parameters"),
        ("shuffle-fmt22", "e0", 1.0, "shuffle-fmt22-parameters"),
    ],
)
def test_what_cannot_be_solved_for_is_refused_by_name(name: str, solve: str, target: float, rule: str) -> None:
    with pytest.raises(Refusal) as refused:
        calibrate(name, solve, target, {})
    assert refused.value.rule == rule


def test_a_target_out_of_reach_is_refused_with_the_range_that_was_searched() -> None:
    with pytest.raises(Refusal, match=r"no flips from 1 to 65536 keeps epsilon 0.01") as refused:
        calibrate("flips-exact", "flips", 0.01, {"scale": 1000, "n": 10, "delta": 1e-8})
    assert refused.value.rule == "target-unreachable"
    with pytest.raises(Refusal, match="leave it out"):
        calibrate("gaussian", "sigma", 1.0, {"sigma": 2.0, "delta": 1e-8})
    with pytest.raises(Refusal, match="choose one of replacement"):
        calibrate("shuffle-fmt22", "e0", 1.0, {"n": 100, "delta": 1e-8}, Relation.ADD_REMOVE)


def test_the_command_solves_and_accounts_for_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--mechanism", "shuffle-fmt22", "--n", "100000", "--delta", "1e-8"]
    assert run(["privacy", "calibrate", *words, "--solve", "e0", "--epsilon", "0.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["solve"], found["relation"], found["target"]) == ("e0", "replacement", 0.5)
    assert found["epsilon"] <= 0.5
    assert run(["privacy", "explain", *words, "--e0", repr(found["value"]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == found["epsilon"]
    step = ["--step-epsilon", "2", "--epsilon", "0.5", "--solve", "q"]
    assert run(["privacy", "calibrate", "--mechanism", "sampling", *step]) == 0
    assert "0.10153" in capsys.readouterr().out
    assert run(["privacy", "calibrate", *words, "--solve", "sigma", "--epsilon", "0.5"]) == 1
    assert "can be solved for e0, n, delta, not for sigma" in capsys.readouterr().err
