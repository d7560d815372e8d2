"""The recipe server's model files in each kind of database."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from infra.lab.kit.learning import LEARNING, training_series
from infra.lab.kit.recipes import RecipeKit
from recipe_server.models import Named, pieces_of
from recipe_server.store import RecipeStore
from tacit.codec import b64url
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.recipe.training import MODEL_PIECE, RoundModel, Softmax, Training

KIT = RecipeKit()
ANALYST = KIT.parties().analyst.operator
WIDE = Training(architecture=Softmax(kind="softmax", inputs=3, classes=2), steps=2, learning_rate="0.5")
Opening = Callable[[Callable[[str], RecipeStore]], AbstractAsyncContextManager[RecipeStore]]
FILE = bytes(range(256)) * (2 * MODEL_PIECE // 256) + b"rest"
FIRST, SECOND = bytes([1]) * 32, bytes([2]) * 32


@functools.cache
def narrow() -> Series:
    return training_series(KIT)


@functools.cache
def wider() -> Series:
    return training_series(KIT, spec=LEARNING.model_copy(update={"training": WIDE, "length": WIDE.length}), slot=8)


def round_of(index: int, model: bytes, series: Series | None = None) -> Recipe:
    series = series or narrow()
    spec = series.probe.question.encoder
    assert isinstance(spec, Update)
    stated = RoundModel(bytes=spec.training.file_bytes, clip=1, model=b64url(model))
    return KIT.round(series, index, stated.text())


async def logged(store: RecipeStore, *recipes: Recipe) -> None:
    async with store.transaction() as tx:
        for index, series in enumerate((narrow(), wider())):
            await tx.series.add(series, index)
        for recipe in recipes:
            await tx.add_recipe(recipe, 1 + recipe.interval.start)


async def test_a_file_is_read_back_in_pieces(opening: Opening) -> None:
    async with opening(RecipeStore) as store:
        await logged(store, round_of(0, FIRST))
        async with store.transaction() as tx:
            await tx.models.put(FIRST, FILE)
        async with store.read() as tx:
            found = [await tx.models.piece(FIRST, number) for number in range(4)]
            assert found == [FILE[:MODEL_PIECE], FILE[MODEL_PIECE:-4], b"rest", None]
            assert (await tx.models.holds(FIRST), await tx.models.holds(SECOND)) == (True, False)
            assert await tx.models.piece(FIRST, (1 << 63) - 1) is None
            assert await tx.models.taken(0) == len(FILE)


async def test_a_file_is_stored_whole_or_not_at_all(opening: Opening) -> None:
    async with opening(RecipeStore) as store:
        await logged(store, round_of(0, FIRST))

        async def fail_in_between() -> None:
            async with store.transaction() as tx:
                await tx.models.put(FIRST, FILE)
                raise RuntimeError("killed in between")

        with pytest.raises(RuntimeError, match="killed"):
            await fail_in_between()
        async with store.read() as tx:
            assert not await tx.models.holds(FIRST)
            assert await tx.models.taken(0) == 0


async def test_a_model_is_live_until_the_last_round_that_names_it_is_over(opening: Opening) -> None:
    first, other, again = round_of(0, FIRST), round_of(1, SECOND), round_of(2, FIRST)
    async with opening(RecipeStore) as store:
        await logged(store, first, other, again)
        async with store.transaction() as tx:
            await tx.models.put(FIRST, FILE)
            await tx.models.put(SECOND, b"short")
        for gone, left in ((first.interval.end, (FIRST, SECOND)), (other.interval.end, (FIRST,))):
            async with store.transaction() as tx:
                assert await tx.models.taken(gone) == sum({FIRST: len(FILE), SECOND: 5}[one] for one in left)
                assert await tx.models.forget(gone) == 2 - len(left)
                assert {one.model for one in await tx.models.named(gone)} == set(left)
                assert [one for one in (FIRST, SECOND) if await tx.models.holds(one)] == list(left)
        async with store.transaction() as tx:
            assert await tx.models.forget(again.interval.end) == len(pieces_of(FILE))
            assert await tx.models.named(again.interval.end) == []


async def test_rounds_may_state_different_lengths_for_one_hash(opening: Opening) -> None:
    """Whoever publishes a round with a wrong length keeps nobody from sending the file of another round."""
    early, late = round_of(0, FIRST), round_of(1, FIRST, wider())
    async with opening(RecipeStore) as store:
        await logged(store, early, late)
        async with store.read() as tx:
            ends = early.interval.end, late.interval.end
            assert await tx.models.named(0) == [Named(FIRST, 36, ANALYST, ends[0]), Named(FIRST, 44, ANALYST, ends[1])]
            assert [one.length for one in await tx.models.named(early.interval.end)] == [44]


async def test_files_that_are_not_kept_are_deleted(opening: Opening) -> None:
    async with opening(RecipeStore) as store:
        await logged(store, round_of(0, FIRST), round_of(1, SECOND))
        async with store.transaction() as tx:
            await tx.models.put(FIRST, FILE)
            await tx.models.put(SECOND, b"short")
            await tx.models.keep([SECOND, bytes(32)])
            assert [await tx.models.holds(one) for one in (FIRST, SECOND)] == [False, True]
