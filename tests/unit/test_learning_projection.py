"""Sending fewer numbers than an update has: the same projection everywhere, unbiased, as wrong as it says."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tacit.codec import b64url
from tacit.errors import DecodeError, FieldError
from tacit.learning.local import sent_vector, sent_vectors
from tacit.learning.plan import EXAMPLE, Plan
from tacit.learning.projection import Projected, projection_of, relative_error
from tacit.operations.learning.plans import forecast
from tacit.recipe.training import Training

TRAINING: dict[str, Any] = EXAMPLE["training"]  # type: ignore[assignment]


def seed(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(4, "big")).digest()


def training(**changes: Any) -> Training:
    return Training.model_validate({**TRAINING, "projection": {"entries": 256}, **changes})


def written_out(length: int, entries: int, seed: bytes) -> NDArray[np.float64]:
    """The matrix of a projection, from its definition: a dense Hadamard matrix, and bits read one by one."""
    matrix = np.ones((1, 1))
    while len(matrix) < length:
        matrix = np.kron(np.array([[1, 1], [1, -1]]), matrix)
    size = len(matrix)
    stream = hashlib.shake_128(b"tacit projection v1" + seed).digest(size // 8 + 1 + 8 * size)
    signs = [-1 if stream[at // 8] >> at % 8 & 1 else 1 for at in range(length)]
    words = [int.from_bytes(stream[size // 8 + 1 + 8 * at :][:8], "little") for at in range(size)]
    kept = sorted(sorted(range(size), key=lambda at: words[at])[:entries])
    found: NDArray[np.float64] = matrix[kept, :length] * signs / math.sqrt(entries)
    return found


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, bytes]:
    length = draw(st.integers(2, 70))
    return length, draw(st.integers(1, length - 1)), draw(st.binary(min_size=32, max_size=32))


@given(shapes())
def test_a_projection_is_its_definition_and_an_estimate_its_transpose(shape: tuple[int, int, bytes]) -> None:
    matrix, made = written_out(*shape), Projected(*shape)
    rows = np.random.default_rng(1).standard_normal((3, shape[0]))
    np.testing.assert_allclose(made.project(rows), rows @ matrix.T, atol=1e-12)
    sent = np.random.default_rng(2).standard_normal(shape[1])
    np.testing.assert_allclose(made.estimate(sent), matrix.T @ sent, atol=1e-12)


def test_a_projection_has_the_same_bits_everywhere() -> None:
    made = Projected(650, 256, seed(1)).project(np.arange(650.0).reshape(1, -1) / 650)
    named = hashlib.sha256(made.astype("<f8").tobytes()).hexdigest()
    assert named == "f3207cbe8666e117fc90b5828c2d1abf7f7f618c5aae4a6761f184df553cb0ad"


def test_estimates_are_unbiased_and_their_error_has_the_length_that_is_forecast() -> None:
    """Over 4,000 seeds; each mean lies within five standard errors (false alarms: below 1 in 200,000)."""
    update = np.array([3.0, -1.0, 0.5, 0.0, 2.0, -2.0, 1.0, 0.25])
    matrices = [written_out(8, 3, seed(number)) for number in range(4_000)]
    found = np.array([matrix.T @ (matrix @ update) for matrix in matrices])
    error = np.abs(found.mean(axis=0) - update) / (found.std(axis=0) / math.sqrt(len(found)))
    assert (error < 5).all()
    squares = ((found - update) ** 2).sum(axis=1) / (update @ update)
    expected = 8 / 3 - 1
    assert abs(squares.mean() - expected) < 5 * squares.std() / math.sqrt(len(squares)) + 1e-9


def test_noise_comes_out_with_the_size_that_it_had_on_each_number() -> None:
    made, random = Projected(200, 50, seed(3)), np.random.default_rng(4)
    noise = np.array([made.estimate(random.standard_normal(50)) for _ in range(400)])
    assert np.sqrt((noise**2).mean()) == pytest.approx(math.sqrt(256 / 256), rel=0.05)


def test_a_device_sends_the_projection_of_its_update_within_the_norm() -> None:
    name, spec = b64url(seed(5)), training()
    projected = projection_of(spec, name)
    assert projected is not None
    update = np.random.default_rng(6).standard_normal(650)
    small, large = update / 1000, update * 1000
    rows = sent_vectors(spec, np.stack((small, large)), 0.5, 1.0, projected)
    np.testing.assert_allclose(rows[0], projected.project(small[np.newaxis] / 0.5)[0])
    assert np.linalg.norm(rows[1]) == pytest.approx(1)
    np.testing.assert_allclose(rows[1] / rows[0], np.full(256, (rows[1] / rows[0])[0]))
    np.testing.assert_array_equal(rows[1], sent_vector(spec, large, 0.5, 1.0, projected))


def test_an_update_that_a_seed_was_sought_for_is_no_longer_than_any_other_when_it_is_sent() -> None:
    spec, name = training(), b64url(seed(4))
    projected = projection_of(spec, name)
    assert projected is not None
    sought = projected.estimate(np.ones(256))
    sought *= 0.9 / np.linalg.norm(sought)
    assert np.linalg.norm(projected.project(sought[np.newaxis])) > 1.2, "no seed makes more of an update"
    assert np.linalg.norm(sent_vector(spec, sought, 1.0, 1.0, projected)) == pytest.approx(1.0)


def test_a_projection_that_is_missing_or_of_another_training_is_never_sent() -> None:
    update = np.ones(650)
    other = projection_of(training(projection={"entries": 255}), b64url(seed(5)))
    for spec, projected in ((training(), None), (training(), other), (training(projection=None), other)):
        with pytest.raises(ValueError, match="do not belong together"):
            sent_vector(spec, update, 1.0, 1.0, projected)
    with pytest.raises(DecodeError):
        projection_of(training(), b64url(b"short"))


@pytest.mark.parametrize("entries", [650, 651, 0])
def test_a_projection_to_more_than_there_is_is_refused(entries: int) -> None:
    with pytest.raises(ValueError, match=r"projection|greater than or equal to 1"):
        training(projection={"entries": entries})


def test_a_plan_forecasts_what_its_projection_saves_and_costs() -> None:
    whole = forecast(Plan.model_validate(EXAMPLE))
    less = forecast(Plan.model_validate({**EXAMPLE, "training": {**TRAINING, "projection": {"entries": 256}}}))
    assert (whole.sent, less.sent, less.parameters) == (650, 256, 650)
    assert whole.projection_error == 0
    assert less.projection_error == pytest.approx(math.sqrt(1024 / 256 - 1))
    assert less.contribution_bytes < 0.5 * whole.contribution_bytes
    assert less.noise_length == pytest.approx(whole.noise_length, rel=0.01)
    assert less.projection_error == relative_error(training())


def test_a_model_that_is_too_large_to_send_fits_by_a_projection() -> None:
    large = {**TRAINING, "architecture": {"kind": "two-layer", "inputs": 64, "hidden": 256, "classes": 10}}
    with pytest.raises(FieldError, match="as by a `projection`"):
        Plan.read(json.dumps({**EXAMPLE, "training": large}).encode(), "plan")
    fitting = Plan.model_validate({**EXAMPLE, "training": {**large, "projection": {"entries": 800}}})
    assert forecast(fitting).contribution_bytes < 258_048
