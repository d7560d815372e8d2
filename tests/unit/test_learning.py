"""Gradients against finite differences, many devices against one, and optimisers against their written-out rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.learning import local, model_file
from tacit.learning.architectures import Architecture, architecture_of
from tacit.learning.local import Examples, examples_of, local_update, room, sent_vector, sent_vectors
from tacit.learning.optimisers import FedAdam, FedAvg, Optimiser
from tacit.recipe.training import Training

SPECS: list[dict[str, Any]] = [
    {"kind": "softmax", "inputs": 4, "classes": 3},
    {"kind": "two-layer", "inputs": 4, "hidden": 5, "classes": 3},
]


def training(spec: dict[str, Any] = SPECS[0], **changed: Any) -> Training:
    return Training.model_validate({"architecture": spec, "steps": 1, "learning_rate": "0.5", **changed})


@pytest.fixture(params=SPECS, ids=lambda spec: spec["kind"])
def model(request: pytest.FixtureRequest) -> Architecture:
    return architecture_of(training(request.param).architecture)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20261127)


def drawn(random: np.random.Generator, *shape: int) -> Examples:
    return Examples(random.standard_normal((*shape, 4)), random.integers(0, 3, shape))


def test_gradients_are_those_of_finite_differences_of_the_loss(
    model: Architecture, random: np.random.Generator
) -> None:
    at, few = random.standard_normal(model.parameters), drawn(random, 6)
    weights = random.random(6)
    found = model.gradient(at, few.features, few.labels, weights)
    for entry, step in enumerate(1e-6 * np.eye(model.parameters)):
        above, below = (model.loss(at + sign * step, few.features, few.labels, weights) for sign in (1, -1))
        assert found[entry] == pytest.approx(float(above - below) / 2e-6, abs=1e-7)


def test_the_loss_of_softmax_regression_is_the_mean_of_written_out_cross_entropies(random: np.random.Generator) -> None:
    model, few = architecture_of(training().architecture), drawn(random, 5)
    at = random.standard_normal(15)
    total = 0.0
    for row, label in zip(few.features.tolist(), few.labels.tolist(), strict=True):
        logits = [sum(row[i] * at[3 * i + c] for i in range(4)) + at[12 + c] for c in range(3)]
        total += math.log(sum(map(math.exp, logits))) - logits[label]
    assert float(model.loss(at, few.features, few.labels)) == pytest.approx(total / 5)


def test_logits_that_would_overflow_have_a_finite_loss_and_gradient(model: Architecture) -> None:
    at, features = np.full(model.parameters, 50.0), np.full((1, 4), 100.0)
    assert np.isfinite(model.loss(at, features, np.array([0])))
    assert np.isfinite(model.gradient(at, features, np.array([0]))).all()


def test_many_devices_at_once_have_the_losses_and_gradients_of_each_alone(
    model: Architecture, random: np.random.Generator
) -> None:
    at, many = random.standard_normal((7, model.parameters)), drawn(random, 7, 6)
    weights = np.where(np.arange(6) < random.integers(1, 7, 7)[:, np.newaxis], 1.0, 0.0)
    losses = model.loss(at, many.features, many.labels, weights)
    gradients = model.gradient(at, many.features, many.labels, weights)
    for device in range(7):
        own = slice(0, int(weights[device].sum()))
        alone = many.features[device, own], many.labels[device, own]
        assert losses[device] == pytest.approx(float(model.loss(at[device], *alone)))
        np.testing.assert_allclose(gradients[device], model.gradient(at[device], *alone), atol=1e-12)


def test_the_same_seed_gives_the_same_first_model_and_a_network_begins_with_different_units() -> None:
    regression, network = (architecture_of(training(spec).architecture) for spec in SPECS)
    assert not regression.initial(1).any()
    assert model_file.name_of(model_file.encode(network.initial(1))) == "ZtXepaewwvcY1DNEcjjNcm9M22jxnnikXUILFNntPB0"
    assert 0.7 < np.abs(network.initial(1)[:20]).max() / math.sqrt(6 / 4) < 1
    assert (network.initial(1) != network.initial(2)).any()
    assert len(set(network.initial(1)[:20].tolist())) == 20


def test_accuracy_is_the_share_of_examples_whose_label_has_the_largest_logit() -> None:
    model = architecture_of(training().architecture)
    at = np.concatenate([np.eye(4, 3).ravel(), np.zeros(3)])
    features = np.eye(3, 4)
    assert model.accuracy(at, features, np.array([0, 1, 2])) == 1.0
    assert model.accuracy(at, features, np.array([0, 1, 1])) == pytest.approx(2 / 3)


def test_an_update_is_that_of_written_out_gradient_descent(model: Architecture, random: np.random.Generator) -> None:
    spec = SPECS[0] if model.parameters == 15 else SPECS[1]
    at, own = model.initial(3), drawn(random, 6)
    by_hand = at.astype(np.float64)
    for _ in range(4):
        by_hand = by_hand - 0.25 * model.gradient(by_hand, own.features, own.labels)
    found = local_update(training(spec, steps=4, learning_rate="0.25"), at, own, random)
    np.testing.assert_allclose(found, by_hand - at, rtol=1e-12, atol=1e-15)


def test_batches_use_every_example_once_before_one_is_used_again(random: np.random.Generator) -> None:
    one_hot = Examples(np.eye(4), np.zeros(4, dtype=np.int64))
    once = training(steps=2, batch_size=2, learning_rate="0.001")
    again = training(steps=4, batch_size=2, learning_rate="0.001")
    used = np.abs(local_update(once, np.zeros(15, dtype=np.float32), one_hot, random)[:12].reshape(4, 3)[:, 0])
    twice = np.abs(local_update(again, np.zeros(15, dtype=np.float32), one_hot, random)[:12].reshape(4, 3)[:, 0])
    np.testing.assert_allclose(used, used[0], rtol=0.01)
    np.testing.assert_allclose(twice, 2 * used, rtol=0.01)


def test_an_update_that_is_not_finite_is_an_error(random: np.random.Generator) -> None:
    own = Examples(np.full((2, 4), 1e300), np.array([0, 1]))
    with pytest.raises(ValueError, match="not finite"):
        local_update(training(steps=9, learning_rate=1000), np.zeros(15, dtype=np.float32), own, random)


def test_examples_are_features_and_then_a_class() -> None:
    found = examples_of(training().architecture, [1, 2, 3, 4, 0, 5, 6, 7, 8, 2])
    assert found.features.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert (found.labels.tolist(), len(found)) == ([0, 2], 2)


@pytest.mark.parametrize(
    "numbers",
    [[], [1, 2, 3, 4], [1, 2, 3, 4, 3], [1, 2, 3, 4, -1], [1, 2, 3, 4, 0.5], [math.nan, 2, 3, 4, 0], [1, 2, 3, 4, "x"]],
)
def test_numbers_that_are_no_examples_are_refused_without_telling_them(numbers: list[Any]) -> None:
    with pytest.raises(DecodeError) as refused:
        examples_of(training().architecture, numbers)
    assert "x" not in str(refused.value).removeprefix("examples")


@given(st.lists(st.floats(-1e6, 1e6), min_size=15, max_size=15), st.floats(1e-3, 1e3), st.booleans())
def test_what_is_sent_keeps_the_direction_and_is_never_longer_than_the_norm(
    entries: list[float], clip: float, adaptive: bool
) -> None:
    extra: dict[str, Any] = {"quantile": {"weight": "0.1"}} if adaptive else {}
    update, weight = np.array(entries), 0.1 if adaptive else 0.0
    found = sent_vector(training(**extra), update, clip, 1.0)
    assert len(found) == 15 + adaptive
    assert np.linalg.norm(found) <= 1 + 1e-12
    length = float(np.linalg.norm(update)) / clip
    factor = min(1.0, room(1.0, weight) / length) if length else 1.0
    np.testing.assert_allclose(found[:15], update / clip * factor, rtol=1e-9, atol=1e-300)
    if adaptive:
        assert found[15] == (0.1 if factor == 1.0 else -0.1)


def test_the_vectors_of_many_devices_are_those_of_each(random: np.random.Generator) -> None:
    updates = random.standard_normal((5, 15)) * np.array([[1e-3], [1e-2], [1], [10], [100]])
    adaptive = training(quantile={"weight": "0.2"})
    many = sent_vectors(adaptive, updates, 0.7, 1.0)
    for row, update in zip(many, updates, strict=True):
        np.testing.assert_array_equal(row, sent_vector(adaptive, update, 0.7, 1.0))
    assert {*np.sign(many[:, -1])} == {-1.0, 1.0}


def by_hand_average(rate: float, momentum: float, start: float, updates: list[float]) -> float:
    at, velocity = start, 0.0
    for update in updates:
        velocity = momentum * velocity + update
        at = float(np.float32(at + rate * velocity))
    return at


def by_hand_adam(start: float, updates: list[float]) -> float:
    at, first, second = start, 0.0, 0.01**2
    for update in updates:
        first = 0.8 * first + (1 - 0.8) * update
        second = 0.95 * second + (1 - 0.95) * (update * update)
        at = float(np.float32(at + 0.3 * first / (math.sqrt(second) + 0.01)))
    return at


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=6))
def test_server_optimisers_follow_their_written_out_rules_to_the_last_bit(updates: list[tuple[float, float]]) -> None:
    start = np.array([0.25, -3.0], dtype=np.float32)

    def after(optimiser: Optimiser) -> list[float]:
        at = start
        for update in updates:
            at = optimiser.step(at, np.array(update))
        assert at.dtype == np.float32
        found: list[float] = at.tolist()
        return found

    columns = [list(column) for column in zip(*updates, strict=True)]
    pairs = list(zip(start.tolist(), columns, strict=True))
    assert after(FedAvg(0.7, 0.9)) == [by_hand_average(0.7, 0.9, *pair) for pair in pairs]
    assert after(FedAdam(0.3, 0.8, 0.95, 0.01)) == [by_hand_adam(*pair) for pair in pairs]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FedAvg(0),
        lambda: FedAvg(math.inf),
        lambda: FedAvg(1, 1),
        lambda: FedAdam(tau=0),
        lambda: FedAdam(beta1=1),
        lambda: FedAdam(beta2=-0.1),
        lambda: FedAvg().step(np.zeros(2, dtype=np.float32), np.zeros(3)),
    ],
)
def test_an_optimiser_refuses_rates_out_of_range_and_updates_of_another_shape(make: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|does not fit"):
        make()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec["kind"])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_gradient_in_slices_is_that_of_the_whole_batch(
    spec: dict[str, Any], batch_size: int | None, random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, few = training(spec, steps=3, batch_size=batch_size), drawn(random, 11)
    at = random.standard_normal(own.parameters)
    whole = local_update(own, at, few, np.random.default_rng(7))
    monkeypatch.setattr(local, "_CELLS", 3 * architecture_of(own.architecture).width)
    assert local_update(own, at, few, np.random.default_rng(7)) == pytest.approx(whole)


def test_a_training_gives_up_within_a_step_when_its_time_is_over(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def is_over() -> bool:
        asked.append(len(asked) == 4)
        return asked[-1]

    own, few = training(steps=1), drawn(random, 30)
    monkeypatch.setattr(local, "_CELLS", 3)
    with pytest.raises(TimeoutError):
        local_update(own, np.zeros(own.parameters), few, random, is_over)
    assert len(asked) == 5
