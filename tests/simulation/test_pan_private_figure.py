"""``tacit figures pan-privacy``: the bound is the design's table, the algorithm without cryptography keeps its promise
exactly, what runs of encrypted state come to, and that a wrong one is noticed."""

from __future__ import annotations

import csv
import itertools
import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import infra.lab.measure.pan_private as theory
import infra.lab.measure.pan_private_runs as runs
from infra.cli import run
from infra.lab.measure.pan_private import STEPS, Stepwise, local_stderr, lower_bound
from infra.lab.measure.pan_private_drawing import table, verdict
from infra.lab.measure.pan_private_runs import Compared, Errors, encrypted, kept_devices, stepwise
from tacit.methods.base.draws import ONE

HALF = Decimal("0.5")
E1 = Decimal(1)


@pytest.mark.parametrize(
    ("epsilon0", "ratios"),
    [
        (0.5, (1.00, 3.14, 5.47, 9.99, 19.10, 31.62, 100.00)),
        (1.0, (1.00, 3.09, 5.43, 9.97, 19.09, 31.61, 100.00)),
        (2.0, (1.00, 2.86, 5.24, 9.86, 19.03, 31.58, 99.99)),
        (4.0, (1.00, 2.45, 4.39, 8.91, 18.44, 31.21, 99.87)),
    ],
)
def test_the_lower_bound_over_local_privacy_is_the_table_of_the_design(epsilon0: float, ratios: tuple[float]) -> None:
    found = [lower_bound(epsilon0, steps, 1000) / local_stderr(epsilon0, 1000) for steps in STEPS]
    assert found == pytest.approx(ratios, abs=0.0051)


def test_errors_of_a_hundred_thousand_devices_are_the_design_s() -> None:
    found = [lower_bound(1.0, steps, 100_000) for steps in (10, 100, 1000, 10_000)]
    assert found == pytest.approx((937, 3026, 9592, 30339), rel=2e-4)
    assert local_stderr(1.0, 100_000) == pytest.approx(303.4, abs=0.1)


def _streams(steps: int) -> list[tuple[int, ...]]:
    return [tuple(int(step == place) for step in range(steps)) for place in range(steps + 1)]


def _likelihood(machine: Stepwise, stream: tuple[int, ...], ones: tuple[int, ...]) -> Fraction:
    quiet, own = (Fraction(one, ONE) for one in machine._below)
    product = Fraction(1)
    for event, one in zip(stream, ones, strict=True):
        chance = own if event else 1 - quiet
        product *= chance if one else 1 - chance
    return product


@pytest.mark.parametrize("epsilon0", [HALF, E1, Decimal(4)])
def test_all_that_an_intruder_sees_of_the_algorithm_without_cryptography_is_epsilon0_private(epsilon0: Decimal) -> None:
    """Every pair of streams with at most one event, every sequence of states, in fractions: the ratio comes to
    e^epsilon0 (within 2^-100) and never exceeds it."""
    steps, most = 5, Fraction(epsilon0.exp())
    machine, worst = Stepwise(epsilon0, steps), Fraction(0)
    for ones in itertools.product((0, 1), repeat=steps):
        found = [_likelihood(machine, stream, ones) for stream in _streams(steps)]
        worst = max(worst, max(found) / min(found))
    assert worst <= most * (1 + Fraction(1, 10**27))  # the comparison's e^epsilon0 has 28 digits
    assert worst > most * (1 - Fraction(1, 10**20))


def test_a_step_draws_by_the_thresholds_that_the_enumeration_has() -> None:
    machine = Stepwise(E1, 3)
    quiet, own = machine._below
    for event, limit, below in ((0, quiet, 0), (1, own, 1)):
        for drawn, expected in ((limit - 1, below), (limit, 1 - below)):
            state = machine.step(event, 7, lambda size, drawn=drawn: drawn.to_bytes(size, "big"))
            assert state == 7 + expected


def test_its_estimate_is_unbiased_and_its_error_as_stated() -> None:
    """By the whole distribution of the states of one device."""
    steps = 6
    machine = Stepwise(E1, steps)
    for event in (0, 1):
        stream = tuple(int(step < event) for step in range(steps))
        law = [
            (float(_likelihood(machine, stream, ones)), machine.estimate(sum(ones)) - event)
            for ones in itertools.product((0, 1), repeat=steps)
        ]
        mean, square, fourth = (math.fsum(chance * error**power for chance, error in law) for power in (1, 2, 4))
        moments = machine.moments(event)
        assert mean == pytest.approx(0, abs=1e-9)
        assert square == pytest.approx(moments.second)
        assert fourth - square**2 == pytest.approx(moments.of_square)


def test_it_is_twice_the_bound_when_there_are_many_steps() -> None:
    assert Stepwise(E1, 10_000).stderr(10_000) / lower_bound(1.0, 10_000, 10_000) == pytest.approx(2, abs=0.003)


@pytest.mark.false_alarm(runs.FALSE_ALARM, "four normals beyond five", runs=2)
@pytest.mark.parametrize("steps", [1, 40])
def test_encrypted_state_comes_to_what_local_privacy_alone_would(steps: int) -> None:
    found = Compared(steps, E1, 600, stepwise(steps, E1, 600), encrypted(steps, E1, 600))
    assert found.holds, (found.ours_z, found.stepwise_z)
    assert found.ours.kept == kept_devices(steps, 600)


def test_few_states_are_kept_where_steps_are_many_and_always_as_many_with_an_event_as_without() -> None:
    kept = [kept_devices(steps, runs.CHUNK) for steps in STEPS]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == runs.CHUNK
    assert kept[-1] == runs.LEAST_KEPT
    assert not any(one % 2 for one in kept)


@pytest.mark.parametrize("planted", ["biased", "noisier", "quieter"])
def test_a_wrong_result_is_off(planted: str) -> None:
    squares = 10_000 * theory.flipped_bit(1.0).second
    right = Errors(0.0, squares, 10_000)
    wrong = {
        "biased": replace(right, total=6 * math.sqrt(squares)),
        "noisier": replace(right, squares=1.08 * squares),
        "quieter": replace(right, squares=0.92 * squares),
    }[planted]
    law = Errors(0.0, Stepwise(E1, 10).stderr(10_000) ** 2, 10_000)
    good, bad = Compared(10, E1, 10_000, law, right), Compared(10, E1, 10_000, law, wrong)
    assert good.holds
    assert not bad.holds
    assert "1 of 2 points are" in verdict([good, bad])
    assert table([good, bad]).row_count == 2


@pytest.mark.slow
def test_the_command_draws_writes_and_fails_where_a_point_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compared(asked: tuple[int, ...], epsilon0: Decimal, devices: int, tell: object) -> list[Compared]:
        ours = Errors(0.0, local_stderr(float(epsilon0), devices) ** 2, devices)
        laws = {steps: Errors(0.0, Stepwise(epsilon0, steps).stderr(devices) ** 2, devices) for steps in asked}
        found = [Compared(steps, epsilon0, devices, laws[steps], ours) for steps in asked]
        if planted:
            found[2] = replace(found[2], ours=replace(ours, squares=2 * ours.squares))
        return found

    monkeypatch.setattr(runs, "compare", compared)
    planted = False
    assert run(["figures", "pan-privacy", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert all(row["holds"] for row in document["rows"])
    assert sorted(Path(path).name for path in document["files"]) == [
        "pan-privacy.csv",
        "pan-privacy.png",
        "pan-privacy.svg",
    ]
    assert all(Path(path).stat().st_size > 500 for path in document["files"])
    with (tmp_path / "pan-privacy.csv").open() as file:
        assert [int(row["steps"]) for row in csv.DictReader(file)] == list(STEPS)
    planted = True
    assert run(["figures", "pan-privacy", "--out", str(tmp_path)]) == 1
    assert "1 of 7 points are more than 5 standard errors" in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_drawn_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["figures", "--epsilon", "1"]) == 2
    assert "--out is needed" in capsys.readouterr().err
    assert run(["figures", "pan-privacy", "--out", str(tmp_path), "--devices", "101"]) == 2
    assert "must be even" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
