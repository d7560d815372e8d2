"""Reports of the local model, from a device through relay and gateway to the result: counted, or kept and searched."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import SLOT, claimed
from infra.lab.kit.reports import issuer_key, token_source
from services.analyzer.app import STORE
from services.analyzer.schema import AGGREGATES, KEPT
from tacit import media_types
from tacit.messages.one_server import OneServerReport
from tacit.methods.base.affine import AffineHashing
from tacit.methods.base.statistics import HEAVY_HITTERS, Shape
from tacit.methods.planners.registry import planner_of
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.models.interfaces.device import Fate
from tacit.models.local.device import LocalDevice
from tacit.ports import HttpResponse
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe
from tacit.task.one_server import Contents
from tests.http.analyzer_stage import GATEWAY_TOKEN, KIT, B, Stage, analyzer_stage

BATCH = {"min_batch_size": B, "expected_contributions": 400}
STRINGS = {"kind": "strings", "length": 2, "alphabet": "abcdefg"}
CATEGORIES = {"kind": "categories", "categories": ["a", "b", "c"]}


def recipe_of(encoder: dict[str, Any], statistic: str, randomizer: dict[str, Any]) -> Recipe:
    """A recipe of the local model with B of the stage."""
    body = KIT.recipe().body()
    del body["vdaf"], body["privacy"]
    parties = KIT.single_parties()
    del parties["analyzer"]["state_key"]
    question = {"text": "Which?", "metric": "word", "statistic": statistic, "encoder": encoder}
    body = {**body, "model": "local", "parties": parties, "question": question, "randomizer": randomizer}
    return claimed({**body, "sampling": {"rate": "1"}, "batch": {**body["batch"], **BATCH}})


def hashing(epsilon: str = "8") -> dict[str, Any]:
    made = planner_of(AffineHashing).tuned(Shape(HEAVY_HITTERS, 0, item_bits=6), Decimal(epsilon), 1, 1e-6)
    return {"name": "affine", **made.members()}


class Crowd:
    """Devices of one recipe, with tokens."""

    def __init__(self, recipe: Recipe, seed: bytes = b"crowd") -> None:
        self.recipe = recipe
        self.entropy = SeededEntropy(seed)
        self.channel = LocalDevice().channel(recipe, issuer_key().token_key.spki)
        self._tokens = token_source(issuer_key(), self.entropy)

    def report(self, value: str | None, token: Any = None) -> bytes:
        """What a device with this value sends."""
        answer, method = encoder_of(self.recipe.question).encode(value), randomizer_of(self.recipe)
        randomiser = device_randomiser_of(method)
        drawn = randomiser.missing(self.entropy) if answer is None else randomiser.randomise(answer, self.entropy)
        return self.sealed(drawn, token)

    def sealed(self, measurement: Any, token: Any = None) -> bytes:
        held = token or self._tokens(SLOT)
        return self.channel.submission(measurement, held.token, held.preimages, self.entropy).body

    def token(self) -> Any:
        return self._tokens(SLOT)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with analyzer_stage(tmp_path) as found:
        yield found


async def put(stage: Stage, crowd: Crowd, report: bytes) -> HttpResponse:
    """One report as a gateway brings it."""
    headers = {"Content-Type": media_types.ONE_SERVER_REPORT, "Authorization": f"Bearer {GATEWAY_TOKEN}"}
    return await stage.network.request("POST", crowd.channel.url, headers=headers, body=report)


async def kept(stage: Stage) -> int:
    """How many rows of kept reports the analyzer has."""
    assert stage.app is not None
    async with stage.app[STORE].read() as tx:
        return int((await tx.connection.execute(select(func.count()).select_from(KEPT))).scalar_one())


async def test_frequent_texts_are_found_and_no_report_is_left(stage: Stage) -> None:
    crowd = Crowd(recipe_of(STRINGS, "heavy-hitters", hashing()))
    await stage.publish(crowd.recipe)
    assert await stage.recipes() == {crowd.recipe.hash_text: "active"}
    for value in ["be"] * 60 + ["fa"] * 40 + [None] * 5 + ["much too long"] * 5:
        assert (await put(stage, crowd, crowd.report(value))).status == 201
    assert await kept(stage) > 0
    assert (await stage.collect(crowd.recipe))["state"] == "collecting"
    stage.end_interval(crowd.recipe)
    assert await stage.releases.step() == 1
    assert await kept(stage) == 0
    code, document = await stage.aggregate(crowd.recipe)
    assert (code, document["report_count"], document["values"]) == (200, 110, [110])
    assert [reports for reports, _, _ in document["search"]["levels"]] == [110]
    stage.clock.jump(600)
    assert (await stage.collect(crowd.recipe))["state"] == "released"
    (result,) = await stage.results(crowd.recipe)
    assert [row["item"] for row in result["ranked"]["items"]] == ["be", "fa"]
    for row, truth in zip(result["ranked"]["items"], (60, 40), strict=True):
        assert abs(row["estimate"] - truth) < 5 * row["stderr"] + 1
    assert result["ranked"]["rest"]["below"] < 40
    assert result["privacy"]["by_adversary"]["analyzer"] == 8.0


@pytest.mark.parametrize(
    ("randomizer", "measurements", "sums"),
    [
        ({"name": "krr", "epsilon0": "2", "categories": 3}, [0, 2, 2, 1, 2, 0], [2, 1, 3]),
        (
            {"name": "oue", "epsilon0": "2", "categories": 3, "max_weight": 2},
            [[1, 0, 1], [0, 1, 1], [0, 0, 0]] * 2,
            [2, 2, 4],
        ),
    ],
)
async def test_randomised_categories_are_added_up(
    stage: Stage, randomizer: dict[str, Any], measurements: list[Any], sums: list[int]
) -> None:
    crowd = Crowd(recipe_of(CATEGORIES, "histogram", randomizer))
    await stage.publish(crowd.recipe)
    for measurement in measurements:
        assert (await put(stage, crowd, crowd.sealed(measurement))).status == 201
    assert await kept(stage) == 0
    stage.end_interval(crowd.recipe)
    assert await stage.aggregate(crowd.recipe) == (200, {"report_count": 6, "values": sums})


async def test_what_no_device_can_make_is_refused_and_its_token_is_spent(stage: Stage) -> None:
    crowd = Crowd(recipe_of(STRINGS, "heavy-hitters", hashing("1")))
    await stage.publish(crowd.recipe)
    token, values = crowd.token(), randomizer_of(crowd.recipe).cells
    task = crowd.channel.task

    beyond = task.seal(
        bytes(range(16)), Contents(token.token, token.preimages, bytes(16) + bytes([values])), crowd.entropy
    ).encode()
    assert (await put(stage, crowd, beyond)).status == 422
    with pytest.raises(ValueError, match="below"):
        crowd.sealed([0, values])
    good, again = crowd.report("a"), crowd.report("b", token)
    assert b"report-replayed" in (await put(stage, crowd, again)).body
    assert (await put(stage, crowd, good)).status == 201
    assert (await put(stage, crowd, good)).status == 201
    moved = OneServerReport(bytes(16), OneServerReport.decode(good).sealed).encode()
    assert (await put(stage, crowd, moved)).status == 422
    page = await stage.status(crowd.recipe)
    assert page["aggregated"] == 1
    assert page["rejected_by_cause"] == {"answer-range": 1, "token-spent": 1, "hpke-decrypt": 1}


async def test_public_bytes_are_in_no_part_of_a_report_that_others_can_read(stage: Stage) -> None:
    crowd = Crowd(recipe_of(STRINGS, "heavy-hitters", hashing("1")))
    await stage.publish(crowd.recipe)
    public = bytes(range(100, 116))
    report = crowd.sealed([int.from_bytes(public, "big"), 1])
    assert public not in report
    assert (await stage.send(crowd.channel.url, report)).fate is Fate.STORED


async def test_kept_reports_of_a_batch_that_is_too_small_are_deleted_with_the_recipe(stage: Stage) -> None:
    crowd = Crowd(recipe_of(STRINGS, "heavy-hitters", hashing()))
    await stage.publish(crowd.recipe)
    for _ in range(B - 1):
        assert (await put(stage, crowd, crowd.report("ab"))).status == 201
    stage.end_interval(crowd.recipe)
    code, problem = await stage.aggregate(crowd.recipe)
    assert (code, problem["type"]) == (422, "urn:tacit:refusal:batch-too-small")
    assert await kept(stage) > 0
    stage.end_interval(crowd.recipe, 8 * 86_400.0)
    await stage.follow()
    assert await kept(stage) == 0


async def test_nothing_of_a_kept_report_is_left_in_the_files(tmp_path: Path) -> None:
    async with analyzer_stage(tmp_path, "file") as stage:
        crowd = Crowd(recipe_of(STRINGS, "heavy-hitters", hashing()))
        await stage.publish(crowd.recipe)
        payloads, method = [], randomizer_of(crowd.recipe)
        for value in ["be"] * 30:
            drawn = device_randomiser_of(method).randomise(
                encoder_of(crowd.recipe.question).encode(value), crowd.entropy
            )
            assert drawn is not None
            payloads.append(crowd.channel.payload(drawn, crowd.entropy))
            assert (await put(stage, crowd, crowd.sealed(drawn))).status == 201
        stage.end_interval(crowd.recipe)
        assert (await stage.aggregate(crowd.recipe))[0] == 200
        files = b"".join(path.read_bytes() for path in sorted((tmp_path / "analyzer").glob("*.sqlite3*")))
        assert not [one for one in payloads if one in files]


async def test_a_search_that_does_not_fit_the_recipe_is_refused_by_the_collector(stage: Stage) -> None:
    crowd = Crowd(recipe_of(STRINGS, "heavy-hitters", hashing()))
    await stage.publish(crowd.recipe)
    for _ in range(30):
        await put(stage, crowd, crowd.report("ab"))
    stage.end_interval(crowd.recipe)
    assert stage.app is not None
    await stage.releases.step()
    async with stage.app[STORE].transaction() as tx:
        found = json.loads((await tx.connection.execute(select(AGGREGATES.c.search))).scalar_one())
        found["supports"][0] = 31
        await tx.connection.execute(update(AGGREGATES).values(search=json.dumps(found).encode()))
    stage.clock.jump(600)
    collected = await stage.collect(crowd.recipe)
    collected = await stage.collect(crowd.recipe) if collected["state"] == "collecting" else collected
    assert (collected["state"], collected["rule"]) == ("refused", "collection-values")
