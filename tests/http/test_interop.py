"""The interoperation test API: whole flows over HTTP in every profile, and what is answered to wrong requests."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tacit import media_types
from tacit.codec import b64url, unb64url
from tacit.messages import HpkeConfigList
from tacit.version import VERSIONS
from tests.http.interop_stage import COUNT, Bench, bench

pytestmark = pytest.mark.false_alarm(0, "sums are exact, orders and pauses are nobody's", runs=3)
SUM = {"type": "Prio3Sum", "max_measurement": "255"}
SUM_VEC = {"type": "Prio3SumVec", "length": "4", "max_measurement": "7", "chunk_length": "3"}
HISTOGRAM = {"type": "Prio3Histogram", "length": "5", "chunk_length": "2"}
MULTIHOT = {"type": "Prio3MultihotCountVec", "length": "4", "max_weight": "2", "chunk_length": "2"}
MULTIPROOF = {
    "type": "Prio3SumVecField64MultiproofHmacSha256Aes128",
    "proofs": "2",
    "length": "3",
    "max_measurement": "7",
    "chunk_length": "2",
}
L1_BOUND = {"type": "Prio3L1BoundSum", "length": "3", "max_value": "9", "chunk_length": "4"}
FLOWS: list[tuple[dict[str, str], list[Any], Any]] = [
    (COUNT, ["1", "0", "1", "1"], "3"),
    (SUM, ["1", "255", "40", "4"], "300"),
    (SUM_VEC, [["0", "1", "2", "7"], ["7", "7", "0", "0"], ["1", "1", "1", "1"]], ["8", "9", "3", "8"]),
    (MULTIPROOF, [["0", "1", "7"], ["7", "7", "0"], ["1", "0", "0"]], ["8", "8", "7"]),
    (HISTOGRAM, ["0", "4", "4", "2"], ["1", "0", "1", "0", "2"]),
    (MULTIHOT, [["1", "0", "0", "1"], ["0", "0", "0", "1"], ["1", "1", "0", "0"]], ["2", "1", "0", "2"]),
    (L1_BOUND, [["9", "0", "0"], ["2", "3", "4"], ["0", "0", "0"]], ["11", "3", "4"]),
]
every_profile = pytest.mark.parametrize("profile", VERSIONS)


@pytest.fixture
async def servers(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with bench(getattr(request, "param", "dap-18")) as found:
        yield found


@every_profile
@pytest.mark.parametrize(("vdaf", "measurements", "result"), FLOWS, ids=[str(flow[0]["type"]) for flow in FLOWS])
async def test_measurements_come_out_as_their_sum(
    profile: str, vdaf: dict[str, str], measurements: list[Any], result: Any
) -> None:
    async with bench(profile) as servers:
        await servers.describe(vdaf)
        await servers.add_task()
        before = int(time.time()) // 60 * 60
        for measurement in measurements:
            assert await servers.upload(measurement) == {"status": "success"}
        started = await servers.start()
        assert started["status"] == "success"
        found = await servers.result(started["handle"])
        assert (found["status"], found["report_count"], found["result"]) == ("complete", len(measurements), result)
        assert before <= found["interval_start"]
        assert found["interval_duration"] in {60, 120}


@pytest.mark.slow
@every_profile
async def test_two_leader_selected_batches_come_one_after_the_other(profile: str) -> None:
    async with bench(profile) as servers:
        await servers.describe(COUNT, batch_mode=2, batch=2)
        await servers.add_task()
        for bits in ("11", "10"):
            for bit in bits:
                assert (await servers.upload(bit))["status"] == "success"
            started = await servers.start()
            found = await servers.result(started["handle"])
            assert (found["report_count"], found["result"]) == (2, str(bits.count("1")))


@every_profile
async def test_a_batch_is_collected_once_and_takes_no_more_reports(profile: str) -> None:
    async with bench(profile) as servers:
        await servers.describe(SUM, batch=2)
        await servers.add_task()
        now = int(time.time()) // 60 * 60
        for seconds, value in ((now, "1"), (now, "2"), (now - 3600, "50"), (now - 3600, "60")):
            assert (await servers.upload(value, time=seconds))["status"] == "success"
        this = {"type": 1, "batch_interval_start": now, "batch_interval_duration": 60}
        first = await servers.start(this)
        assert (await servers.result(first["handle"]))["result"] == "3"
        again = await servers.start(this)
        assert again == first
        assert (await servers.result(again["handle"]))["result"] == "3"
        wider = {"type": 1, "batch_interval_start": now - 60, "batch_interval_duration": 120}
        refused = await servers.start(wider)
        assert refused["status"] == "error"
        assert "batchOverlap" in refused["error"]
        await servers.upload("200", time=now)
        await servers.upload("7", time=now - 3600)
        other = await servers.start({"type": 1, "batch_interval_start": now - 3600, "batch_interval_duration": 60})
        found = await servers.result(other["handle"])
        assert (found["report_count"], found["result"]) == (3, "117")


async def test_a_batch_below_the_minimum_is_not_released_before_it_is_full(servers: Bench) -> None:
    await servers.describe(COUNT, batch=2)
    await servers.add_task()
    await servers.upload("1")
    started = await servers.start()
    for _ in range(5):
        assert (await servers.told("collector", "collection_poll", {"handle": started["handle"]})) == {
            "status": "in progress"
        }
    await servers.upload("1")
    assert (await servers.result(started["handle"]))["result"] == "2"


async def test_the_draft_of_dap_09_and_a_whole_configuration_name_the_same_task(servers: Bench) -> None:
    await servers.describe({"type": "Prio3Sum", "bits": "8"}, batch=1)
    servers.members |= {"query_type": servers.members.pop("batch_mode"), "max_batch_query_count": 1}
    start = int(time.time()) // 3600 * 3600 - 3600
    servers.members |= {"task_start": start, "task_duration": 10 * 3600, "task_info": b64url(b"a test")}
    servers.members["batch_mode"] = 1
    await servers.add_task()
    parts = servers.members
    configuration = (
        b"\x06a test"
        + b"".join(len(parts[role]).to_bytes(2, "big") + parts[role].encode() for role in ("leader", "helper"))
        + (60).to_bytes(8, "big")
        + (1).to_bytes(8, "big")
        + b"\x01\x00\x00"
        + b"\x00\x00\x00\x02\x00\x08"
        + (255).to_bytes(8, "big")
        + b"\x00\x14\x00\x01\x00\x10"
        + (start // 60).to_bytes(8, "big")
        + (600).to_bytes(8, "big")
    )
    whole = {name: parts[name] for name in ("task_id", "leader", "vdaf")}
    whole |= {"task_configuration": b64url(configuration), "measurement": "7"}
    assert await servers.told("client", "upload", whole) == {"status": "success"}
    assert (await servers.upload("9"))["status"] == "success"
    started = await servers.start()
    assert (await servers.result(started["handle"]))["result"] == "16"


async def test_a_report_of_another_configuration_does_not_count(servers: Bench) -> None:
    await servers.describe(COUNT, batch=1)
    await servers.add_task()
    assert (await servers.upload("1", min_batch_size=2))["status"] == "success"
    assert (await servers.upload("1"))["status"] == "success"
    started = await servers.start()
    assert (await servers.result(started["handle"]))["report_count"] == 1


@pytest.mark.parametrize("servers", VERSIONS, indirect=True)
async def test_an_aggregator_takes_only_the_tokens_of_the_task(servers: Bench) -> None:
    await servers.describe(COUNT)
    await servers.add_task()
    by_put = VERSIONS[servers.profile].creates_by_put
    method, last = ("PUT", "/" + b64url(bytes(16))) if by_put else ("POST", "")
    for role, name, message, token in (
        ("leader", "collection_jobs", "collection-job-req", servers.collector_token),
        ("helper", "aggregation_jobs", "aggregation-job-init-req", servers.leader_token),
    ):
        url = f"{servers.urls[role]}/tasks/{b64url(servers.task_id)}/{name}{last}"
        for headers, status in (
            ({}, 401),
            ({"DAP-Auth-Token": "other"}, 401),
            ({"Authorization": "Bearer other", "DAP-Auth-Token": token}, 401),
            ({"DAP-Auth-Token": token}, 400),
            ({"Authorization": f"Bearer {token}"}, 400),
        ):
            sent = {**headers, "Content-Type": media_types.dap(message)}
            assert (await servers.http.request(method, url, headers=sent, body=b"no message")).status == status
    unknown = f"{servers.urls['helper']}/tasks/{b64url(bytes(32))}/aggregation_jobs{last}"
    answer = await servers.http.request(method, unknown, headers={"DAP-Auth-Token": "any"})
    assert json.loads(answer.body)["type"] == "urn:ietf:params:ppm:dap:error:unrecognizedTask"


async def test_everybody_is_ready_and_tells_other_commands_apart(servers: Bench) -> None:
    for role in servers.urls:
        for body, media_type in ((b"", "text/plain"), (b"{}", media_types.JSON)):
            answer = await servers.post(role, "ready", body, media_type)
            assert (answer.status, json.loads(answer.body)) == (200, {})
        assert (await servers.post(role, "no_such_command", {})).status == 404
        url = f"{servers.urls[role]}/internal/test/ready"
        assert (await servers.http.request("GET", url)).status == 405


async def test_a_request_that_is_wrong_is_answered_with_an_error_that_says_what(servers: Bench) -> None:
    await servers.describe(COUNT)
    collector = {**servers.members, "collector_authentication_token": "token"}
    config = (await servers.told("collector", "add_task", collector))["collector_hpke_config"]
    leader = servers.of_aggregator("leader", config)
    other = {**collector, "task_id": b64url(b"another task".ljust(32))}
    upload = {**servers.members, "measurement": "1"}
    short = b64url(bytes(31))
    cases: list[tuple[str, str, dict[str, Any], str]] = [
        ("leader", "endpoint_for_task", {"task_id": short, "role": "leader", "hostname": "a"}, "task_id has 31 bytes"),
        ("leader", "endpoint_for_task", {"task_id": short, "role": "collector", "hostname": "a"}, "role"),
        ("leader", "endpoint_for_task", {**leader, "role": "helper", "hostname": "a"}, "this server is a leader"),
        ("leader", "add_task", {**leader, "role": "helper"}, "this server is a leader"),
        ("leader", "add_task", {**leader, "role": "judge"}, "role"),
        ("leader", "add_task", {**leader, "vdaf": {"type": "Prio3Median"}}, "Prio3Median is not supported"),
        ("leader", "add_task", {**leader, "vdaf": {"type": "Poplar1", "bits": "4"}}, "Poplar1 is not supported"),
        ("leader", "add_task", {**leader, "vdaf": {**HISTOGRAM, "length": 5}}, "vdaf.length"),
        ("leader", "add_task", {**leader, "vdaf": {**HISTOGRAM, "length": "9" * 38}}, "length below 2^32"),
        ("leader", "add_task", {**leader, "vdaf": {**SUM_VEC, "length": "99999999"}}, "elements"),
        ("leader", "add_task", {**leader, "vdaf_verify_key": "no base64!"}, "vdaf_verify_key"),
        ("leader", "add_task", {**leader, "vdaf_verify_key": short}, "must have 32 bytes"),
        ("leader", "add_task", {**leader, "collector_hpke_config": config + "="}, "canonical base64"),
        ("leader", "add_task", {**leader, "collector_hpke_config": b64url(bytes(41))}, "collector_hpke_config"),
        ("leader", "add_task", {**leader, "task_id": short}, "task_id has 31 bytes"),
        ("leader", "add_task", {**leader, "batch_mode": 3}, "batch_mode"),
        ("leader", "add_task", {**leader, "min_batch_size": 0}, "minimum batch size"),
        ("leader", "add_task", {**leader, "min_batch_size": "3"}, "min_batch_size"),
        ("leader", "add_task", {**leader, "leader": "http://ümlaut.example"}, "ascii"),
        ("leader", "add_task", {**leader, "task_start": 60}, "task_end"),
        ("leader", "add_task", {**leader, "task_start": 61, "task_end": 121}, "multiples of time_precision"),
        ("leader", "add_task", {**leader, "task_info": ""}, "task info"),
        (
            "leader",
            "add_task",
            {**leader, "leader_authentication_token": "two\r\nlines"},
            "leader_authentication_token",
        ),
        ("leader", "add_task", {name: leader[name] for name in leader if name[:11] != "collector_a"}, "missing"),
        ("collector", "add_task", collector, "was added before"),
        ("collector", "add_task", {**other, "helper": None}, "helper"),
        ("collector", "add_task", {**other, "min_batch_size": None}, "min_batch_size"),
        ("collector", "add_task", {**other, "task_configuration": "AAAA"}, "TaskConfiguration"),
        ("collector", "collection_start", {"task_id": short, "query": {"type": 1}}, "task_id has 31 bytes"),
        ("collector", "collection_start", {"task_id": b64url(bytes(32)), "query": {"type": 1}}, "no task with this id"),
        ("collector", "collection_start", {**collector, "query": {"type": 2}}, "batch mode is not the task's"),
        ("collector", "collection_start", {**collector, "query": {"type": 1}}, "batch_interval_start"),
        ("collector", "collection_start", {**collector, "agg_param": "AA", "query": {"type": 1}}, "agg_param"),
        ("collector", "collection_poll", {"handle": "unheard-of"}, "no collection with this id"),
        ("collector", "collection_poll", {}, "handle"),
        ("client", "upload", {**upload, "measurement": "2"}, "measurement"),
        ("client", "upload", {**upload, "measurement": ["1"]}, "measurement"),
        ("client", "upload", {**upload, "measurement": 1}, "measurement"),
        ("client", "upload", {**upload, "leader": "ftp://a"}, "http"),
        ("client", "upload", {**upload, "leader": servers.urls["client"]}, "/hpke_config with status 404"),
        ("client", "upload", {**upload, "helper": "http://example.com"}, "loopback"),
    ]
    told = [(await servers.told(role, name, body), words) for role, name, body, words in cases]
    assert [one for one in told if one[1] not in one[0].get("error", "")] == []
    assert all(set(one) == {"status", "error"} and one["status"] == "error" for one, _ in told)
    assert not any(servers.leader_token in one["error"] for one, _ in told)
    assert await servers.told("leader", "add_task", leader) == {"status": "success"}
    assert "was added before" in (await servers.told("leader", "add_task", leader))["error"]
    late = await servers.upload("1", task_id=b64url(bytes(32)))
    assert late["error"].startswith("the report was not accepted")


async def test_only_json_from_this_machine_commands_a_server(servers: Bench) -> None:
    body = {"task_id": b64url(bytes(32)), "role": "leader", "hostname": "a"}
    assert (await servers.post("leader", "endpoint_for_task", body, "text/plain")).status == 415
    for junk in (b"", b"[]", b"{", b"[" * 100_000, b"\xff"):
        answer = await servers.post("leader", "endpoint_for_task", junk)
        assert (answer.status, json.loads(answer.body)["status"]) == (400, "error")
    too_long = b'{"task_id": "' + b"A" * (1 << 20) + b'"}'
    assert (await servers.post("leader", "endpoint_for_task", too_long)).status == 413
    url = servers.urls["leader"].replace("127.0.0.1", "localhost")
    servers.urls["leader"] = url
    assert (await servers.told("leader", "endpoint_for_task", body))["status"] == "success"


async def test_what_a_leader_stands_for_changes_with_the_profile() -> None:
    for profile, by_put in (("dap-18", False), ("janus-main", True)):
        async with bench(profile) as servers:
            url = f"{servers.urls['leader']}/tasks/{b64url(bytes(32))}/collection_jobs"
            posted = await servers.http.request("POST", url)
            put = await servers.http.request("PUT", f"{url}/{b64url(bytes(16))}")
            assert (posted.status == 404 and b"unrecognizedTask" not in posted.body) is by_put
            assert (put.status == 405) is not by_put
            answer = await servers.http.request("GET", f"{servers.urls['helper']}/hpke_config")
            (config,) = HpkeConfigList.decode(answer.body).configs
            assert len(unb64url(b64url(config.encode()))) == 41


async def test_a_collection_job_has_the_id_that_the_collector_chose_and_one_request() -> None:
    async with bench("janus-main") as servers:
        await servers.describe(COUNT)
        await servers.add_task()
        jobs = f"{servers.urls['leader']}/tasks/{b64url(servers.task_id)}/collection_jobs/"
        headers = {"DAP-Auth-Token": servers.collector_token, "Content-Type": media_types.dap("collection-job-req")}

        async def put(number: int, start: int, duration: int = 10) -> tuple[int, str]:
            interval = start.to_bytes(8, "big") + duration.to_bytes(8, "big")
            body = b"\x01\x00\x10" + interval + bytes(6)
            url = jobs + b64url(bytes([number]) * 16)
            answer = await servers.http.request("PUT", url, headers=headers, body=body)
            return answer.status, json.loads(answer.body)["type"].rpartition(":")[2] if answer.body else ""

        assert await put(1, 100) == (201, "")
        assert await put(1, 100) == (201, "")
        assert await put(1, 200) == (400, "invalidMessage")
        assert await put(2, 105) == (400, "batchOverlap")
        assert await put(2, 110, 0) == (400, "batchInvalid")
        assert await put(2, (1 << 64) - 5) == (400, "batchInvalid")
        assert await put(2, 110) == (201, "")
        url = jobs + b64url(bytes([1]) * 16)
        polled = await servers.http.request("GET", url, headers=headers)
        assert (polled.status, polled.body, polled.headers["retry-after"]) == (200, b"", "1")
        assert (await servers.http.request("DELETE", url, headers=headers)).status == 200
        assert (await servers.http.request("GET", url, headers=headers)).status == 404
        assert await put(1, 100) == (400, "invalidMessage")
        assert (await servers.http.request("PUT", f"{jobs}short", headers=headers, body=b"x")).status == 400
