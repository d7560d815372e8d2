"""The recipe server takes the model file that a live round names, whole or not at all, and hands it out in pieces."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.learning import training_series
from recipe_server.handlers import MODELS
from recipe_server.models import MOST_BYTES
from tacit import media_types
from tacit.errors import Abort
from tacit.recipe.training import MODEL_PIECE
from tacit.service.app import METRICS
from tests.http.model_stage import (
    BINARY,
    ENDED_SECONDS,
    KIT,
    MODEL,
    OTHER,
    OTHER_PATH,
    PATH,
    POLICY,
    SERIES,
    ModelServer,
    model_server,
    round_of,
)
from tests.http.test_recipe_server import URL


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ModelServer]:
    async with model_server(tmp_path) as running:
        yield running


async def test_of_two_training_runs_with_one_name_the_log_takes_one_until_it_is_over(server: ModelServer) -> None:
    again = training_series(KIT, 1, slot=3)
    assert again.name == SERIES.name
    assert again.hash != SERIES.hash
    assert await server.refused(KIT.series_leaf(again)) == "series-name"
    await server.publish(KIT.series_leaf(training_series(KIT, 1, slot=3, name="another")))
    assert await server.refused(KIT.series_leaf(training_series(KIT, 1, slot=1))) == "series-name"
    await server.publish(KIT.series_end_leaf(SERIES), KIT.series_leaf(training_series(KIT, 1, slot=1)))


async def test_a_file_that_a_round_names_is_taken_and_handed_out_unchanged(server: ModelServer) -> None:
    assert not await server.serves()
    assert [await server.stored(MODEL.file) for _ in range(2)] == [201, 200]
    found = await server.get(f"{PATH}/0")
    assert found.body == MODEL.file
    assert found.headers["content-type"] == media_types.OCTET_STREAM
    assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
    head = await server.network.request("HEAD", f"{URL}{PATH}/0")
    assert (head.status, head.headers["content-length"], head.body) == (200, str(len(MODEL.file)), b"")
    await server.network.unmount(URL)
    await server.begin()
    assert await server.serves(), "also after a restart"


@pytest.mark.parametrize("number", ["1", "17", "18", "9" * 19, "9" * 20, "-1", "x", "%30", ""])
async def test_there_is_no_other_piece(server: ModelServer, number: str) -> None:
    await server.stored(MODEL.file)
    wanted = 200 if number == "%30" else 404
    await server.get(f"{PATH}/{number}", status=wanted)


async def test_what_the_log_does_not_name_is_refused_and_nothing_is_stored(server: ModelServer) -> None:
    file = MODEL.file
    assert await server.refuses(OTHER.file, OTHER_PATH) == (404, "problem:model-unknown")
    assert await server.refuses(OTHER.file) == (422, "refusal:model-hash")
    for wrong in (b"", file[:-1], file + b"\0", bytes(1 << 20)):
        assert await server.refuses(wrong) == (422, "refusal:model-length")
    for path in ("/v1/models/short", PATH[:-1], PATH + "A", PATH + "=", "/v1/models/" + "A" * 43):
        assert (await server.put(file, path)).status == 404
    assert (await server.put(file, Content_Type=media_types.JSON)).status == 415
    assert (await server.put(file, Content_Encoding="gzip")).status == 415
    assert (await server.put(file, Expect="200-maybe")).status == 417
    assert (await server.network.request("POST", URL + PATH, headers=BINARY, body=file)).status == 405
    assert not await server.serves()
    assert await server.stored(file) == 201


async def test_a_file_stays_as_long_as_the_round_is_shown_and_is_then_deleted(server: ModelServer) -> None:
    await server.stored(MODEL.file)
    await server.after(round_of(), ENDED_SECONDS - 1)
    assert await server.stored(MODEL.file) == 200
    await server.after(round_of(), ENDED_SECONDS)
    assert not await server.serves()
    assert await server.refuses(MODEL.file) == (404, "problem:model-unknown")
    assert await server.app[MODELS].step() == 0


async def test_after_a_void_round_the_next_one_trains_the_same_file_without_a_new_upload(server: ModelServer) -> None:
    first = round_of()
    await server.publish(*(KIT.opt_in_leaf(first, role) for role in ("leader", "helper")))
    await server.stored(MODEL.file)
    await server.after(first, 60)
    await server.publish(*(KIT.void_leaf(first, role) for role in ("leader", "helper")))
    assert await server.stored(MODEL.file) == 200
    await server.publish(KIT.recipe_leaf(round_of(2)))
    await server.after(first, ENDED_SECONDS)
    assert await server.stored(MODEL.file) == 200
    await server.after(round_of(2), ENDED_SECONDS)
    assert not await server.serves()


async def test_a_round_that_comes_after_its_file_was_deleted_makes_it_welcome_again(server: ModelServer) -> None:
    await server.stored(MODEL.file)
    await server.after(round_of(), ENDED_SECONDS)
    await server.publish(KIT.recipe_leaf(round_of(2)))
    assert not await server.serves()
    assert await server.stored(MODEL.file) == 201


async def test_files_that_do_not_fit_are_refused_until_others_are_over(server: ModelServer) -> None:
    await server.network.unmount(URL)
    await server.begin(model_bytes=len(MODEL.file) + len(OTHER.file) - 1)
    await server.publish(KIT.recipe_leaf(round_of(2, OTHER)))
    await server.stored(MODEL.file)
    assert await server.refuses(OTHER.file, OTHER_PATH) == (507, "problem:models-full")
    assert await server.stored(MODEL.file) == 200
    server.clock.jump(round_of().interval.end + ENDED_SECONDS - server.clock.now())
    assert await server.stored(OTHER.file, OTHER_PATH) == 201, "although nobody has looked for files to delete"
    assert not await server.serves(), "and the bound holds for what is stored"


async def test_the_file_of_a_round_that_is_over_gives_way_to_that_of_one_that_is_not(server: ModelServer) -> None:
    await server.network.unmount(URL)
    await server.begin(model_bytes=len(MODEL.file) + len(OTHER.file) - 1)
    await server.publish(KIT.recipe_leaf(round_of(2, OTHER)))
    await server.stored(MODEL.file)
    await server.after(round_of(), 0)
    assert await server.serves(), "while there is room"
    assert await server.stored(OTHER.file, OTHER_PATH) == 201
    assert not await server.serves()
    assert await server.refuses(MODEL.file) == (507, "problem:models-full"), "and does not come back in its place"
    assert await server.serves(OTHER_PATH)


async def test_an_analyst_cannot_take_the_share_of_another(server: ModelServer) -> None:
    await server.publish(KIT.recipe_leaf(round_of(2, OTHER)))
    await server.network.unmount(URL)
    both = {**(POLICY.analysts or {}), "other.example": KIT.parties().analyst.signing_key}
    changes = {"model_bytes": 2 * len(MODEL.file), "policy": POLICY.model_copy(update={"analysts": both})}
    await server.begin(**changes)
    await server.stored(MODEL.file)
    assert await server.refuses(OTHER.file, OTHER_PATH) == (507, "problem:models-full"), "although half is free"
    await server.network.unmount(URL)
    with server.database() as database:
        database.execute("UPDATE round_models SET analyst = 'other.example' WHERE model != ?", (sha(MODEL.file),))
    await server.begin(**changes)
    assert await server.stored(OTHER.file, OTHER_PATH) == 201
    assert await server.serves(), "and nobody loses a file by that"


def sha(file: bytes) -> bytes:
    return hashlib.sha256(file).digest()


async def test_of_uploads_at_the_same_time_one_stores_the_file(server: ModelServer) -> None:
    answers = await asyncio.gather(*(server.put(MODEL.file) for _ in range(3)), server.put(OTHER.file))
    assert sorted(answer.status for answer in answers) == [200, 200, 201, 422]
    assert (await server.get(f"{PATH}/0")).body == MODEL.file


async def test_of_more_files_than_may_wait_in_memory_the_last_ones_are_to_come_back(server: ModelServer) -> None:
    file = bytes(MOST_BYTES)
    puts = [server.app[MODELS].put(hashlib.sha256(file).digest(), file) for _ in range(6)]
    found = await asyncio.gather(*puts, return_exceptions=True)
    assert [one.status for one in found if isinstance(one, Abort)] == [404] * 4 + [503] * 2


async def test_a_server_that_lost_its_files_takes_them_again(server: ModelServer) -> None:
    await server.stored(MODEL.file)
    await server.network.unmount(URL)
    with server.database() as database:
        database.execute("DELETE FROM model_pieces")
    await server.begin()
    assert not await server.serves()
    assert await server.stored(MODEL.file) == 201
    assert await server.serves()


async def test_the_metrics_show_how_much_is_stored(server: ModelServer) -> None:
    for stored in (0, len(MODEL.file)):
        page = (await server.app[METRICS].page()).decode()
        assert re.findall(r"^tacit_log_model_bytes (\S+)$", page, re.MULTILINE) == [f"{float(stored)}"]
        await server.stored(MODEL.file)


async def test_a_long_file_is_handed_out_in_pieces(server: ModelServer) -> None:
    file = bytes(range(251)) * (2 * MODEL_PIECE // 251 + 1)
    path = await server.name(file)
    assert await server.stored(file, path) == 201
    pieces = [(await server.get(f"{path}/{number}")).body for number in range(3)]
    assert b"".join(pieces) == file
    assert [len(piece) for piece in pieces] == [MODEL_PIECE, MODEL_PIECE, len(file) - 2 * MODEL_PIECE]
    await server.get(f"{path}/3", 404)
