"""The shuffler dies at every point where it stores something, loses answers, and runs as two processes: each message is
counted exactly once, and a request is only ever repeated with the same bytes."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import LOSE_RESPONSE, matching
from infra.lab.kit.recipes import RecipeKit
from infra.lab.kit.reports import BoundToken, issuer_key, token_source
from infra.lab.kit.shuffled import SHUFFLER_URL, Bundler
from services.shuffler.app import FORWARDING, STORE
from services.shuffler.store import ShufflerStore
from tacit.backoff import LONGEST_PAUSE
from tacit.codec import b64url
from tacit.errors import RolledBack, UsageError
from tacit.media_types import PROBLEM_JSON
from tacit.messages.chunk import MessageChunk
from tacit.models.shuffled.device import ShuffledDevice
from tacit.ports import HttpResponse
from tacit.recipe import derive
from tacit.recipe.model import Recipe
from tacit.tlog.token_directories import IssuerDirectory, SlotKey
from tests.http.power_cut import PowerCutError
from tests.http.shuffled_stage import SHUFFLED, B, ShuffledStage, population, shuffled_stage
from tests.kit.postgres import MakeDatabase

COUNTS = [[2, 1, 0]] * 20 + [[0, 1, 0]] * (B - 20)
TOTALS = [40, B, 0]
CHUNKS = -(-4 * B // 7)
SECOND = "http://127.0.0.1:8098"
PAUSE = 1.5 * LONGEST_PAUSE
"""No pause after a request that was not taken is longer, in seconds."""


class Watched:
    """A stage whose recipe is due, with everything that its shuffler ever sent to the analyzer."""

    def __init__(self, stage: ShuffledStage, devices: Bundler) -> None:
        self.stage = stage
        self.devices = devices
        self.sent: list[bytes] = []
        self._real = stage.network.request
        stage.network.request = self._request  # type: ignore[method-assign]

    async def _request(self, method: str, url: str, **rest: Any) -> Any:
        if url.endswith("/chunks"):
            self.sent.append(rest["body"])
        return await self._real(method, url, **rest)

    async def assert_counted_once(self) -> None:
        """All messages were counted, once each, and no index was sent with two bodies."""
        recipe = self.devices.recipe
        assert await self.stage.aggregate(recipe) == (200, {"report_count": B, "values": TOTALS})
        assert len(set(self.sent)) == CHUNKS
        assert {MessageChunk.decode(body).index for body in self.sent} == set(range(CHUNKS))


@asynccontextmanager
async def due(folder: Path, storage: str = "file", shared: str = "") -> AsyncIterator[Watched]:
    async with shuffled_stage(folder, storage, shared) as stage:
        devices = population()
        await stage.publish(devices.recipe)
        for counts in COUNTS:
            assert (await stage.bring(devices, devices.report(counts))).status == 201
        stage.end_interval(devices.recipe)
        yield Watched(stage, devices)


def cut(store: Any, number: int, *, committed: bool) -> None:
    """End the ``number``-th write transaction of the shuffler before or after its commit, and refuse all later ones."""
    real, left = store.transaction, [number]

    @asynccontextmanager
    async def transaction(**options: Any) -> AsyncIterator[Any]:
        left[0] -= 1
        if left[0] < -1:
            raise PowerCutError
        async with real(**options) as tx:
            yield tx
            if left[0] == -1 and not committed:
                raise PowerCutError
        if left[0] == -1:
            raise PowerCutError

    store.transaction = transaction


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", [0, 1, pytest.param(2, marks=pytest.mark.slow), CHUNKS // 2, CHUNKS])
async def test_a_power_cut_neither_loses_nor_doubles_a_message(tmp_path: Path, number: int, committed: bool) -> None:
    async with due(tmp_path) as found:
        stage = found.stage
        cut(stage.shuffler[STORE], number, committed=committed)
        with pytest.raises(PowerCutError):
            await stage.forwarding.step()
        before = len(found.sent)
        await stage.start_shuffler()
        while await stage.forwarding.step():
            pass
        assert len(found.sent) - before >= CHUNKS - number
        await found.assert_counted_once()


async def test_an_analyzer_that_dies_between_chunks_gets_the_rest_and_what_it_did_not_store(tmp_path: Path) -> None:
    async with due(tmp_path) as found:
        stage = found.stage
        stage.network.plan = matching("/chunks", LOSE_RESPONSE, times=1)
        assert await stage.forwarding.step() == 0
        await stage.start()
        stage.network.plan = matching("/chunks", LOSE_RESPONSE, times=2)
        for _ in range(3):
            stage.clock.jump(PAUSE)
            await stage.forwarding.step()
        await stage.follow()  # the log tells the time that has passed
        await found.assert_counted_once()
        assert len(found.sent) == CHUNKS + 3


async def test_a_shuffler_and_an_analyzer_that_start_again_after_everything_send_and_count_nothing_more(
    tmp_path: Path,
) -> None:
    async with due(tmp_path) as found:
        assert await found.stage.forwarding.step() == CHUNKS
        await found.stage.start()
        assert await found.stage.forwarding.step() == 0
        await found.assert_counted_once()
        for body in found.sent[:3]:
            assert (await found.stage.forward(found.devices.recipe, body)).status == 201


async def test_an_analyzer_that_answers_slowly_does_not_hold_up_another_recipe(tmp_path: Path) -> None:
    """Each answer takes four seconds; the other recipe has no bundles, and one request says so."""
    async with shuffled_stage(tmp_path) as stage:
        devices = population()
        body = devices.recipe.body()
        other = Recipe.from_body({**body, "name": "other", "token": {**body["token"], "slot": 1}})
        await stage.publish(devices.recipe, other)
        await stage.fill(devices, *["c0"] * B)
        stage.end_interval(devices.recipe)
        found, answered = Watched(stage, devices), stage.network.request

        async def slowly(*args: Any, **rest: Any) -> Any:
            stage.clock.jump(4)
            return await answered(*args, **rest)

        stage.network.request = slowly  # type: ignore[method-assign]
        assert await stage.forwarding.step() == 2 + 1
        assert [MessageChunk.decode(one).total for one in found.sent] == [CHUNKS, CHUNKS, 0]
        while await stage.forwarding.step():
            pass
        assert len(set(found.sent)) == len(found.sent) == CHUNKS + 1
        assert (await stage.aggregate(devices.recipe))[1]["report_count"] == B


class OfSlot(Bundler):
    """The devices of a recipe of any slot."""

    def __post_init__(self) -> None:
        self._slot = derive.slot_of(self.recipe)
        key = issuer_key(1 + self._slot.slot)
        self.channel = ShuffledDevice().channel(self.recipe, key.token_key.spki)
        self._tokens = token_source(key, self.entropy)

    def token(self) -> BoundToken:
        return self._tokens(self._slot)


async def test_several_windows_of_several_chunks_take_turns_and_each_is_counted_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers take four seconds, so that a recipe sends two chunks and then others do; one answer is lost, and the
    shuffler is started again between two turns."""
    directory = RecipeKit.directory

    def of_known_keys(kit: RecipeKit, *given: int) -> IssuerDirectory:
        keys = [SlotKey(slot=slot, token_key=b64url(issuer_key(1 + slot).token_key.spki)) for slot in range(3)]
        return directory(kit, *given).model_copy(update={"keys": keys})

    monkeypatch.setattr(RecipeKit, "directory", of_known_keys)
    async with shuffled_stage(tmp_path, "file") as stage:
        body = population().recipe.body()
        windows = [
            OfSlot(
                Recipe.from_body({**body, "name": name, "token": {**body["token"], "slot": slot}}),
                SeededEntropy(name.encode()),
                SHUFFLED,
            )
            for slot, name in enumerate(("first", "second", "third"))
        ]
        await stage.publish(*(one.recipe for one in windows))
        given = [[[2, 1, 0]] * 10 + [[0, 1, 0]] * (B - 10 + more) for more in (0, 1, 7)]
        for at in range(max(map(len, given))):
            for devices, counts in zip(windows, given, strict=True):
                if at < len(counts):
                    assert (await stage.bring(devices, devices.report(counts[at]))).status == 201
        stage.end_interval(windows[0].recipe)
        sent: list[tuple[str, MessageChunk]] = []
        real = stage.network.request

        async def slowly(method: str, url: str, **rest: Any) -> Any:
            if url.endswith("/chunks"):
                stage.clock.jump(4)
                sent.append((url, MessageChunk.decode(rest["body"])))
            return await real(method, url, **rest)

        stage.network.request = slowly  # type: ignore[method-assign]
        stage.network.plan = matching("/chunks", LOSE_RESPONSE, times=1)
        assert await stage.forwarding.step() == 0 + 2 + 2, "the first one's answer was lost"
        await stage.start_shuffler()
        while len({(url, chunk.index) for url, chunk in sent}) < sum(-(-4 * len(one) // 7) for one in given):
            stage.clock.jump(PAUSE)
            await stage.forwarding.step()
        for devices, counts in zip(windows, given, strict=True):
            own = [chunk for url, chunk in sent if devices.recipe.hash_text in url]
            assert {chunk.total for chunk in own} == {-(-4 * len(counts) // 7)}
            totals = [sum(one[cell] for one in counts) for cell in range(3)]
            assert await stage.aggregate(devices.recipe) == (200, {"report_count": len(counts), "values": totals})
        assert len(sent) == len({(url, chunk.index) for url, chunk in sent}) + 1
        order = [url for url, _ in sent]
        assert len([at for at in range(1, len(order)) if order[at] != order[at - 1]]) > 6, "they took turns"


async def test_a_shuffler_whose_messages_came_too_late_gives_up(tmp_path: Path) -> None:
    async with due(tmp_path) as found:
        stage, real = found.stage, found.stage.network.request
        over = json.dumps({"type": "urn:tacit:refusal:recipe-over", "status": 422}).encode()

        async def ended(method: str, url: str, **rest: Any) -> Any:
            if not url.endswith("/chunks"):
                return await real(method, url, **rest)
            found.sent.append(rest["body"])
            return HttpResponse(422, {"content-type": PROBLEM_JSON}, over)

        stage.network.request = ended  # type: ignore[method-assign]
        assert [await stage.forwarding.step() for _ in range(3)] == [0, 0, 0]
        assert len(found.sent) == 1


async def test_a_shufflers_database_from_before_it_forwarded_is_refused(tmp_path: Path) -> None:
    """It would permute and forward what it holds of the bundles again, and tell the analyzer which these are."""
    async with due(tmp_path) as found:
        stage, folder = found.stage, tmp_path / "shuffler"
        await stage.inner.unmount(SHUFFLER_URL)
        shutil.copytree(folder, tmp_path / "backup")
        await stage.start_shuffler()
        assert await stage.forwarding.step() == CHUNKS
        await stage.inner.unmount(SHUFFLER_URL)
        for path in folder.glob("*.sqlite3*"):
            path.unlink()
        for path in (tmp_path / "backup").glob("*.sqlite3*"):
            shutil.copy(path, folder)
        with pytest.raises(UsageError, match="older than the last state"):
            await stage.start_shuffler()
        await found.assert_counted_once()


async def test_a_shuffler_on_a_whole_folder_from_before_it_forwarded_notices_it_stops_and_says_so(
    tmp_path: Path,
) -> None:
    async with due(tmp_path) as found:
        stage, folder = found.stage, tmp_path / "shuffler"
        await stage.inner.unmount(SHUFFLER_URL)
        shutil.copytree(folder, tmp_path / "backup")
        await stage.start_shuffler()
        assert await stage.forwarding.step() == CHUNKS
        await stage.inner.unmount(SHUFFLER_URL)
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "backup", folder)

        shuffler, before = await stage.start_shuffler(), len(found.sent)
        for _ in range(2):
            with pytest.raises(RolledBack, match=r"the analyzer has messages of recipe .* so the database is from the"):
                await stage.forwarding.step()
        assert len(found.sent) == before + 1, "one request, which an honest analyzer refuses"
        answer = await stage.network.request("GET", f"{SHUFFLER_URL}/readyz")
        assert (answer.status, b"the database is from the past" in answer.body) == (503, True)
        async with shuffler[STORE].read() as tx:
            assert await tx.in_doubt()
        with pytest.raises(UsageError, match="others hold what this service sent"):
            await stage.start_shuffler()
        assert await stage.aggregate(found.devices.recipe) == (200, {"report_count": B, "values": TOTALS})


async def test_two_processes_of_a_shuffler_fix_one_order(tmp_path: Path, make_postgres_url: MakeDatabase) -> None:
    async with due(tmp_path, "memory", make_postgres_url(ShufflerStore)) as found:
        second = await found.stage.start_shuffler(SECOND)
        for _ in range(3):
            await asyncio.gather(found.stage.forwarding.step(), second[FORWARDING].step())
        await found.assert_counted_once()


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow), CHUNKS // 4])
async def test_one_of_two_processes_dies_while_both_forward_and_the_other_goes_on(
    tmp_path: Path, make_postgres_url: MakeDatabase, number: int, committed: bool
) -> None:
    """Once, before or after what it stored: while the order is fixed, or between two chunks."""
    async with due(tmp_path, "memory", make_postgres_url(ShufflerStore)) as found:
        stage = found.stage
        second = await stage.start_shuffler(SECOND)
        cut(second[STORE], number, committed=committed)
        ended: list[Any] = []
        for _ in range(3):
            steps = (second[FORWARDING].step(), stage.forwarding.step())
            ended += await asyncio.gather(*steps, return_exceptions=True)
        assert {type(one) for one in ended} <= {int, PowerCutError}
        restarted = await stage.start_shuffler(SECOND)
        await asyncio.gather(stage.forwarding.step(), restarted[FORWARDING].step())
        await found.assert_counted_once()
        page = await stage.shuffler_status(found.devices.recipe)
        assert (page["requests_left"], page["released"], page["rejected"]) == (0, 1, 0)
