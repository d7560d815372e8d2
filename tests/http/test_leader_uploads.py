"""Frames of uploads at the leader: who may send them, what each upload is answered, what a damaged frame costs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infra.lab.kit.aggregators import COLLECTOR_TOKEN, GATEWAY_TOKEN, OPERATOR_TOKEN, AggregatorPair
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.recipes import URLS
from infra.lab.kit.reports import make_task_kit
from tacit import media_types
from tacit.dap_errors import ReportError
from tacit.media_types import PROBLEM_JSON, UPLOAD_REQ_FRAME, UPLOAD_RES_FRAME
from tacit.message_frames import MOST_UPLOAD_BYTES, MOST_UPLOADS, MessageAnswer, decode_answers, encode_requests
from tacit.messages import Role, UploadErrors
from tacit.ports import HttpResponse
from tacit.recipe.derive import task_id
from tacit.service.base.config import Listen
from tacit.service.metrics import WINDOW_SECONDS
from tacit.service.metrics_listener import metrics_site
from tests.http.mixed_stage import TOKENS, mixed_stage
from tests.http.test_leader import KIT, pair_of, status

TASK = KIT.task.task_id
METRICS_URL = "http://127.0.0.1:9"


async def post(
    pair: AggregatorPair, frame: bytes, token: str | None = GATEWAY_TOKEN, kind: str = UPLOAD_REQ_FRAME
) -> HttpResponse:
    headers = {"Content-Type": kind} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    url = f"{KIT.task.configuration.leader_aggregator_endpoint}/uploads"
    return await pair.inner.request("POST", url, headers=headers, body=frame)


async def send(pair: AggregatorPair, *bodies: bytes, task: bytes = TASK) -> Sequence[MessageAnswer]:
    answer = await post(pair, encode_requests([task + body for body in bodies]))
    assert (answer.status, answer.headers["content-type"]) == (200, UPLOAD_RES_FRAME)
    return decode_answers(answer.body, count=len(bodies), max_body=1 << 20)


async def test_an_upload_in_a_frame_is_answered_as_it_would_be_alone(tmp_path: Path) -> None:
    factory = KIT.reports(301)
    good, replayed = factory.valid(1), factory.valid(2)
    other = dataclasses.replace(factory.valid(0), report_metadata=replayed.report_metadata)
    late = dataclasses.replace(good, report_metadata=dataclasses.replace(factory.valid(1).report_metadata, time=1))
    bodies = [good.encode(), other.encode(), late.encode(), b"", b"malformed", good.encode()[:-1], bytes(5000)]
    async with pair_of(tmp_path / "alone") as pair:
        pair.settings[Role.LEADER]["max_body"] = 4096
        await pair.start(Role.LEADER)
        await pair.upload([replayed])
        alone = [await pair.post_reports(body) for body in bodies]
    async with pair_of(tmp_path / "framed") as pair:
        pair.settings[Role.LEADER]["max_body"] = 4096
        await pair.start(Role.LEADER)
        await pair.upload([replayed])
        framed = await send(pair, *bodies)
        assert (await status(pair))["pending"] == 2
    assert [answer.status for answer in framed] == [200, 200, 200, 200, 400, 400, 413]
    assert [(one.status, one.headers.get("content-type", ""), one.body) for one in alone] == [
        (one.status, one.content_type, one.body) for one in framed
    ]
    found = [UploadErrors.decode(one.body).status[0].error for one in framed[1:3]]
    assert found == [ReportError.REPORT_REPLAYED, ReportError.REPORT_DROPPED]


async def test_refusals_in_frames_are_shown_as_those_of_uploads(tmp_path: Path) -> None:
    """250 of each class, and numbers that are shown in steps of 100."""
    async with pair_of(tmp_path) as pair:
        for _ in range(2):
            await send(pair, *[b"", b"malformed"] * 125)
        await pair.clock.advance(WINDOW_SECONDS)
        app = metrics_site(pair.apps[Role.LEADER], Listen())
        async with InProcessTransport({METRICS_URL: app}) as network:
            page = (await network.request("GET", f"{METRICS_URL}/metrics")).body.decode()
    shown = {
        (sample.labels["route"], sample.labels["status"]): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "tacit_http_request_duration_seconds_count"
    }
    route = "/tasks/{task_id}/reports"
    assert {kind: shown[route, kind] in {200, 300} for kind in ("2xx", "4xx")} == {"2xx": True, "4xx": True}


async def test_a_frame_may_name_several_tasks_and_an_unknown_one_costs_its_own_upload(tmp_path: Path) -> None:
    factory = KIT.reports(302)
    async with pair_of(tmp_path) as pair:
        tasks = (TASK, bytes(32), TASK)
        frame = encode_requests([task + factory.valid(1).encode() for task in tasks])
        found = decode_answers((await post(pair, frame)).body, count=3, max_body=4096)
        assert [one.status for one in found] == [200, 404, 200]
        assert json.loads(found[1].body)["taskid"] == "A" * 43
        assert (await status(pair))["pending"] == 2


async def test_a_frame_that_is_sent_again_is_answered_again_and_counts_once(tmp_path: Path) -> None:
    factory = KIT.reports(303)
    bodies = [factory.valid(1).encode() for _ in range(10)]
    async with pair_of(tmp_path, storage="file") as pair:
        frame = encode_requests([TASK + body for body in (*bodies, bodies[0])])
        first = await post(pair, frame)
        await pair.start(Role.LEADER)
        again = await post(pair, frame)
        assert (first.status, first.body) == (again.status, again.body)
        assert {one.status for one in decode_answers(again.body, count=11, max_body=0)} == {200}
        await pair.end_interval()
        assert pair.opened(await pair.collect()).values == (0, 10, 0, 0)


@pytest.mark.parametrize(
    ("frame", "kind", "expected"),
    [
        (b"", UPLOAD_REQ_FRAME, 400),
        (bytes(3), UPLOAD_REQ_FRAME, 400),
        (encode_requests([TASK + b"x"])[:-1], UPLOAD_REQ_FRAME, 400),
        (encode_requests([TASK + b"x"]) + b"\x00", UPLOAD_REQ_FRAME, 400),
        (encode_requests([TASK[:-1]]), UPLOAD_REQ_FRAME, 400),
        (encode_requests([TASK] * (MOST_UPLOADS + 1)), UPLOAD_REQ_FRAME, 400),
        (b"\xff\xff\xff\xff" + TASK, UPLOAD_REQ_FRAME, 400),
        (bytes(MOST_UPLOAD_BYTES + 1), UPLOAD_REQ_FRAME, 413),
        (encode_requests([TASK + b"x"]), media_types.dap("upload-req"), 415),
    ],
    ids=["empty", "no length", "cut", "a byte more", "no task", "too many", "a long length", "too large", "plain"],
)
async def test_a_damaged_frame_is_refused_whole_and_stores_nothing(
    tmp_path: Path, frame: bytes, kind: str, expected: int
) -> None:
    report = encode_requests([TASK + KIT.reports(304).valid(1).encode()])
    async with pair_of(tmp_path) as pair:
        whole = frame if len(frame) > MOST_UPLOAD_BYTES or not frame else report + frame
        answer = await post(pair, whole, kind=kind)
        assert (answer.status, answer.headers["content-type"]) == (expected, PROBLEM_JSON)
        assert (await status(pair))["uploaded"] == 0


@pytest.mark.parametrize("token", [None, "guessed", COLLECTOR_TOKEN, OPERATOR_TOKEN])
@pytest.mark.parametrize("is_open", [False, True])
async def test_only_a_gateway_that_the_leader_knows_sends_frames(
    tmp_path: Path, token: str | None, *, is_open: bool
) -> None:
    report = KIT.reports(305).valid(1).encode()
    pair = pair_of(tmp_path)
    if is_open:
        pair.settings[Role.LEADER]["open_uploads"] = {"bytes_per_minute": 1 << 20}
    async with pair:
        answer = await post(pair, encode_requests([TASK + report]), token)
        assert (answer.status, answer.headers["content-type"]) == (401, PROBLEM_JSON)
        assert (await status(pair))["uploaded"] == 0


async def test_a_leader_that_knows_no_gateway_takes_no_frames(tmp_path: Path) -> None:
    pair = pair_of(tmp_path)
    del pair.settings[Role.LEADER]["gateway_tokens"]
    pair.settings[Role.LEADER]["open_uploads"] = {"bytes_per_minute": 1 << 20}
    async with pair:
        assert (await post(pair, encode_requests([TASK]))).status == 401
        assert (await pair.post_reports(KIT.reports(306).valid(1).encode(), None)).status == 200


async def test_neither_a_shuffler_sends_frames_nor_do_they_go_round_it(tmp_path: Path) -> None:
    async with mixed_stage(tmp_path) as stage:
        url, task = URLS["leader"] + "/uploads", task_id(stage.recipe)
        headers = {"Content-Type": UPLOAD_REQ_FRAME}
        for role, expected in (("messages", 401), ("reports", 200)):
            headers["Authorization"] = f"Bearer {TOKENS[role]}"
            answer = await stage.inner.request("POST", url, headers=headers, body=encode_requests([task, task + b"x"]))
            assert answer.status == expected
        first, second = decode_answers(answer.body, count=2, max_body=4096)
        assert (first.status, second.status) == (403, 400)
        assert b"sender-not-allowed" in first.body


async def test_uploads_in_a_frame_have_the_room_of_single_ones(tmp_path: Path) -> None:
    kit = make_task_kit(min_batch_size=2, expected_contributions=2)
    factory = kit.reports(307)
    reports = [factory.valid(1).encode() for _ in range(5)]
    async with pair_of(tmp_path, kit, limits={"pending_floor": 1}) as pair:
        assert (await pair.post_reports(b"".join(reports[:3]))).status == 503, "one request has half of the room"
        assert [one.status for one in await send(pair, *reports[:4], task=kit.task.task_id)] == [200] * 4
        (refused,) = await send(pair, reports[4], task=kit.task.task_id)
        assert (refused.status, refused.retry_after in range(1, 11)) == (503, True)


async def test_uploads_over_the_leaders_memory_are_told_to_come_back_one_by_one(tmp_path: Path) -> None:
    factory = KIT.reports(308)
    reports = [factory.valid(1).encode() for _ in range(4)]
    pair = pair_of(tmp_path)
    pair.settings[Role.LEADER]["max_in_flight"] = sum(map(len, reports[:3]))
    async with pair:
        assert [one.status for one in await send(pair, *reports)] == [200, 200, 200, 503]
        assert [one.status for one in await send(pair, reports[3])] == [200], "and what they took is given back"


async def test_a_frame_that_never_ends_stores_nothing_and_is_sent_again(tmp_path: Path) -> None:
    factory = KIT.reports(309)
    reports = [factory.valid(1).encode() for _ in range(3)]
    frame = encode_requests([TASK + body for body in reports])
    headers = {"Content-Type": UPLOAD_REQ_FRAME, "Authorization": f"Bearer {GATEWAY_TOKEN}"}
    url = f"{KIT.task.configuration.leader_aggregator_endpoint}/uploads"
    async with pair_of(tmp_path, storage="file") as pair:
        pair.inner.half_sent("POST", url, headers=headers, body=frame, held=len(reports[2]))
        assert (await status(pair))["uploaded"] == 0
        await pair.start(Role.LEADER)
        assert [one.status for one in await send(pair, *reports)] == [200] * 3
        assert (await status(pair))["uploaded"] == 3
