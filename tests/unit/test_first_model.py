"""The model with which a run begins: arrays of an application, in one row and back, and what is no such model."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from infra.lab.kit.learning import LEARNING, external, model_of
from tacit.errors import DecodeError, UsageError
from tacit.learning import model_file
from tacit.learning.architectures import architecture_of
from tacit.learning.first_model import OwnModel, first_model, flat, split_into_shapes
from tacit.learning.local import local_update
from tacit.recipe.training import MAX_ENTRIES, External

MODEL = model_of(LEARNING, seed=1)
SPEC = external(MODEL).training.architecture
SINGLES = arrays.array_shapes(max_dims=3, max_side=4).flatmap(
    lambda shape: arrays.arrays(np.float32, shape, elements=st.floats(-1e6, 1e6, width=32))
)


def npz(**found: Any) -> bytes:
    written = io.BytesIO()
    np.savez(written, allow_pickle=True, **found)
    return written.getvalue()


def npy(array: Any) -> bytes:
    written = io.BytesIO()
    np.save(written, array, allow_pickle=True)
    return written.getvalue()


@given(st.lists(SINGLES, min_size=1, max_size=5))
def test_arrays_in_a_file_are_one_row_in_their_order_and_the_same_arrays_again(
    found: list[np.ndarray[Any, Any]],
) -> None:
    names = {f"layer_{9 - number}": array for number, array in enumerate(found)}
    model = OwnModel.read(npz(**names), "first.npz")
    row = model_file.decode(model.file)
    assert row.tolist() == [float(number) for array in found for number in array.ravel()]
    again = model.arrays(row)
    assert list(again) == list(names)
    assert all(np.array_equal(again[name], array) for name, array in names.items())
    assert model.spec == External(kind="external", entries=row.size, initial=model_file.name_of(model.file))
    assert first_model(model.spec, 0, model.file).tolist() == row.tolist()


def test_an_array_and_a_model_file_are_models_too() -> None:
    array = np.arange(6.0).reshape(2, 3)
    for data in (npy(array), npy(np.asfortranarray(array))):
        model = OwnModel.read(data, "first.npy")
        assert model_file.decode(model.file).tolist() == [0, 1, 2, 3, 4, 5]
        assert model.shapes == {"parameters": (2, 3)}
    assert OwnModel.read(MODEL.file, "first.bin") == OwnModel(MODEL.file, {"parameters": (6,)})


def huge() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(1 << 26))
    return written.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"weights", "not a model file"),
        (b"", "not a model file"),
        (b"PK", "not arrays of numbers"),
        (npz(a=np.ones(3))[:-20], "not arrays of numbers"),
        (npy(np.ones(3))[:-1], "not arrays of numbers"),
        (npy(np.array([{}])), "not arrays of numbers"),
        (npy(np.ones(3)).replace(b"(3,), }" + b" " * 16, b"(3" + b"0" * 16 + b",), }"), "not arrays of numbers"),
        (npz(a=np.ones(3), b=np.array([{}])), "not arrays of numbers"),
        (npz(), "there is no array"),
        (npz(weights=np.ones(3), seen=np.array(4)), "seen holds int64, and a model floating-point numbers"),
        (npy(np.array([1.0, np.nan])), "not a finite number"),
        (npy(np.zeros(0)), f"a model has 1 to {MAX_ENTRIES} parameters"),
        (npy(np.zeros(MAX_ENTRIES + 1, np.float16)), f"a model has 1 to {MAX_ENTRIES} parameters"),
        (huge(), f"a model has at most {MAX_ENTRIES} numbers"),
    ],
)
def test_anything_else_is_refused_in_a_line_that_names_the_file(data: bytes, words: str) -> None:
    with pytest.raises(DecodeError, match=f"^own: .*{words}"):
        OwnModel.read(data, "own")


@pytest.mark.parametrize(
    ("spec", "initial", "words"),
    [
        (SPEC, None, "give the file of the first one: --initial FILE"),
        (SPEC, model_of(LEARNING, seed=2).file, "the plan begins with another one"),
        (SPEC.model_copy(update={"entries": 7}), MODEL.file, "--initial has 6 entries, and"),
        (LEARNING.training.architecture, MODEL.file, "leave --initial out"),
    ],
)
def test_a_run_begins_with_the_file_that_its_plan_names_and_with_no_other(
    spec: Any, initial: bytes | None, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        first_model(spec, 0, initial)
    assert first_model(SPEC, 0, MODEL.file).tolist() == model_file.decode(MODEL.file).tolist()


def test_nothing_but_the_application_computes_with_its_model() -> None:
    for use in (
        lambda: architecture_of(SPEC),
        lambda: local_update(external(MODEL).training, np.zeros(6), None, np.random.default_rng(0)),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError, match="only the application"):
            use()


def test_a_row_of_another_length_fills_no_arrays() -> None:
    found: Mapping[str, Any] = {"a": np.ones((2, 2)), "b": np.array(3.0)}
    row = flat(found.values())
    assert [part.shape for part in split_into_shapes(row, [(2, 2), ()])] == [(2, 2), ()]
    with pytest.raises(ValueError, match="5 parameters do not fill arrays of 4"):
        split_into_shapes(row, [(2, 2)])
