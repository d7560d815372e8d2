"""``tacit figures --measure``: what is expected of a run, that runs come to it, and that a wrong one is noticed.

Runs of the pipeline take their randomness from the operating system: a point is off by 6 standard errors with
probability below 1e-5 (a gamma tail, see ``infra.lab.measure.comparison.false_alarm``). Simulated data have fixed
seeds.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infra.cli import run
from infra.lab.measure.comparison import FURTHEST, Measured, false_alarm, write_csv
from infra.lab.measure.curves import Budget, dense, sparse
from infra.lab.measure.drawing import draw, table, verdict
from infra.lab.measure.experiments import CELLS, MOST_DEVICES, TOLERANCE, Experiment, experiments, noise_shares
from infra.lab.measure.figures import Figure, Panel
from infra.lab.measure.runs import measure
from infra.views.terminal import answers
from tacit.methods.estimators.registry import estimator_of
from tacit.recipe.derive import sample_design

BUDGET = Budget()
ALPHA = 1e-6
DENSE = dense(BUDGET, 4000, 20, 1, 400)
SPARSE = sparse(BUDGET, 4000, 20, 0.2, 1, 300)
SMALL = [
    Experiment(name, model, point)
    for name, point in (("Figure 5: dense", DENSE), ("Figure 6: sparse", SPARSE))
    for model in ("Agg", "SampAgg")
]
"""Four thousand devices, two panels, both models."""


def drawn(experiment: Experiment, runs: int, seed: int = 1) -> Measured:
    """Errors of ``runs`` runs drawn as sums, without devices."""
    rng = np.random.default_rng(seed)
    truth = np.array(experiment.probabilities)
    rates, design = np.array(experiment.rates), sample_design(experiment.sampling)
    shares, population = experiment.shares, experiment.point.population
    errors = []
    for _ in range(runs):
        counts = rng.binomial(rng.multinomial(population, truth), rates)
        noise = rng.binomial(int(counts.sum()) * shares.flips, 0.5, len(counts))
        sums = (shares.scale * counts + noise).tolist()
        found = np.array(estimator_of(shares).estimate(sums, int(counts.sum()), design).values) / population
        errors.append(float(np.square(found - truth)[experiment.first :].sum()))
    return Measured(experiment, tuple(errors))


@pytest.mark.slow
@pytest.mark.false_alarm(1e-5, "a gamma tail, see ``infra.lab.measure.comparison``", runs=10)
def test_small_runs_of_the_whole_pipeline_come_to_what_is_expected() -> None:
    told: list[float] = []
    found = measure(SMALL, 6, told.append)
    assert [one.experiment for one in found] == SMALL
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
    for one in found:
        assert len(set(one.errors)) == 6
        assert abs(one.z) < 6, one.document()


@pytest.mark.slow
@pytest.mark.false_alarm(2e-6, "two normals beyond five")
@pytest.mark.parametrize(
    "experiment",
    [SMALL[0], *(pytest.param(one, marks=pytest.mark.slow) for one in SMALL[1:])],
    ids=[f"{one.panel} {one.model}" for one in SMALL],
)
def test_expectation_and_deviation_are_those_of_very_many_runs(experiment: Experiment) -> None:
    """Over the choice of seeds the mean is further away with probability 6e-7, the deviation with less than 1e-6."""
    found = drawn(experiment, 4000)
    assert abs(found.z) < FURTHEST
    ratio = found.stderr / experiment.deviation(4000)
    assert abs(ratio - 1) < 0.1


@pytest.mark.parametrize("experiment", SMALL, ids=[f"{one.panel} {one.model}" for one in SMALL])
def test_what_is_expected_differs_from_the_curve_by_the_stated_terms_alone(experiment: Experiment) -> None:
    point, cells = experiment.point, experiment.point.cells
    sampling = point.nonpriv_unif if experiment.model == "Agg" else point.nonpriv_imp or point.nonpriv_unif
    rate = experiment.rates[-1]
    measured = cells - experiment.first
    finite = 1 - rate * experiment.gamma / measured
    noise = measured / cells * (experiment.sigma_achieved / experiment.sigma) ** 2
    assert experiment.expected == pytest.approx(sampling * finite + (experiment.curve - sampling) * noise)
    assert abs(experiment.sigma_achieved / experiment.sigma - 1) <= TOLERANCE


def test_noise_of_another_size_is_noticed() -> None:
    for experiment in SMALL:
        point = experiment.point
        lying = replace(point, sigma_agg=2 * point.sigma_agg, sigma_samp=2 * point.sigma_samp)
        honest = drawn(experiment, 400)
        assert honest.holds
        assert not Measured(replace(experiment, point=lying), honest.errors).holds


@pytest.mark.parametrize("sigma", [0.2, 0.77, 4.2247, 66.8])
@pytest.mark.parametrize("reports", [300.0, 1000.0, 20_000.0])
def test_flips_and_scale_come_close_to_the_wanted_noise(sigma: float, reports: float) -> None:
    shares = noise_shares(sigma, reports, 10)
    assert math.sqrt(reports * shares.flips) / (2 * shares.scale) == pytest.approx(sigma, rel=TOLERANCE)
    with pytest.raises(ValueError, match="no noise shares"):
        noise_shares(1e-9, reports, 10)


def test_only_the_panels_that_are_meant_are_measured() -> None:
    points = (dense(BUDGET, 20_000, CELLS, 1, 1000), sparse(BUDGET, 20_000, CELLS, 0.1, 1, 1000))
    assert [one.model for one in experiments("Figure 5", points)] == ["Agg", "SampAgg"]
    assert [one.point.gamma for one in experiments("Figure 6", points)] == [0.1, 0.1]
    assert experiments("Figure 2", points) == []
    assert experiments("Figure 5", [dense(BUDGET, 20_000, 50, 1, 1000)]) == []


def test_measured_points_come_as_pictures_table_and_numbers(tmp_path: Path) -> None:
    points = tuple(dense(BUDGET, 20_000, CELLS, 1, messages) for messages in (1000, 2000))
    found = [drawn(one, 20) for one in experiments("Figure 5", points)]
    off = Measured(found[0].experiment, tuple(2 * error for error in found[0].errors))
    png, svg = draw(found, BUDGET, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "20 runs a point" in svg.read_text()
    with write_csv(found, tmp_path / "measured.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["messages"], row["model"]) for row in rows] == [
        ("1000", "Agg"), ("1000", "SampAgg"), ("2000", "Agg"), ("2000", "SampAgg"),
    ]  # fmt: skip
    assert float(rows[1]["measured"]) == found[1].mean
    assert 0 < false_alarm(found) < 1e-4
    assert verdict(found).startswith("no point is more than 5")
    assert verdict([off, *found[1:]]).startswith("1 of 4 points are")
    console = answers(130)
    with console.capture() as shown:
        console.print(table([off, *found[1:]]))
    assert shown.get().count(" off") == 1


@pytest.mark.slow
@pytest.mark.false_alarm(2e-3, "two points of two runs each further off than five errors", runs=10)
def test_the_command_measures_the_points_of_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure(5, "Dense", 1, (Panel("K = 100, T = 1", (dense(BUDGET, 20_000, CELLS, 1, 1000),)),))
    monkeypatch.setattr("infra.lab.measure.figures.draw_up", lambda *_arguments: [figure])
    arguments = ["figures", "--out", str(tmp_path), "--population", "20000", "--measure", "--runs", "2", "--json"]
    assert run(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["model"], one["runs"]) for one in document["measured"]] == [("Agg", 2), ("SampAgg", 2)]
    assert {path.name for path in tmp_path.iterdir()} == {Path(name).name for name in document["files"]}
    assert "SampAgg, measured" in (tmp_path / "figure5.svg").read_text()
    off = [Measured(one, (9.0, 9.1)) for one in experiments("Figure 5", figure.panels[0].points)]
    monkeypatch.setattr("infra.lab.measure.runs.measure", lambda *_arguments: off)
    monkeypatch.setattr("infra.lab.measure.figures.write", lambda *_arguments: [])
    monkeypatch.setattr("infra.lab.measure.drawing.draw", lambda *_arguments: [])
    assert run(arguments[:-1]) == 1
    assert "2 of 2 points are more than" in capsys.readouterr().out


def test_a_population_that_cannot_be_simulated_is_refused_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures"
    for population in ("100000000", str(MOST_DEVICES + 1)):
        assert run(["figures", "--out", str(out), "--population", population, "--measure"]) == 1
        assert "200,000 at most: pass --population 100000" in capsys.readouterr().err
    assert run(["figures", "--out", str(out), "--measure", "--runs", "1"]) == 2
    assert not out.exists()
