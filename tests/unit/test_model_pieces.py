"""The pieces of a model file: together they are the file, as many as its round says, and each fits one answer."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from infra.lab.kit.learning import LEARNING, model_of, training_series
from infra.lab.kit.recipes import RecipeKit
from recipe_server.models import MOST_BYTES, pieces_of
from recipe_server.models import model_of as named_model
from tacit import bhttp, ohttp
from tacit.codec import b64url
from tacit.media_types import OCTET_STREAM
from tacit.recipe.training import MODEL_PIECE, RoundModel

NEAR_BORDERS = st.builds(lambda count, more: count * MODEL_PIECE + more, st.integers(1, 17), st.integers(-2, 2))
LENGTHS = st.integers(16, MOST_BYTES) | NEAR_BORDERS
CONTENT = bytes(range(251)) * (MOST_BYTES // 251 + 1)
"""Its period divides no piece, so that no two pieces are alike."""


@given(LENGTHS)
@example(16)
@example(MODEL_PIECE)
@example(MOST_BYTES)
def test_pieces_are_the_file_cut_where_every_reader_expects_it(length: int) -> None:
    file = CONTENT[:length]
    pieces = pieces_of(file)
    stated = RoundModel(bytes=length, clip=1, model=b64url(bytes(32)))
    assert b"".join(pieces) == file
    assert len(pieces) == stated.pieces
    assert {len(piece) for piece in pieces[:-1]} <= {MODEL_PIECE}
    assert 0 < len(pieces[-1]) <= MODEL_PIECE


@given(st.integers(1, MODEL_PIECE))
@example(MODEL_PIECE)
def test_a_piece_fits_an_answer_through_the_relay(length: int) -> None:
    fields = (("content-type", OCTET_STREAM), ("cache-control", "public, max-age=31536000, immutable"))
    answer = bhttp.encode_response(bhttp.Response(200, fields, bytes(length)))
    assert ohttp.size_class(len(answer) + 1024) in ohttp.SIZE_CLASSES


def test_only_recipes_that_train_name_a_model() -> None:
    kit, stated = RecipeKit(), model_of(LEARNING, 1).stated()
    assert named_model(kit.round(training_series(kit), 0, stated.text())) == stated
    assert named_model(kit.recipe()) is None
    assert named_model(kit.round(kit.series(), 0, "a text for data sources")) is None
