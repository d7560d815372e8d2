"""Training in memory: devices' vectors are those of the recipe's encoder, and noise is as large as it is said to be."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from infra.lab.commands.bench import app
from infra.lab.learning.bench import CENTRAL, DELTA, NONE, OURS, SETTING, central_noise, document, measured, own_noise
from infra.lab.learning.population import EXAMPLES, TESTED, digits, population
from infra.lab.learning.rounds import encoded, room_for_units, trained
from tacit.dp.repeated.shares import epsilon_share_rounds
from tacit.dp.reports import NoiseStep
from tacit.dp.vector_noise import VectorStep
from tacit.recipe.encoder import VectorEncoder
from tacit.recipe.encoder_specs import Vector


def test_many_devices_encode_what_the_encoder_of_the_recipe_makes_of_each() -> None:
    random = np.random.default_rng(3)
    spec = Vector.model_validate(
        {"kind": "vector", "low": "-0.4", "high": "0.4", "unit": "0.01", "norm": 1, "length": 40}
    )
    encoder, middle = VectorEncoder(spec), SETTING.largest
    rows = random.standard_normal((60, 40)) * np.geomspace(0.01, 1, 60)[:, np.newaxis]
    ours = encoded(rows, SETTING) + middle
    theirs = [encoder.encode([float(entry) for entry in row]) for row in rows]
    assert [tuple(row) for row in ours.tolist()] == theirs
    assert any(not np.array_equal(np.rint(row * 100), made) for row, made in zip(rows, ours - middle, strict=True))


def test_no_vector_is_longer_than_the_norm_and_few_are_shrunk_once_more() -> None:
    random = np.random.default_rng(4)
    rows = random.standard_normal((400, 650))
    rows *= room_for_units(650, SETTING.radius) / np.linalg.norm(rows, axis=1, keepdims=True)
    made = encoded(rows, SETTING)
    assert ((made * made).sum(axis=1) <= SETTING.radius**2).all()
    assert (made == np.rint(rows * SETTING.radius)).all(axis=1).mean() > 0.9


def test_no_device_has_a_digit_of_the_test_set_and_a_device_has_few_kinds() -> None:
    train, test = digits()
    people = population(2000, 5)
    assert len(test) == TESTED
    assert people.labels.shape == (2000, EXAMPLES)
    known = {row.tobytes() for row in train.features.astype(np.float32)}
    held = {row.tobytes() for row in people.features.reshape(-1, people.features.shape[-1])}
    assert held <= known
    assert np.mean([len(set(row)) for row in people.labels.tolist()]) < 4
    again = population(2000, 5)
    assert np.array_equal(again.features, people.features)


def test_the_noise_keeps_the_claims_that_stand_beside_it() -> None:
    own = own_noise(2.0, 10_000)
    vector = VectorStep.replaced(650, 2 * SETTING.largest, SETTING.radius, one_signed=False)
    step = NoiseStep(own.share.scale, own.share.flips, vector=vector)
    assert epsilon_share_rounds(step, 400, SETTING.rounds, DELTA, SETTING.rate) <= 2.0
    central = central_noise(2.0)
    assert own.size(SETTING, 500) == pytest.approx(math.sqrt(500 * own.share.flips) / (200 * own.share.scale))
    assert 2 < own.size(SETTING, 500) / central.size(SETTING, 500) < 3


def test_the_central_noise_is_that_of_another_accountant() -> None:
    accountant = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    sigma = central_noise(2.0).sigma

    def epsilon(of: float) -> float:
        one = accountant.from_gaussian_mechanism(
            of, sampling_prob=SETTING.rate, value_discretization_interval=1e-4, use_connect_dots=True
        )
        return float(one.self_compose(SETTING.rounds).get_epsilon_for_delta(DELTA))

    assert epsilon(sigma) <= 2.0 < epsilon(sigma - 0.01)


def test_a_run_has_the_same_rounds_for_the_same_seed_and_learns() -> None:
    people, noise = population(2000, 6), own_noise(4.0, 10_000)
    rounds = trained(people, SETTING, noise, 6)
    assert rounds == trained(people, SETTING, noise, 6)
    assert rounds != trained(people, SETTING, noise, 7)
    assert rounds[-1].loss < rounds[0].loss < math.log(10)
    assert all(50 < one.contributions < 160 for one in rounds)


def test_lines_say_what_is_private_and_their_document_holds_every_accuracy() -> None:
    lines = list(measured(5000, (4.0,), 1))
    made = document(lines, 5000)
    assert [line["kind"] for line in made["lines"]][:3] == [NONE, CENTRAL, OURS]
    assert [line["private"] for line in made["lines"]] == [False, True, True, True]
    assert all(line["accuracies"] == [line["accuracy"]] for line in made["lines"])


def test_too_few_devices_for_an_epsilon_are_refused_in_one_line() -> None:
    answer = CliRunner().invoke(app, ["learning", "--devices", "1000", "--epsilon", "0.1", "--seeds", "1"])
    assert answer.exit_code == 2
    assert "more devices must contribute" in answer.output.replace("\n", " ").replace("│", "")


def test_the_command_prints_one_document() -> None:
    answer = CliRunner().invoke(app, ["learning", "--devices", "5000", "--epsilon", "4", "--seeds", "1", "--json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["devices"] == 5000
