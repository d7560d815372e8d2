"""The shuffled model, from a device's bundle through relay, gateway, shuffler and analyzer to the collector's page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.one_server import ANALYZER_URL
from services.shuffler.app import STORE, YIELD_REPORTER
from services.shuffler.yield_reporter import PAUSES
from tacit.aggregator.yield_looks import look_at
from tacit.messages.chunk import MessageChunk
from tacit.models.interfaces.device import Fate
from tacit.task.shuffled import message_size, split
from tacit.tlog.leaves import LeafType
from tacit.tlog.statements import OptIn
from tests.http.analyzer_stage import COLLECTOR_TOKEN, GATEWAY_TOKEN, OPERATOR_TOKEN
from tests.http.shuffled_stage import B, ShuffledStage, population, shuffled_stage

MESSAGE_SIZE = message_size(3)
VALUES = ["c0"] * 40 + ["c1"] * 12


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ShuffledStage]:
    async with shuffled_stage(tmp_path) as found:
        yield found


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((folder / "shuffler").glob("*.sqlite3*")))


@pytest.mark.parametrize("name", ["zsum", "unbiased"])
async def test_bundles_of_devices_become_a_result(stage: ShuffledStage, name: str) -> None:
    """With half noise in 52 devices; an estimate is within 6 of its errors (3.6) with probability 1 - 1e-8."""
    more = {"max_weight": 3} if name == "unbiased" else {}
    devices = population(randomizer={"name": name, "categories": 3, "noise_rate": "0.5", **more})
    recipe = devices.recipe
    await stage.publish(recipe)
    assert await stage.recipes() == {recipe.hash_text: "active"}
    for report in devices.reports(*VALUES):
        assert (await stage.send(devices.channel.url, report)).fate is Fate.STORED
    assert (await stage.collect(recipe))["state"] == "collecting"
    stage.end_interval(recipe)
    assert await stage.releases.step() == 0
    assert (await stage.aggregate(recipe))[0] == 503
    assert await stage.forwarding.step() == -(-4 * len(VALUES) // 7)
    assert await stage.forwarding.step() == 0
    assert await stage.releases.step() == 1
    stage.clock.jump(600)
    assert (await stage.collect(recipe))["state"] == "released"
    (result,) = await stage.results(recipe)
    assert result["report_count"] == len(VALUES)
    first, second, third = (bucket["estimate"] for bucket in result["buckets"])
    assert abs(first - 40) < 6 * 3.7
    if name == "zsum":
        assert (third, result["zeros"]["false_positive_rate"]) == (0, 0)
    else:
        assert "zeros" not in result
        assert max(abs(second - 12), abs(third)) < 6 * 3.7
    assert result["privacy"]["by_adversary"]["shuffler_with_analyzer"] == "unbounded"
    assert (await stage.status(recipe))["aggregated"] == len(VALUES)
    assert (await stage.shuffler_status(recipe))["released"] == 1


@pytest.mark.false_alarm(1e-4, "two-sided geometric noise of scale 5 below -42")
async def test_how_far_a_recipe_is_filled_comes_from_the_shuffler_with_noise_and_when_it_is_due(tmp_path: Path) -> None:
    """A look at 52 of 50 bundles tells 2 tenths of B or more unless two-sided geometric noise of scale 5 is below -42,
    which has probability 1e-4."""
    async with shuffled_stage(tmp_path, "file") as stage:
        await _assert_told_when_due(stage)


async def _assert_told_when_due(stage: ShuffledStage) -> None:
    devices = population()
    recipe, task = devices.recipe, devices.recipe.interval
    await stage.publish(recipe)
    yield_reporter = stage.shuffler[YIELD_REPORTER]
    await stage.fill(devices, *VALUES)
    assert (await stage.batch_yield(recipe))["looks"] == []
    assert await yield_reporter.step() == 0
    stage.clock.jump(look_at(task.start, task.end, 1) - stage.clock.now())
    stage.network.partition(ANALYZER_URL)
    assert await yield_reporter.step() == 0
    stage.network.heal()
    assert await yield_reporter.step() == 0, "not at once"
    stage.clock.jump(PAUSES.most)
    assert await yield_reporter.step() == 1
    assert await yield_reporter.step() == 0
    first = await stage.batch_yield(recipe)
    assert [(one["number"], one["tenths"] >= 2) for one in first["looks"]] == [(1, True)]
    assert first["next_at"] == look_at(task.start, task.end, 2)
    await stage.start_shuffler()
    assert await stage.shuffler[YIELD_REPORTER].step() == 1, "told again, as it was"
    assert await stage.batch_yield(recipe) == first
    stage.clock.jump(look_at(task.start, task.end, 4) - stage.clock.now())
    assert await stage.shuffler[YIELD_REPORTER].step() == 1
    assert [one["number"] for one in (await stage.batch_yield(recipe))["looks"]] == [1, 4]


async def test_a_look_is_taken_only_from_the_shuffler_and_the_first_one_stays(stage: ShuffledStage) -> None:
    recipe = population().recipe
    await stage.publish(recipe)
    look = {"number": 1, "at": recipe.interval.start, "tenths": 3}
    assert (await stage.tell(recipe, look, COLLECTOR_TOKEN)).status == 401
    assert (await stage.tell(recipe, look, GATEWAY_TOKEN)).status == 401
    wrong: Any
    for wrong in ({**look, "tenths": 11}, {**look, "number": 6}, {**look, "more": 1}, {"number": 1}, [], None):
        assert (await stage.tell(recipe, wrong)).status == 400
    assert (await stage.tell(recipe, {**look, "at": "9" * 300})).status == 413
    for tenths in (3, 9):
        assert (await stage.tell(recipe, {**look, "tenths": tenths})).status == 201
    assert (await stage.batch_yield(recipe))["looks"] == [look]


async def test_both_servers_opt_in_before_a_bundle_is_taken(stage: ShuffledStage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    bodies = [leaf.body_as(OptIn) for leaf in stage.log.posted if leaf.type is LeafType.OPT_IN]
    assert {body.role for body in bodies} == {"shuffler", "analyzer"}


async def test_one_bundle_below_the_minimum_forwards_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    async with shuffled_stage(tmp_path, "file") as stage:
        devices = population()
        recipe = devices.recipe
        await stage.publish(recipe)
        await stage.fill(devices, *["c0"] * (B - 1))
        stage.end_interval(recipe, 59)
        assert await stage.forwarding.step() == 0, "the grace is not over"
        stage.end_interval(recipe)
        await stage.forwarding.step()
        assert (await stage.shuffler_status(recipe))["rejected_by_cause"] == {"batch-too-small": B - 1}
        answered, problem = await stage.aggregate(recipe)
        assert (answered, problem["type"]) == (422, "urn:tacit:refusal:batch-too-small")
        collected = await stage.collect(recipe)
        assert (collected["state"], collected["rule"]) == ("refused", "urn:tacit:refusal:batch-too-small")
        forwarded = [seen for party, seen in stage.observer.notes if party == "analyzer"]
        assert forwarded == [{"chunk": 0, "messages": 0}]


async def test_a_window_above_twice_what_was_expected_is_not_forwarded(stage: ShuffledStage) -> None:
    devices = population(expected_contributions=B)
    await stage.publish(devices.recipe)
    await stage.fill(devices, *["c1"] * (2 * B + 1))
    stage.end_interval(devices.recipe)
    await stage.forwarding.step()
    assert (await stage.shuffler_status(devices.recipe))["rejected_by_cause"] == {"rate-bound": 2 * B + 1}


async def test_neither_bundles_nor_their_order_are_left_in_the_shufflers_files(tmp_path: Path) -> None:
    async with shuffled_stage(tmp_path, "file") as stage:
        devices, sealed = population(), list[bytes]()
        await stage.publish(devices.recipe)
        payload = devices.channel.bundling.bundle

        def noted(*args: Any) -> bytes:
            sealed.append(payload(*args))
            return sealed[-1]

        object.__setattr__(devices.channel, "bundling", type("Noted", (), {"bundle": staticmethod(noted)})())
        await stage.fill(devices, *VALUES)
        assert all(bundle in on_disk(tmp_path) for bundle in sealed)
        stage.end_interval(devices.recipe)
        await stage.forwarding.step()
        await stage.shuffler[STORE].checkpoint()
        files = on_disk(tmp_path)
        assert not any(message in files for bundle in sealed for message in split(bundle, MESSAGE_SIZE))


async def test_a_token_brings_one_bundle_and_the_same_bytes_count_once(stage: ShuffledStage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    token = devices.token()
    first, second = (devices.report([one, 0, 0], token) for one in (0, 1))
    assert [(await stage.bring(devices, first)).status for _ in range(3)] == [201] * 3
    spent = await stage.send(devices.channel.url, second)
    assert (spent.fate, spent.detail) == (Fate.REFUSED, "the shuffler answered 422, report-replayed")
    page = await stage.shuffler_status(devices.recipe)
    assert (page["aggregated"], page["distinct_nullifiers"]) == (1, 1)
    assert page["rejected_by_cause"] == {"token-spent": 1}


async def test_a_bundle_of_another_recipe_or_size_or_after_the_interval_is_refused(stage: ShuffledStage) -> None:
    devices, others = population(), population(b"others", expected_contributions=3 * B)
    longer = population(b"longer", randomizer={"name": "zsum", "categories": 4, "noise_rate": "0.5"})
    await stage.publish(devices.recipe, others.recipe)
    for report in (others.report([1, 0, 0]), longer.report([1, 0, 0, 0]), devices.report([1, 0, 0])[:-1], b""):
        answer = await stage.bring(devices, report)
        assert (answer.status, b"report-invalid" in answer.body) == (422, True)
    stage.end_interval(devices.recipe)
    late = await stage.send(devices.channel.url, devices.report([1, 0, 0]))
    assert (late.fate, late.detail) == (Fate.REFUSED, "the shuffler answered 422, recipe-over")
    assert (await stage.shuffler_status(devices.recipe))["aggregated"] == 0


async def test_the_analyzer_takes_no_bundle_and_the_shuffler_no_chunk(stage: ShuffledStage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    at_analyzer = devices.channel.url.replace(devices.channel.task.server_url, ANALYZER_URL)
    assert (await stage.send(at_analyzer, devices.report([1, 0, 0]))).fate is Fate.REFUSED
    assert (await stage.status(devices.recipe))["aggregated"] == 0


async def test_a_chunk_is_taken_once_and_only_from_the_shuffler(stage: ShuffledStage) -> None:
    devices = population()
    recipe, bundling = devices.recipe, devices.channel.bundling
    await stage.publish(recipe)
    messages = b"".join(bundling.bundle([1, 0, 0], devices.entropy) for _ in range(B))
    half = len(messages) // 2
    first, second = MessageChunk(0, 2, messages[:half]), MessageChunk(1, 2, messages[half:])
    for token in (GATEWAY_TOKEN, COLLECTOR_TOKEN, OPERATOR_TOKEN, ""):
        assert (await stage.forward(recipe, first.encode(), token)).status == 401
    assert [(await stage.forward(recipe, first.encode())).status for _ in range(3)] == [201] * 3
    others = [
        MessageChunk(0, 2, second.messages),
        MessageChunk(1, 3, second.messages),
        MessageChunk(0, 0, b""),
        MessageChunk(1, 2, second.messages[:-1]),
    ]
    rules = [(await stage.forward(recipe, one.encode())).body for one in others]
    assert [b"report-replayed" in one for one in rules] == [True, True, True, False]
    assert b"report-invalid" in rules[3]
    stage.end_interval(recipe)
    assert (await stage.aggregate(recipe))[0] == 503, "the last chunk is missing"
    assert (await stage.forward(recipe, second.encode())).status == 201
    assert await stage.aggregate(recipe) == (200, {"report_count": B, "values": [B, 0, 0]})
    assert [(await stage.forward(recipe, one.encode())).status for one in (first, second)] == [201, 201]
    assert b"report-replayed" in (await stage.forward(recipe, MessageChunk(1, 2, first.messages).encode())).body


async def test_messages_that_do_not_open_are_counted_and_add_nothing(stage: ShuffledStage) -> None:
    devices = population()
    recipe, bundling = devices.recipe, devices.channel.bundling
    await stage.publish(recipe)
    messages = bytearray(b"".join(bundling.bundle([0, 1, 0], devices.entropy) for _ in range(B)))
    for at in range(0, 3 * MESSAGE_SIZE, MESSAGE_SIZE):
        messages[at] ^= 1
    assert (await stage.forward(recipe, MessageChunk(0, 1, bytes(messages)).encode())).status == 201
    stage.end_interval(recipe)
    answered, found = await stage.aggregate(recipe)
    assert (answered, found["report_count"]) == (200, B)
    assert B - 3 <= sum(found["values"]) <= B
    assert (await stage.status(recipe))["rejected_by_cause"] == {"message-malformed": 3}


async def test_messages_that_are_no_whole_bundles_are_not_released(stage: ShuffledStage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    messages = b"".join(devices.channel.bundling.bundle([0, 1, 0], devices.entropy) for _ in range(B))
    await stage.forward(devices.recipe, MessageChunk(0, 1, messages[MESSAGE_SIZE:]).encode())
    stage.end_interval(devices.recipe)
    answered, problem = await stage.aggregate(devices.recipe)
    assert (answered, problem["type"]) == (422, "urn:tacit:refusal:bundles-incomplete")


async def test_an_analyzer_without_a_shufflers_credential_refuses_the_recipe(stage: ShuffledStage) -> None:
    stage.settings = lambda: type(stage).__mro__[1].settings(stage)  # type: ignore[method-assign, attr-defined]
    await stage.start()
    devices = population()
    await stage.publish(devices.recipe)
    assert await stage.recipes() == {devices.recipe.hash_text: "model-unsupported"}
