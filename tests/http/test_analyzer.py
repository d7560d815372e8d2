"""The analyzer, from a device's report through relay and gateway to the result on the collector's page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import Reporter
from tacit.aggregator.batch_yield import LOOKS, STEPS
from tacit.aggregator.keys import state_key_text
from tacit.aggregator.one_server.records import pack
from tacit.aggregator.outcomes import OutcomesTx
from tacit.aggregator.own_leaves import PAUSES
from tacit.aggregator.state_keys import generate_state_key
from tacit.codec import b64url
from tacit.models.interfaces.device import Fate
from tacit.recipe.model import Recipe
from tacit.tlog.leaves import LeafType
from tacit.tlog.statements import OptIn
from tests.http.analyzer_stage import GATEWAY_TOKEN, KIT, OPERATOR_TOKEN, B, Stage, analyzer_stage

BATCH = {"min_batch_size": B, "expected_contributions": 2 * B}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with analyzer_stage(tmp_path) as found:
        yield found


def population(statistic: str = "count", seed: bytes = b"devices") -> Reporter:
    return Reporter(KIT.single_recipe(statistic, **BATCH), SeededEntropy(seed), KIT)


@pytest.mark.parametrize("enough", [True, False])
async def test_sums_after_single_reports_are_in_the_write_ahead_log_until_the_recipe_is_closed(
    tmp_path: Path, enough: bool
) -> None:
    async with analyzer_stage(tmp_path, "file") as stage:
        devices = population("histogram")
        await stage.publish(devices.recipe)
        sums: list[tuple[int, ...]] = [(0, 0, 0, 0)]
        for answer in (0, 1, 3, 0, 0, 2)[: B if enough else B - 1]:
            one_hot = tuple(int(cell == answer) for cell in range(4))
            report = devices.report(devices.exact(*one_hot))
            assert (await stage.upload(devices, report)).status == 201
            assert report not in on_disk(tmp_path)
            sums.append(tuple(map(sum, zip(sums[-1], one_hot, strict=True))))
        told = sums[2:]  # fewer numbers above zero stand anywhere in a file; two sums in a row are one report
        assert all(pack(numbers) in on_disk(tmp_path) for numbers in told)
        stage.end_interval(devices.recipe)
        assert ((await stage.aggregate(devices.recipe))[0] == 200) == enough
        if not enough:
            stage.end_interval(devices.recipe, 8 * 86_400)
            await stage.follow()
            assert stage.log.posted[-1].type is LeafType.VOID
        left = [numbers for numbers in told if pack(numbers) in on_disk(tmp_path)]
        assert left == (told[-1:] if enough else [])


def on_disk(folder: Path) -> bytes:
    """The database file, with its write-ahead log."""
    return b"".join(path.read_bytes() for path in sorted((folder / "analyzer").glob("*.sqlite3*")))


@pytest.mark.parametrize(
    ("statistic", "answers", "sums"),
    [
        ("count", [(1,)] * 4 + [(0,)] * 3, [4]),
        ("histogram", [(1, 0, 0, 0), (1, 0, 0, 0), (0, 1, 1, 0)] * 2, [4, 2, 2, 0]),
        ("mean", [(5,), (1,), (0,), (7,), (9,), (3,)], [25]),
    ],
)
async def test_reports_of_devices_become_a_result(
    stage: Stage, statistic: str, answers: list[tuple[int, ...]], sums: list[int]
) -> None:
    devices = population(statistic)
    recipe = devices.recipe
    await stage.publish(recipe)
    assert await stage.recipes() == {recipe.hash_text: "active"}
    for answer in answers:
        verdict = await stage.send(devices.channel.url, devices.report(devices.exact(*answer)))
        assert verdict.fate is Fate.STORED
    assert (await stage.collect(recipe))["state"] == "collecting"
    stage.end_interval(recipe)
    assert await stage.releases.step() == 1
    assert await stage.aggregate(recipe) == (200, {"report_count": len(answers), "values": sums})
    stage.clock.jump(600)
    assert (await stage.collect(recipe))["state"] == "released"
    (result,) = await stage.results(recipe)
    assert result["report_count"] == len(answers)
    assert [bucket["count"] for bucket in result["buckets"]] == sums
    assert result["privacy"]["by_adversary"].keys() == {
        "analyzer", "release", "intruder", "intruder_with_analyzer",
    }  # fmt: skip
    assert result["privacy"]["by_adversary"]["intruder"] == 0.0
    assert await stage.releases.step() == 0


async def test_what_randomised_states_give_is_what_they_were_asked(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    for times in (0, 1, 0, 2, 3, 0, 0):
        assert (await stage.upload(devices, devices.report(devices.cells(times)))).status == 201
    stage.end_interval(devices.recipe)
    answered, document = await stage.aggregate(devices.recipe)
    assert answered == 200
    assert document["report_count"] == 7
    assert 0 <= document["values"][0] <= 7


async def test_the_opt_in_is_signed_before_a_report_is_taken(stage: Stage) -> None:
    devices = population()
    report = devices.report(devices.exact(1))
    stage.log.status = 503
    await stage.publish(devices.recipe)
    assert (await stage.recipes()) == {devices.recipe.hash_text: "opt-in-missing"}
    assert (await stage.upload(devices, report)).status == 404
    stage.log.status = 201
    stage.clock.jump(2 * PAUSES.first)
    await stage.follow()
    await stage.follow()
    (opt_in,) = stage.log.posted
    assert opt_in.type is LeafType.OPT_IN
    opt_in.verify(KIT.keys["analyzer"].public)
    body = opt_in.body_as(OptIn)
    assert (body.role, body.task_id, body.seed_id) == ("analyzer", devices.recipe.hash_text, None)
    assert (await stage.upload(devices, report)).status == 201


async def test_one_report_below_the_minimum_is_never_released(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    for _ in range(B - 1):
        await stage.upload(devices, devices.report(devices.exact(1)))
    late = devices.report(devices.exact(1))
    assert (await stage.aggregate(devices.recipe))[0] == 503
    stage.end_interval(devices.recipe)
    answered, problem = await stage.aggregate(devices.recipe)
    assert (answered, problem["type"]) == (422, "urn:tacit:refusal:batch-too-small")
    assert str(B - 1) not in problem["detail"]
    assert (await stage.upload(devices, late)).status == 422
    assert await stage.releases.step() == 0
    collected = await stage.collect(devices.recipe)
    assert (collected["state"], collected["rule"]) == ("refused", "urn:tacit:refusal:batch-too-small")
    assert (await stage.status(devices.recipe))["released"] == 0


async def test_a_recipe_that_released_nothing_is_void_and_stays_so(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    await stage.upload(devices, devices.report(devices.exact(1)))
    stage.end_interval(devices.recipe, 7 * 86_400.0)
    await stage.follow()
    void = stage.log.posted[-1]
    assert void == KIT.analyzer_void(devices.recipe)
    answered, problem = await stage.aggregate(devices.recipe)
    assert (answered, problem["type"]) == (422, "urn:tacit:refusal:recipe-void")


async def test_the_same_bytes_count_once_however_often_they_come(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    report = devices.report(devices.exact(1))
    assert [(await stage.upload(devices, report)).status for _ in range(3)] == [201, 201, 201]
    assert (await stage.status(devices.recipe))["aggregated"] == 1
    stage.end_interval(devices.recipe)
    assert (await stage.upload(devices, report)).status == 201


async def test_a_token_is_spent_once_and_a_report_id_used_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutcomesTx, "accepted_count", None)  # which reads every outcome: the status must not
    devices = population()
    await stage.publish(devices.recipe)
    token = devices.token()
    first, second = (devices.report(devices.exact(bit), token) for bit in (1, 0))
    other = devices.report(devices.exact(0))
    assert (await stage.send(devices.channel.url, first)).fate is Fate.STORED
    spent = await stage.send(devices.channel.url, second)
    assert (spent.fate, spent.detail) == (Fate.REFUSED, "the analyzer answered 422, report-replayed")
    assert (await stage.send(devices.channel.url, first[:16] + other[16:])).fate is Fate.REFUSED
    page = await stage.status(devices.recipe)
    assert (page["aggregated"], page["distinct_nullifiers"]) == (1, 1)
    assert page["rejected_by_cause"] == {"token-spent": 1}


async def test_what_does_not_count_is_refused_for_good_and_counted_by_cause(stage: Stage) -> None:
    devices, others = population(), population("histogram")
    await stage.publish(devices.recipe)
    token = devices.token()
    no_bit = devices.report(devices.exact(7), token)
    garbage = bytes(devices.channel.task.report_size)
    sealed = devices.report(devices.exact(1))
    elsewhere = sealed[:16] + bytes((sealed[16] ^ 1,)) + sealed[17:]
    for report in (elsewhere, no_bit, no_bit, others.report(others.exact(0, 1, 0, 0)), b"", garbage):
        answer = await stage.upload(devices, report)
        assert answer.status == 422
        assert b"urn:tacit:refusal:report-invalid" in answer.body
    stranger = population("mean")
    foreign = devices.report(devices.exact(1))[:16] + stranger.report(stranger.exact(1))[16:]
    assert (await stage.upload(devices, foreign)).status == 422
    again = devices.report(devices.exact(1), token)
    assert b"report-replayed" in (await stage.upload(devices, again)).body
    page = await stage.status(devices.recipe)
    causes = {"hpke-config": 1, "hpke-decrypt": 1, "state-no-bit": 1, "token-spent": 1}
    assert (page["aggregated"], page["rejected_by_cause"]) == (0, causes)


async def test_credentials_open_what_is_their_holders_and_nothing_else(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    report = devices.report(devices.exact(1))
    for token in (OPERATOR_TOKEN, "", "nobody"):
        assert (await stage.upload(devices, report, token)).status == 401
    for other in (OPERATOR_TOKEN, GATEWAY_TOKEN, None):
        assert (await stage.aggregate(devices.recipe, other))[0] == 401
    for path in (f"/v1/tasks/{devices.recipe.hash_text}/status", "/v1/recipes"):
        assert (await stage.get(path, GATEWAY_TOKEN))[0] == 401
    assert (await stage.get("/recipes/AAAA/aggregate"))[0] == 404
    assert (await stage.status(devices.recipe))["aggregated"] == 0


async def test_the_collector_learns_of_a_sum_that_fills_what_the_analyzer_tells_it(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    for _ in range(3 * B):
        await stage.upload(devices, devices.report(devices.exact(1)))
    path = f"/recipes/{devices.recipe.hash_text}/yield"
    for other in (OPERATOR_TOKEN, GATEWAY_TOKEN, None):
        assert (await stage.get(path, other))[0] == 401
    assert (await stage.get(f"/v1/tasks/{devices.recipe.hash_text}/status"))[0] == 401
    assert (await stage.get(path))[1]["looks"] == []
    stage.end_interval(devices.recipe, 0)
    answered, document = await stage.get(path)
    assert answered == 200
    assert [(one["number"], one["tenths"]) for one in document["looks"]] == [(LOOKS, STEPS)]
    assert document["min_batch_size"] == B
    asked = await stage.yield_at_the_collector(devices.recipe)
    assert asked == document
    stage.end_interval(devices.recipe, 40 * 86_400.0)
    await stage.follow()
    assert (await stage.get(path))[0] == 404


async def test_reports_are_taken_from_the_beginning_of_the_interval_to_the_end_of_the_grace(stage: Stage) -> None:
    devices = population()
    stage.clock.set_back(1_000.0)
    await stage.publish(devices.recipe)
    report = devices.report(devices.exact(1))
    early = await stage.send(devices.channel.url, report)
    assert early.fate is Fate.LATER
    stage.clock.jump(1_000.0)
    assert (await stage.send(devices.channel.url, report)).fate is Fate.STORED
    stage.end_interval(devices.recipe, 59.0)
    assert (await stage.send(devices.channel.url, devices.report(devices.exact(1)))).fate is Fate.STORED
    stage.end_interval(devices.recipe, 60.0)
    over = await stage.send(devices.channel.url, devices.report(devices.exact(1)))
    assert (over.fate, over.detail) == (Fate.REFUSED, "the analyzer answered 422, recipe-over")


async def test_a_window_above_twice_what_was_expected_is_not_released(stage: Stage) -> None:
    recipe = KIT.single_recipe(min_batch_size=B, expected_contributions=B)
    devices = Reporter(recipe, SeededEntropy(b"crowd"), KIT)
    await stage.publish(recipe)
    for _ in range(2 * B + 1):
        assert (await stage.upload(devices, devices.report(devices.exact(1)))).status == 201
    stage.end_interval(recipe)
    answered, problem = await stage.aggregate(recipe)
    assert (answered, problem["type"]) == (422, "urn:tacit:refusal:rate-bound")


async def test_recipes_that_it_cannot_serve_are_refused_with_the_reason(stage: Stage) -> None:
    body = population().recipe.body()
    other = {**body["parties"]["analyzer"], "state_key": state_key_text(generate_state_key(SeededEntropy(b"another")))}
    changed = Recipe.from_body({**body, "parties": {**body["parties"], "analyzer": other}})
    await stage.publish(changed)
    assert (await stage.recipes()) == {changed.hash_text: "own-state-key"}


async def test_nothing_is_counted_or_released_after_its_recipe_is_forgotten(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    for _ in range(B):
        await stage.upload(devices, devices.report(devices.exact(1)))
    stage.end_interval(devices.recipe)
    assert await stage.releases.step() == 1
    stage.end_interval(devices.recipe, 30 * 86_400.0 + 1)
    await stage.follow()
    assert (await stage.aggregate(devices.recipe))[0] == 404
    assert (await stage.recipes()) == {devices.recipe.hash_text: "ended"}
    await stage.start()
    assert (await stage.upload(devices, devices.report(devices.exact(1)))).status == 404
    assert await stage.releases.step() == 0


async def test_logs_and_errors_say_nothing_of_a_report(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    token = devices.token()
    sent = ((1, token), (9, devices.token()), (0, token))
    reports = [devices.report(devices.exact(number), bound) for number, bound in sent]
    reports.append(reports[0][:-1] + bytes((reports[0][-1] ^ 1,)))
    answers = [await stage.upload(devices, report) for report in reports]
    assert [answer.status for answer in answers] == [201, 422, 422, 422]
    stage.end_interval(devices.recipe)
    await stage.releases.step()
    said = "".join(capfd.readouterr()) + "".join(answer.body.decode() for answer in answers)
    secrets = [token.token, token.preimages.r_leader, KIT.state_key.scalar, KIT.hpke_key.key_pair.private]
    for secret in [*secrets, *(report[:16] for report in reports)]:
        assert secret.hex() not in said
        assert b64url(secret) not in said
    told = str(stage.observer.notes)
    assert all(secret.hex() not in told for secret in secrets)
    assert "not_released" in said


async def test_an_observer_is_told_what_the_analyzer_can_read_of_a_report_that_counts(stage: Stage) -> None:
    devices = population()
    await stage.publish(devices.recipe)
    good, bad = (devices.report(devices.exact(number)) for number in (1, 9))
    assert [(await stage.upload(devices, report)).status for report in (good, bad)] == [201, 422]
    told = [what for party, what in stage.observer.notes if party == "analyzer"]
    assert told == [{"report_id": good[:16].hex(), "randomised_answer": "1"}]
