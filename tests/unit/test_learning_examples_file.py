"""Examples in files: CSV and both forms of JSON say the same, and what is wrong is said with its place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.learning.architectures import architecture_of
from tacit.learning.examples_file import examples_in
from tacit.recipe.training import Softmax, TwoLayer

SPEC = Softmax(kind="softmax", inputs=2, classes=3)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2)), min_size=1, max_size=20)


@given(ROWS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_the_same_examples_are_read_from_csv_and_from_json(
    rows: list[tuple[float, float, int]], end: str, is_marked: bool
) -> None:
    lines = end.join(",".join(map(repr, row)) for row in rows)
    files = [
        (b"\xef\xbb\xbf" if is_marked else b"") + (lines + end).encode(),
        json.dumps([list(row) for row in rows]).encode(),
        json.dumps([number for row in rows for number in row]).encode(),
    ]
    for data in files:
        found = examples_in(SPEC, data, "test")
        assert found.features.tolist() == [[one, other] for one, other, _ in rows]
        assert found.labels.tolist() == [label for *_, label in rows]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "test.csv: there are no examples"),
        (b"[]", "test.csv: there are no examples"),
        (b"1,2,0\n1,2\n", "test.csv: line 2 has 2 numbers, and an example 3: 2 features and the class"),
        (b"x,y,class\n1,2,0\n", "test.csv: line 1 is not numbers with commas between"),
        (b"1,2,0\n\n", "test.csv: line 2 is not numbers with commas between"),
        (b"\xff1,2,0", "test.csv: not UTF-8 text"),
        (b"[[1,2,0],[1,2]]", "test.csv: row 2 has 2 numbers"),
        (b"[[1,2,0],7]", "test.csv: row 2 has 1 number"),
        (b"[1,2,0,4]", "test.csv: row 2 has 1 number"),
        (b'[[1,2,"0"],', "test.csv: not JSON in UTF-8"),
        (b'[[1,2,"a"]]', "test.csv: examples: something is not a number"),
        (b"1,2,3", "test.csv: examples: a class is not a whole number below 3"),
        (b"1,inf,0", "test.csv: examples: a number is not finite"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(data: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match="^" + said):
        examples_in(SPEC, data, "test.csv")


def test_the_layers_of_a_model_are_its_parameters_in_their_order() -> None:
    for spec in (SPEC, TwoLayer(kind="two-layer", inputs=2, hidden=4, classes=3)):
        model = architecture_of(spec)
        layers = model.layers(np.arange(spec.parameters, dtype=np.float32))
        joined = np.concatenate([part.ravel() for part in layers.values()])
        assert joined.tolist() == list(range(spec.parameters))
        assert layers["weights"].shape[1] == layers["biases"].size == 3
