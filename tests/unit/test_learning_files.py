"""Model files, the model that a round states, and the architectures of recipes: what is written is read back, and
nothing else is taken."""

from __future__ import annotations

import hashlib
import math
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.learning import model_file
from tacit.learning.architectures import architecture_of
from tacit.recipe.training import MAX_CLIP, MAX_ENTRIES, RoundModel, Training, read_round_model

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
HASH = b64url(bytes(range(32)))


def training(**changed: Any) -> Training:
    body: dict[str, Any] = {
        "architecture": {"kind": "softmax", "inputs": 3, "classes": 2},
        "steps": 1,
        "learning_rate": "0.5",
    }
    return Training.model_validate({**body, **changed})


def two_layer(inputs: int, hidden: int, classes: int) -> dict[str, Any]:
    return {"kind": "two-layer", "inputs": inputs, "hidden": hidden, "classes": classes}


@given(st.lists(SINGLES, min_size=1, max_size=40))
def test_a_model_file_holds_its_entries_as_written_by_hand(entries: list[float]) -> None:
    data = model_file.encode(np.array(entries))
    assert data == b"tacit-m1" + struct.pack(f"<I{len(entries)}f", len(entries), *entries)
    assert model_file.decode(data).tolist() == entries
    assert model_file.encode(model_file.decode(data)) == data


@given(st.binary(max_size=64) | st.binary(max_size=40).map(lambda rest: b"tacit-m1" + rest))
def test_any_other_bytes_are_refused_with_a_typed_error_or_are_exactly_a_model_file(data: bytes) -> None:
    try:
        entries = model_file.decode(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            model_file.require_numbers(data)
        return
    model_file.require_numbers(data)
    assert model_file.encode(entries) == data


@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
def test_an_entry_that_is_not_finite_is_neither_written_nor_read(entry: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        model_file.encode(np.array([1.0, entry]))
    data = b"tacit-m1" + struct.pack("<I2f", 2, 1.0, entry)
    for read in (model_file.decode, model_file.require_numbers):
        with pytest.raises(DecodeError, match="not a finite number"):
            read(data)


def test_an_entry_beyond_single_precision_and_a_table_are_no_model() -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        model_file.encode(np.array([1e300]))
    with pytest.raises(ValueError, match="one dimension"):
        model_file.encode(np.ones((2, 2)))
    with pytest.raises(ValueError, match="one dimension"):
        model_file.encode(np.ones(MAX_ENTRIES + 1))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"tacit-m1",
        b"tacit-m2" + struct.pack("<If", 1, 1.0),
        b"tacit-m1" + struct.pack("<I", 0),
        b"tacit-m1" + struct.pack("<If", 2, 1.0),
        b"tacit-m1" + struct.pack("<If", 1, 1.0) + b"\0",
        b"tacit-m1" + struct.pack("<If", MAX_ENTRIES + 1, 1.0),
    ],
)
def test_a_file_with_another_mark_count_or_length_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        model_file.entries_of(data)


def test_a_file_is_named_by_the_hash_of_all_its_bytes() -> None:
    data = model_file.encode(np.array([0.5, -1.0]))
    assert model_file.name_of(data) == b64url(hashlib.sha256(data).digest())
    assert model_file.is_named(data, model_file.name_of(data))
    assert not model_file.is_named(data[:-1] + b"\1", model_file.name_of(data))
    assert not model_file.is_named(data, "é")


@given(st.integers(1, 50), st.integers(1, 20), st.integers(2, 9), st.booleans())
def test_a_training_states_as_many_entries_as_its_models_have(
    inputs: int, hidden: int, classes: int, adaptive: bool
) -> None:
    extra: dict[str, Any] = {"quantile": {"weight": "0.1"}} if adaptive else {}
    for spec in (two_layer(inputs, hidden, classes), {"kind": "softmax", "inputs": inputs, "classes": classes}):
        found = training(architecture=spec, **extra)
        initial = architecture_of(found.architecture).initial(7)
        assert (len(initial), found.length) == (found.parameters, found.parameters + adaptive)
        assert found.file_bytes == len(model_file.encode(initial))


@pytest.mark.parametrize(
    "changed",
    [
        {"architecture": two_layer(1 << 19, 3, 2)},
        {"architecture": {"kind": "softmax", "inputs": 3, "classes": 1}},
        {"architecture": {"kind": "softmax", "inputs": 0, "classes": 2}},
        {"architecture": {"kind": "forest", "inputs": 3, "classes": 2}},
        {"learning_rate": 1001},
        {"learning_rate": 0},
        {"learning_rate": 0.5},
        {"steps": 0},
        {"steps": 10_001},
        {"batch_size": 0},
        {"quantile": {"weight": 0}},
        {"dropout": "0.5"},
    ],
)
def test_a_training_beyond_its_bounds_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        training(**changed)


@given(st.integers(1, MAX_CLIP) | st.sampled_from(["0.5", "0.000000001", "999999.5"]))
def test_the_model_of_a_round_is_read_back_from_its_text(clip: int | str) -> None:
    stated = RoundModel(bytes=training().file_bytes, clip=clip, model=HASH)
    assert read_round_model(stated.text(), training()) == stated


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "\ud800",
        f'{{"bytes":44,"clip":"0.50","model":"{HASH}"}}',
        f'{{"bytes":44,"clip":0,"model":"{HASH}"}}',
        f'{{"bytes":44,"clip":{MAX_CLIP + 1},"model":"{HASH}"}}',
        f'{{"bytes":44,"clip":0.5,"model":"{HASH}"}}',
        f'{{"bytes":48,"clip":"0.5","model":"{HASH}"}}',
        f'{{"clip":"0.5","bytes":44,"model":"{HASH}"}}',
        f'{{"bytes":44,"clip":"0.5","model":"{HASH}","more":1}}',
        f'{{"bytes":44,"clip":"0.5","model":"{HASH[:-1]}"}}',
    ],
)
def test_a_round_input_that_is_not_the_canonical_form_of_a_fitting_model_is_refused(text: str) -> None:
    assert training().file_bytes == 44
    with pytest.raises(DecodeError):
        read_round_model(text, training())


def test_names_and_forms_of_models_are_checked_without_numpy() -> None:
    program = """
import sys
from tacit.learning import model_file
from tacit.recipe.training import Training
data = b"tacit-m1" + (1).to_bytes(4, "little") + bytes(4)
assert model_file.entries_of(data) == 1 and model_file.is_named(data, model_file.name_of(data))
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
