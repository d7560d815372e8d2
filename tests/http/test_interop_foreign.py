"""Others against our servers in the profile janus-main: a client that shares no code with them, and a leader that
frames every message by hand."""

from __future__ import annotations

import asyncio
import base64
import http.client
import secrets
import struct
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKeyPair

from tacit.vdaf import ping_pong
from tacit.vdaf.prio3 import Prio3Count
from tests.http.interop_stage import COUNT, Bench, bench
from tests.vectors.test_device_page import Shares
from tests.vectors.test_own_vectors import opaque, sha256

pytestmark = pytest.mark.false_alarm(0, "sums are exact, orders and pauses are nobody's", runs=3)
SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
NUMBERS = {"leader": 2, "helper": 3}
PRECISION = 60
CONTEXT = b"dap-18"


def ask(method: str, url: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """One exchange by the standard library; the path goes out as it is written."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=30)
    try:
        connection.request(method, parts.path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class Foreigner:
    """A task as somebody else holds it, from the members that the test runner told everybody."""

    task_id: bytes
    leader: str
    helper: str
    batch: int
    configs: dict[str, bytes] = field(default_factory=dict)

    @property
    def configuration(self) -> bytes:
        """The task_info of Janus's test servers, both URLs byte for byte, no extension."""
        urls = opaque(self.leader.encode(), 2) + opaque(self.helper.encode(), 2)
        numbers = struct.pack(">QQBHIHH", PRECISION, self.batch, 1, 0, 1, 0, 0)
        return opaque(b"task-info", 1) + urls + numbers

    def learn_keys(self) -> None:
        """GET /hpke_config of both aggregators: a list of one configuration."""
        for role, url in (("leader", self.leader), ("helper", self.helper)):
            status, body = ask("GET", url + "hpke_config")
            assert (status, body[:2]) == (200, struct.pack(">H", len(body) - 2))
            assert body[3:9] == bytes.fromhex("002000010001")
            self.configs[role] = body[2:]

    def share(self, bit: int) -> tuple[bytes, bytes, dict[str, bytes]]:
        """Report id, metadata with empty public share, and the aggregators' shares of a measurement."""
        report_id = secrets.token_bytes(16)
        vdaf = Shares({"name": "Prio3Count", "chunk_length": 1}, CONTEXT + self.task_id)
        public, leader, helper = vdaf.shard(bit, report_id, secrets.token_bytes(64))
        metadata = report_id + struct.pack(">QH", int(time.time()) // PRECISION, 0)
        return report_id, metadata + opaque(public, 4), {"leader": leader, "helper": helper}

    def sealed(self, role: str, share: bytes, head: bytes) -> bytes:
        """An encoded HpkeCiphertext of an input share."""
        config = self.configs[role]
        public = SUITE.kem.deserialize_public_key(config[9:])
        info = CONTEXT + b" input share" + bytes([1, NUMBERS[role]])
        enc, sender = SUITE.create_sender_context(public, info)
        plaintext = opaque(b"", 2) + opaque(share, 4)
        payload = sender.seal(plaintext, self.task_id + self.configuration + head)
        return config[:1] + opaque(enc, 2) + opaque(payload, 4)


async def foreigner_of(servers: Bench, batch: int) -> Foreigner:
    await servers.describe(COUNT, batch=batch, precision=PRECISION)
    found = Foreigner(servers.task_id, servers.members["leader"], servers.members["helper"], batch)
    assert found.leader.endswith("/")
    await asyncio.to_thread(found.learn_keys)
    return found


async def test_a_client_that_shares_no_code_is_counted() -> None:
    async with bench("janus-main") as servers:
        client = await foreigner_of(servers, 4)
        await servers.add_task()
        bits = [1, 0, 1, 1]
        body = b""
        for bit in bits:
            _, head, shares = client.share(bit)
            body += head + b"".join(client.sealed(role, shares[role], head) for role in NUMBERS)
        url = f"{client.leader}tasks/{base64url(client.task_id)}/reports"
        headers = {"Content-Type": "application/ppm-dap;message=upload-req"}
        assert await asyncio.to_thread(ask, "POST", url, body, headers) == (200, b"")
        assert await asyncio.to_thread(ask, "POST", url, body, headers) == (200, b"")
        client.configs["leader"] = bytes([client.configs["leader"][0] ^ 1]) + client.configs["leader"][1:]
        report_id, head, shares = client.share(1)
        stale = head + b"".join(client.sealed(role, shares[role], head) for role in NUMBERS)
        assert await asyncio.to_thread(ask, "POST", url, stale, headers) == (200, report_id + b"\x04")
        started = await servers.start()
        found = await servers.result(started["handle"])
        assert (found["report_count"], found["result"]) == (len(bits), str(sum(bits)))


def framed(job: list[bytes]) -> bytes:
    """An AggregationJobInitReq: key 0, no parameter, a time interval's selector, and a length before the reports."""
    return b"\x00" + opaque(b"", 4) + b"\x01\x00\x00" + opaque(b"".join(job), 4)


def answers(body: bytes) -> list[tuple[bytes, int, bytes]]:
    """Report id, kind and payload of every VerifyResp of an AggregationJobResp."""
    assert int.from_bytes(body[:4], "big") == len(body) - 4
    at, found = 4, []
    while at < len(body):
        report_id, kind = body[at : at + 16], body[at + 16]
        size = int.from_bytes(body[at + 17 : at + 21], "big") + 4 if kind == 0 else kind // 2
        found.append((report_id, kind, body[at + 17 : at + 17 + size]))
        at += 17 + size
    return found


async def test_a_leader_that_frames_by_hand_is_helped() -> None:
    async with bench("janus-main") as servers:
        leader = await foreigner_of(servers, 2)
        pair = SUITE.kem.derive_key_pair(secrets.token_bytes(32))
        config = b"\x09" + bytes.fromhex("002000010001") + opaque(pair.public_key.to_public_bytes(), 2)
        told = await servers.told("helper", "add_task", servers.of_aggregator("helper", base64url(config)))
        assert told == {"status": "success"}
        vdaf, context = Prio3Count(2), CONTEXT + leader.task_id
        job, own, ids = [], [], []
        for bit in (1, 0, 1):
            report_id, head, shares = leader.share(bit)
            begun = ping_pong.leader_initialized(
                vdaf, servers.verify_key, context, None, report_id, b"", shares["leader"]
            )
            job.append(head + leader.sealed("helper", shares["helper"], head) + opaque(begun.outbound, 4))
            own.append(begun.state.out_share)
            ids.append(report_id)
        job[2] = job[2][:-1] + bytes([job[2][-1] ^ 1])
        url = f"{leader.helper}tasks/{base64url(leader.task_id)}/aggregation_jobs/{base64url(bytes(16))}"
        headers = {
            "DAP-Auth-Token": servers.leader_token,
            "Content-Type": "application/ppm-dap;message=aggregation-job-init-req",
        }
        status, body = await asyncio.to_thread(ask, "PUT", url, framed(job), headers)
        finish, refused = b"\x00\x00\x00\x05\x02\x00\x00\x00\x00", b"\x06"
        assert status == 201
        assert answers(body) == [(ids[0], 0, finish), (ids[1], 0, finish), (ids[2], 2, refused)]
        assert await asyncio.to_thread(ask, "PUT", url, framed(job), headers) == (201, body)
        other = await asyncio.to_thread(ask, "PUT", url, framed(job[:1]), headers)
        assert (other[0], b"invalidMessage" in other[1]) == (400, True)
        unframed = framed(job)[:8] + b"".join(job)
        assert (await asyncio.to_thread(ask, "PUT", url + "A", unframed, headers))[0] == 400
        assert await share_of(servers, leader, ids[:2], pair, own[:2]) == 1


async def share_of(servers: Bench, leader: Foreigner, ids: list[bytes], pair: KEMKeyPair, own: list[list[int]]) -> int:
    """The sum of a batch, from the Helper's aggregate share and the Leader's own."""
    start = int(time.time()) // PRECISION - 60
    interval = struct.pack(">QQ", start, 120)
    request = b"\x01" + opaque(interval, 2) + opaque(b"", 4) + opaque(b"", 2)
    checksum = bytes(one ^ other for one, other in zip(*(sha256(report_id) for report_id in ids), strict=True))
    body = request + b"\x01" + opaque(interval, 2) + struct.pack(">Q", len(ids)) + checksum
    url = f"{leader.helper}tasks/{base64url(leader.task_id)}/aggregate_shares/{base64url(bytes(16))}"
    headers = {
        "DAP-Auth-Token": servers.leader_token,
        "Content-Type": "application/ppm-dap;message=aggregate-share-req",
    }
    status, answer = await asyncio.to_thread(ask, "PUT", url, body, headers)
    assert (status, answer[:3]) == (200, b"\x09\x00\x20")
    info = CONTEXT + b" aggregate share" + bytes([3, 0])
    context = SUITE.create_recipient_context(answer[3:35], pair.private_key, info)
    share = context.open(answer[39:], leader.task_id + leader.configuration + request)
    modulus = 2**64 - 2**32 + 1
    return (int.from_bytes(share, "little") + sum(one for (one,) in own)) % modulus
