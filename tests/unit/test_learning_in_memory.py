"""Training in memory: devices' vectors are those of the recipe's encoder, and noise is as large as it is said to be."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from infra.lab.commands.bench import app
from infra.lab.learning.bench import (
    CENTRAL,
    LIES,
    NONE,
    OURS,
    PLAN,
    central_noise,
    document,
    measured,
    own_noise,
    planned,
)
from infra.lab.learning.peers import written
from infra.lab.learning.population import EXAMPLES, TESTED, data_set, digits, population
from infra.lab.learning.rounds import Liars, encoded, trained
from tacit.dp.repeated.shares import epsilon_share_rounds
from tacit.dp.reports import NoiseStep
from tacit.dp.vector_noise import VectorStep
from tacit.errors import DecodeError, FieldError, UsageError
from tacit.learning.local import room_for_units
from tacit.learning.plan import EXAMPLE, Plan
from tacit.recipe.encoder import VectorEncoder
from tacit.recipe.encoder_specs import Vector
from tacit.recipe.training import Softmax

TRAINING: dict[str, Any] = EXAMPLE["training"]  # type: ignore[assignment]


def test_many_devices_encode_what_the_encoder_of_the_recipe_makes_of_each() -> None:
    random = np.random.default_rng(3)
    spec = Vector.model_validate(
        {"kind": "vector", "low": "-0.4", "high": "0.4", "unit": "0.01", "norm": 1, "length": 40}
    )
    encoder, middle = VectorEncoder(spec), 40
    rows = random.standard_normal((60, 40)) * np.geomspace(0.01, 1, 60)[:, np.newaxis]
    ours = encoded(rows, spec) + middle
    theirs = [encoder.encode([float(entry) for entry in row]) for row in rows]
    assert [tuple(row) for row in ours.tolist()] == theirs
    assert any(not np.array_equal(np.rint(row * 100), made) for row, made in zip(rows, ours - middle, strict=True))


def test_no_vector_is_longer_than_the_norm_and_few_are_shrunk_once_more() -> None:
    random = np.random.default_rng(4)
    rows = random.standard_normal((400, 650))
    spec = PLAN.encoder
    rows *= room_for_units(650, spec.radius) / np.linalg.norm(rows, axis=1, keepdims=True)
    made = encoded(rows, spec)
    assert ((made * made).sum(axis=1) <= spec.radius**2).all()
    assert (made == np.rint(rows * spec.radius)).all(axis=1).mean() > 0.9


def test_no_device_has_a_digit_of_the_test_set_and_a_device_has_few_kinds() -> None:
    train, test = digits().train, digits().test
    people = population(2000, 5)
    assert len(test) == TESTED
    features, labels = people.examples(np.arange(2000))
    assert labels.shape == (2000, EXAMPLES)
    known = {row.tobytes() for row in train.features.astype(np.float32)}
    assert {row.tobytes() for row in features.reshape(-1, features.shape[-1])} <= known
    assert known.isdisjoint(row.tobytes() for row in test.features.astype(np.float32))
    assert np.mean([len(set(row)) for row in labels.tolist()]) < 4
    assert np.array_equal(population(2000, 5).held, people.held)


@pytest.mark.slow
def test_the_noise_keeps_the_claims_that_stand_beside_it() -> None:
    plan = planned(10_000, 2.0)
    own, spec = own_noise(plan), plan.encoder
    vector = VectorStep.replaced(650, spec.maximum, spec.radius, one_signed=False)
    step = NoiseStep(own.share.scale, own.share.flips, vector=vector)
    assert epsilon_share_rounds(step, 400, plan.rounds, 1e-6, 0.05) <= 2.0
    central = central_noise(plan)
    assert own.size(spec, 500) == pytest.approx(math.sqrt(500 * own.share.flips) / (200 * own.share.scale))
    assert 2 < own.size(spec, 500) / central.size(spec, 500) < 3


def test_the_central_noise_is_that_of_another_accountant() -> None:
    accountant = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    sigma = central_noise(PLAN).sigma

    def epsilon(of: float) -> float:
        one = accountant.from_gaussian_mechanism(
            of, sampling_prob=0.05, value_discretization_interval=1e-3, use_connect_dots=True
        )
        return float(one.self_compose(PLAN.rounds).get_epsilon_for_delta(1e-6))

    assert epsilon(sigma) <= 2.0 < epsilon(sigma - 0.01)


def test_a_run_has_the_same_rounds_for_the_same_seed_and_learns() -> None:
    people, noise = population(2000, 6), own_noise(planned(10_000, 4.0))
    rounds = trained(people, PLAN, noise, 6)
    assert rounds == trained(people, PLAN, noise, 6)
    assert rounds != trained(people, PLAN, noise, 7)
    assert rounds[-1].loss < rounds[0].loss < math.log(10)
    assert all(50 < one.contributions < 160 for one in rounds)


def test_liars_add_what_a_proof_lets_through_and_no_more_and_do_harm() -> None:
    """One in fifty of those that take part; with noise that a device chooses freely the same ones leave nothing."""
    people, noise = population(2000, 6), own_noise(planned(10_000, 4.0))
    assert noise.longest == pytest.approx(3.51, abs=0.02), "clips; a device's own noise is 2.5 long"
    plan = Plan.model_validate({**EXAMPLE, "rounds": 12})
    honest, few, free = (
        trained(people, plan, one, 6, liars)[-1]
        for one, liars in ((noise, None), (noise, Liars(0.02)), (replace(noise, longest=49.2), Liars(0.02)))
    )
    assert honest.loss < few.loss < free.loss
    assert free.accuracy < 0.4 < few.accuracy


@pytest.mark.slow
def test_lines_say_what_is_private_and_their_document_holds_every_accuracy() -> None:
    lines = list(measured(5000, (4.0,), 1))
    made = document(lines, 5000)
    assert [line["kind"] for line in made["lines"]][:3] == [NONE, CENTRAL, OURS]
    assert [line["private"] for line in made["lines"]] == [False] + [True] * (2 + len(LIES))
    assert [line["influence_norms"] for line in made["lines"]][:2] == [None, None]
    accuracy = {line["kind"]: line["accuracy"] for line in made["lines"]}
    lies = [accuracy[f"{OURS}, {name}"] for name in LIES]
    assert accuracy[OURS] - 0.06 < lies[0] < accuracy[OURS] + 0.01, "one in a hundred costs some points at most"
    assert lies[3] < 0.6, "a hundredth of all devices, in every round, is a fifth of a round: too many"
    assert all(line["accuracies"] == [line["accuracy"]] for line in made["lines"])


@pytest.mark.slow
def test_too_few_devices_for_an_epsilon_are_refused_with_what_would_do() -> None:
    with pytest.raises(FieldError, match=r"no noise share keeps 0\.1 over 30 rounds"):
        own_noise(planned(1000, 0.1))


def test_a_plan_that_sends_less_than_half_of_each_update_learns_too() -> None:
    sparing = Plan.model_validate({**EXAMPLE, "training": {**TRAINING, "projection": {"entries": 256}}})
    plan = planned(2000, 4.0, sparing)
    assert (plan.min_batch_size, plan.training.sent) == (80, 256)
    rounds = trained(population(2000, 6), plan, None, 6)
    assert rounds[-1].accuracy > 0.85 > rounds[0].accuracy


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture": {"kind": "softmax", "inputs": 64, "classes": 9}}, "must have 64 inputs and 10 classes"),
        ({"batch_size": 4}, "must be at least 8"),
    ],
)
def test_a_plan_that_does_not_train_on_the_digits_is_refused(changes: dict[str, Any], said: str) -> None:
    other = Plan.model_validate({**EXAMPLE, "training": {**TRAINING, **changes}})
    with pytest.raises(FieldError, match=said):
        next(measured(10_000, (2.0,), 1, base=other))


def test_examples_of_ones_own_are_scaled_split_and_dealt_out() -> None:
    """Classes 0 and 2 of three: nobody has an example of the class that is not there."""
    spec = Softmax(kind="softmax", inputs=2, classes=3)
    lines = [f"{4 if at % 2 else -4},{at / 100},{2 * (at % 2)}" for at in range(100)]
    data = data_set(spec, "\n".join(lines).encode(), "points.csv")
    assert (len(data.train), len(data.test)) == (80, 20)
    assert np.abs(data.train.features).max() == 1
    people = population(300, 1, data)
    assert set(np.unique(people.examples(np.arange(300))[1])) == {0, 2}
    assert len(people.test) == 20
    training = {**TRAINING, "architecture": spec.model_dump()}
    plan = Plan.model_validate({**EXAMPLE, "training": training, "devices": 300, "min_batch_size": 10, "epsilon": 15})
    assert trained(people, plan, None, 1)[-1].accuracy == 1


def test_too_few_examples_are_refused() -> None:
    spec = Softmax(kind="softmax", inputs=1, classes=2)
    with pytest.raises(DecodeError, match=r"few\.csv: 4 examples are too few"):
        data_set(spec, b"0,0\n1,1\n0,0\n1,1", "few.csv")


def test_the_command_prints_one_document() -> None:
    answer = CliRunner().invoke(app, ["learning", "--devices", "5000", "--epsilon", "4", "--seeds", "1", "--json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["devices"] == 5000


def test_what_a_peer_is_given_are_the_devices_and_coins_of_the_training_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "peer.npz"
    found = written(path, 2000, 11.0)
    assert set(found["lines"]) == {"no privacy", "central DP-SGD", "noise shares"}
    people = population(2000, 0)
    with np.load(path, allow_pickle=False) as given:
        assert given["sizes"].tolist() == [one.contributions for one in trained(people, PLAN, None, 0)]
        assert given["sizes"].sum() == len(given["takers"])
        features, labels = people.examples(np.arange(2000))
        assert np.array_equal(given["train_features"][given["held"]].astype(np.float32), features)
        assert np.array_equal(given["train_labels"][given["held"]], labels)
        assert given["rates"].tolist() == [1, 1, 0.7]
        assert given["accuracies"][0] == found["lines"]["no privacy"]["accuracy"]


def test_trainings_that_no_peer_is_given_are_refused(tmp_path: Path) -> None:
    changed = {**EXAMPLE, "server": {"kind": "fedadam", "learning_rate": "0.1"}}
    with pytest.raises(FieldError, match="fedavg"):
        written(tmp_path / "peer.npz", 2000, 11.0, Plan.model_validate(changed))
    assert not (tmp_path / "peer.npz").exists()


@pytest.mark.parametrize("name", ["peer.json", "there.npz", "missing/peer.npz"])
def test_a_peer_is_given_a_new_file_and_nothing_is_overwritten(name: str, tmp_path: Path) -> None:
    (tmp_path / "there.npz").write_bytes(b"kept")
    found = CliRunner().invoke(app, ["learning", "--devices", "2000", "--peer", str(tmp_path / name)])
    assert isinstance(found.exception, UsageError)
    assert "--peer takes a new file" in str(found.exception)
    assert (tmp_path / "there.npz").read_bytes() == b"kept"
