"""Reports from devices through relay, gateway and shuffler to leader and helper, and a release at the collector."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infra.commands.recipes.recipe import yield_lines
from infra.lab.kit.recipes import URLS
from services.leader.app import STORE as STORE_OF_LEADER
from services.leader.app import UPLOAD
from services.shuffler.app import STORE
from services.shuffler.yield_reporter import PAUSES
from tacit import media_types
from tacit.aggregator.yield_looks import look_at
from tacit.errors import UsageError
from tacit.messages import ReportMetadata, UploadRequest
from tacit.models.interfaces.device import Fate
from tacit.roles.client import bound_report, shard
from tacit.task.one_server import Contents
from tacit.task.onward import ToLeader
from tacit.tlog.leaves import LeafType
from tacit.tlog.statements import OptIn
from tests.http.mixed_stage import PER_REQUEST, TOKENS, B, MixedStage, mixed_stage

REQUESTS = -(-B // PER_REQUEST) + 1


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[MixedStage]:
    async with mixed_stage(tmp_path) as found:
        yield found


def inner(stage: MixedStage, answer: int = 0) -> bytes:
    """The upload that a device seals to the shuffler."""
    devices = stage.devices
    bound = devices.token()
    made = devices.channel.inner.submission(devices.measurement(answer), bound.token, bound.preimages, devices.entropy)
    return made.body


def around(stage: MixedStage, payload: bytes, token: bytes) -> bytes:
    """A report to the shuffler with this payload."""
    task, entropy = stage.devices.channel.task, stage.devices.entropy
    return task.seal(entropy(16), Contents(token, None, payload), entropy).encode()


async def test_reports_of_devices_become_a_release(stage: MixedStage) -> None:
    for name in ("shuffler", "leader", "helper"):
        assert await stage.states(name) == {stage.recipe.hash_text: "active"}
    count = B + 10
    for number in range(count):
        assert (await stage.send(stage.devices.report(number % 16))).fate is Fate.STORED
    assert (await stage.status("leader"))["uploaded"] == 0
    assert (await stage.collect())["state"] == "collecting"
    stage.end_interval()
    assert (await stage.collect())["state"] == "collecting", "the shuffler has not forwarded anything"
    assert await stage.forwarding.step() == -(-count // PER_REQUEST) + 1
    assert await stage.forwarding.step() == 0
    assert (await stage.collect())["state"] == "released"
    (result,) = await stage.results()
    assert result["report_count"] == count
    assert [(await stage.status(name))["aggregated"] for name in ("shuffler", "leader", "helper")] == [count] * 3


async def test_all_three_opt_in_before_a_report_is_taken(stage: MixedStage) -> None:
    bodies = [leaf.body_as(OptIn) for leaf in stage.log.posted if leaf.type is LeafType.OPT_IN]
    confirmed = {body.role: body.verify_key_confirmation is not None for body in bodies}
    assert confirmed == {"leader": True, "helper": True, "shuffler": False}


async def test_nobody_but_the_shuffler_uploads_to_the_leader(stage: MixedStage) -> None:
    """Neither a gateway with a device's own report, over HTTP or in the leader's process, nor anybody else."""
    body = inner(stage)
    refused = await stage.upload(body, TOKENS["reports"])
    assert (refused.status, b"sender-not-allowed" in refused.body) == (403, True)
    answers = [(await stage.upload(body, TOKENS[name])).status for name in ("bundles", "collector", "operator")]
    assert answers == [401, 401, 401]
    (inside,) = await stage.apps["leader"][UPLOAD]([(stage.task, media_types.dap("upload-req"), body)])
    assert (inside.status, b"sender-not-allowed" in inside.body) == (403, True)
    assert (await stage.upload(b"", TOKENS["reports"])).status == 403, "nor may a gateway end it"
    assert (await stage.status("leader"))["uploaded"] == 0
    assert (await stage.upload(body, TOKENS["messages"])).status == 200


@pytest.mark.false_alarm(1e-4, "two-sided geometric noise of scale 5 below -42")
async def test_how_far_a_recipe_is_filled_comes_from_the_shuffler_long_before_it_forwards(tmp_path: Path) -> None:
    """A look at 52 of 50 reports tells 2 tenths of B or more unless two-sided geometric noise of scale 5 is below -42,
    which has probability 1e-4. What is shown is what ``tacit recipe yield`` prints."""
    async with mixed_stage(tmp_path, "file") as stage:
        interval = stage.recipe.interval
        await stage.fill(B + 2)
        assert yield_lines(await stage.batch_yield())[0] == "no count yet"
        assert await stage.yield_reporter.step() == 0, "none is due"
        stage.clock.jump(look_at(interval.start, interval.end, 1) - stage.clock.now())
        assert (await stage.batch_yield()).looks == (), "the leader makes none of the nothing that it has"
        stage.network.partition(URLS["leader"])
        assert await stage.yield_reporter.step() == 0
        stage.network.heal()
        assert await stage.yield_reporter.step() == 0, "after a failure comes a pause"
        stage.clock.jump(PAUSES.first * 2)
        assert [await stage.yield_reporter.step() for _ in range(2)] == [1, 0]
        first = await stage.batch_yield()
        assert [(one.number, one.tenths >= 2) for one in first.looks] == [(1, True)]
        assert yield_lines(first)[0].startswith(f"about {first.contributions} of B = {B} contributions")
        await stage.start("shuffler")
        await stage.start("leader")
        assert await stage.yield_reporter.step() == 1, "told again, as it was"
        assert (await stage.batch_yield()).looks == first.looks
        stage.clock.jump(look_at(interval.start, interval.end, 4) - stage.clock.now())
        assert await stage.yield_reporter.step() == 1
        assert [one.number for one in (await stage.batch_yield()).looks] == [1, 4]
        assert (await stage.status("leader"))["uploaded"] == 0


async def test_the_leader_takes_a_look_only_from_the_shuffler_and_the_first_one_stays(stage: MixedStage) -> None:
    look = {"number": 1, "at": stage.recipe.interval.start, "tenths": 3}
    others = [(await stage.tell(look, TOKENS[name])).status for name in ("reports", "bundles", "collector", "operator")]
    assert others == [401] * 4
    wrong: Any
    for wrong in ({**look, "tenths": 11}, {**look, "number": 6}, {**look, "more": 1}, {"number": 1}, [], None):
        assert (await stage.tell(wrong)).status == 400
    assert (await stage.tell({**look, "at": "9" * 300})).status == 413
    for tenths in (3, 9):
        assert (await stage.tell({**look, "tenths": tenths})).status == 201
    assert [one.tenths for one in (await stage.batch_yield()).looks] == [3]


async def test_open_uploads_do_not_go_round_the_shuffler(tmp_path: Path) -> None:
    async with mixed_stage(tmp_path, leader={"open_uploads": {"bytes_per_minute": 1 << 20}}) as stage:
        assert (await stage.upload(inner(stage), "")).status == 403
        assert (await stage.status("leader"))["uploaded"] == 0


async def test_one_report_below_the_minimum_passes_nothing_on_and_leaves_nothing(tmp_path: Path) -> None:
    async with mixed_stage(tmp_path, "file") as stage:
        sent = watched(stage)
        reports = [inner(stage, number % 16) for number in range(B - 1)]
        for report in reports:
            assert (await stage.bring(around(stage, report, stage.devices.token().token))).status == 201
        stage.end_interval(59)
        assert await stage.forwarding.step() == 0, "the grace is not over"
        stage.end_interval()
        assert await stage.forwarding.step() == 1
        assert sent == [b""]
        assert (await stage.status("shuffler"))["rejected_by_cause"] == {"batch-too-small": B - 1}
        collected = await stage.collect()
        assert (collected["state"], (await stage.status("leader"))["uploaded"]) == ("refused", 0)
        assert "invalidBatchSize" in collected["rule"]
        await stage.apps["shuffler"][STORE].checkpoint()
        files = b"".join(path.read_bytes() for path in sorted((tmp_path / "shuffler").glob("*.sqlite3*")))
        assert not any(report in files for report in reports)


def watched(stage: MixedStage) -> list[bytes]:
    """Every upload that the leader was sent from now on, lost ones too."""
    sent, real = list[bytes](), stage.network.request

    async def request(method: str, url: str, **rest: Any) -> Any:
        if url.endswith(f"/tasks/{stage.task}/reports"):
            sent.append(rest["body"])
        return await real(method, url, **rest)

    stage.network.request = request  # type: ignore[method-assign]
    return sent


async def test_a_token_brings_one_report_and_the_same_bytes_count_once(stage: MixedStage) -> None:
    devices = stage.devices
    token = devices.token()
    first, second = (devices.report(one, token) for one in (0, 1))
    assert [(await stage.bring(first)).status for _ in range(3)] == [201] * 3
    spent = await stage.send(second)
    assert (spent.fate, spent.detail) == (Fate.REFUSED, "the shuffler answered 422, report-replayed")
    page = await stage.status("shuffler")
    assert (page["aggregated"], page["rejected_by_cause"]) == (1, {"token-spent": 1})


async def test_two_tokens_around_one_report_count_once_at_the_leader(stage: MixedStage) -> None:
    """A device with a second token at the shuffler alone makes the shuffler's count, and no other, larger."""
    report = inner(stage)
    for _ in range(2):
        assert (await stage.bring(around(stage, report, stage.devices.token().token))).status == 201
    await stage.fill(B - 2)
    stage.end_interval()
    await stage.forwarding.step()
    assert (await stage.collect())["state"] == "refused", "the leader counts one report less than B"
    assert (await stage.status("leader"))["distinct_nullifiers"] == B - 1


async def test_a_report_under_another_key_or_of_another_recipe_or_size_is_refused(tmp_path: Path) -> None:
    async with mixed_stage(tmp_path) as stage:
        report = stage.devices.report()
        for wrong in (report[:16] + bytes([99]) + report[17:], report[:-1] + bytes([report[-1] ^ 1]), report[:-1], b""):
            answer = await stage.bring(wrong)
            assert (answer.status, b"report-invalid" in answer.body) == (422, True)
        garbled = bytearray(stage.devices.token().token)
        garbled[-1] ^= 1
        assert (await stage.bring(around(stage, inner(stage), bytes(garbled)))).status == 422
        assert (await stage.status("shuffler"))["aggregated"] == 0


@pytest.mark.parametrize("mark", ["time", "noise"])
async def test_a_report_that_others_could_tell_from_the_rest_is_refused(stage: MixedStage, mark: str) -> None:
    devices = stage.devices
    task, bound = devices.channel.inner.task, devices.token()  # type: ignore[attr-defined]
    metadata = ReportMetadata(devices.entropy(16), task.interval.start + (mark == "time"))
    sharing = shard(task, devices.measurement(1), metadata.report_id, devices.entropy)
    made = bound_report(task, sharing, bound.token, bound.preimages, metadata, devices.entropy)
    payload = UploadRequest((made,)).encode()
    if mark == "noise":
        payload = devices.entropy(len(payload))
    assert (await stage.bring(around(stage, payload, bound.token))).status == 422
    cause = {"time": "report-marked", "noise": "report-malformed"}[mark]
    assert (await stage.status("shuffler"))["rejected_by_cause"] == {cause: 1}


async def test_the_leader_sees_a_uniform_permutation_of_the_reports(stage: MixedStage) -> None:
    """Of the stored records of 50 reports, 2,000 drawn orders: where the first to arrive comes out is uniform over 50
    places (chi-square below 105.5 for 49 degrees of freedom), and the number of neighbours that stay neighbours has
    mean 49/50 and variance below 1, so its mean over the orders is within 0.11 of it. A fair permutation fails one of
    them once in 100,000 runs."""
    await stage.fill(B)
    (party,) = stage.forwarding._parties.active()
    assert isinstance(party.onward, ToLeader)
    async with stage.apps["shuffler"][STORE].read() as tx:
        bundles = await tx.kept_together(party.task.task_id)
    size = party.onward.size
    arrived = [bytes(bundles[at : at + size]) for at in range(0, len(bundles), size)]
    number = {report: at for at, report in enumerate(arrived)}
    assert len(number) == B
    places, kept, rounds = [0] * B, 0, 2_000
    for _ in range(rounds):
        *requests, last = stage.forwarding._permute(party.onward, bundles)
        body = b"".join(requests)
        order = [number[body[at : at + size]] for at in range(0, len(body), size)]
        assert (sorted(order), last) == (list(range(B)), b"")
        places[order.index(0)] += 1
        kept += sum(other == one + 1 for one, other in pairwise(order))
    expected = rounds / B
    assert sum((found - expected) ** 2 / expected for found in places) < 105.5
    assert abs(kept / rounds - (B - 1) / B) < 0.11


async def test_after_the_flush_the_shufflers_database_does_not_tell_which_report_came_when(tmp_path: Path) -> None:
    async with mixed_stage(tmp_path, "file") as stage:
        await stage.fill(B)
        stage.end_interval()
        assert await stage.forwarding.step() == REQUESTS
        await stage.work()
        async with stage.apps["shuffler"][STORE].read() as tx:
            before = await nullifiers(tx)
        async with stage.apps["leader"][STORE_OF_LEADER].read() as tx:
            after = await nullifiers(tx)
        assert (len(before), len(after)) == (B, B)
        assert not before & after
        assert (await stage.status("shuffler"))["distinct_nullifiers"] == B


async def nullifiers(tx: Any) -> set[bytes]:
    rows = await tx.connection.exec_driver_sql("SELECT nullifier FROM outcomes")
    return {bytes(row[0]) for row in rows}


async def test_a_shuffler_or_a_leader_without_the_others_credential_refuses_the_recipe(tmp_path: Path) -> None:
    async with mixed_stage(tmp_path, leader={"shuffler_token": None}) as stage:
        assert await stage.states("leader") == {stage.recipe.hash_text: "shuffler-unknown"}
        assert await stage.states("helper") == {stage.recipe.hash_text: "opt-in-missing"}
    changes = {"leader_token": None, "analyzer_token": tmp_path / "messages.token"}
    async with mixed_stage(tmp_path, shuffler=changes) as stage:
        assert await stage.states("shuffler") == {stage.recipe.hash_text: "model-unsupported"}
    with pytest.raises(UsageError, match="analyzer_token or leader_token is needed"):
        async with mixed_stage(tmp_path, shuffler={"leader_token": None}):
            raise AssertionError
