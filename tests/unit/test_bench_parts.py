"""The benchmark's own parts: contributions made in bulk, the load generator, targets, and figures of processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from infra.lab.bench.accounting import start_up
from infra.lab.bench.ingest import spent
from infra.lab.bench.loading import load
from infra.lab.bench.loading.attackers import KINDS, Attack, attack_with
from infra.lab.bench.loading.contributions import enclose, make_reports, private_key
from infra.lab.bench.loading.load import send_all
from infra.lab.bench.loading.processes import cpu_by_party, cpu_of_tree, memory_of_tree
from infra.lab.bench.rows import Row, Timing
from infra.lab.bench.scaling import limited
from infra.lab.bench.targets import TARGETS, target_of
from infra.lab.kit.aggregators import party_of
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import make_task_kit
from tacit import bhttp, ohttp
from tacit.errors import Fatal, UsageError
from tacit.messages import Role, UploadRequest
from tacit.messages.slices import slice_uploads
from tacit.roles.leader import check_upload
from tests.kit.oracles import helper, leader

KIT = make_task_kit()
SPINS = "print(flush=True)\nwhile True: pass"
NOBODY = 2**22 + 1
"""No process has this id: it is above the largest that Linux gives."""


def test_reports_made_in_bulk_are_accepted_by_both_aggregators() -> None:
    made = make_reports(KIT.task, private_key(KIT.issuer_key.to_der()), [0, 3, 3], KIT.task.interval.start)
    now = float(KIT.task.start_seconds)
    for report in made:
        (upload,) = slice_uploads(UploadRequest((report,)).encode())
        check_upload(KIT.task, upload, now)
        prepared = leader.prepare_report(party_of(KIT, Role.LEADER), report, now)
        assert isinstance(prepared, leader.Prepared)
        verified = helper.prepare_report(party_of(KIT, Role.HELPER), prepared.verify_init, now)
        assert isinstance(verified, helper.Verified)
    assert len({report.report_metadata.report_id for report in made}) == 3


def test_an_enclosed_upload_reaches_the_leaders_resource() -> None:
    (report,) = make_reports(KIT.task, private_key(KIT.issuer_key.to_der()), [1], KIT.task.interval.start)
    config, pair = ohttp.generate_key_config(1, SeededEntropy(1))
    upload = UploadRequest((report,)).encode()
    opened, _ = ohttp.Decapsulator([(config, pair)]).decapsulate_request(enclose(KIT.task, upload, config, 1e9))
    request = bhttp.decode_request(opened)
    assert (request.method, request.path) == ("POST", f"/tasks/{KIT.task.task_id_text}/reports")
    assert request.content == upload


def test_a_key_of_another_kind_is_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    der = Ed25519PrivateKey.generate().private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(UsageError, match="not an RSA key"):
        private_key(der)


class Relay:
    """Answers what a test wants it to, and remembers what it was sent."""

    def __init__(self, *statuses: int) -> None:
        self.bodies: list[bytes] = []
        self._statuses = list(statuses)

    async def answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        status = self._statuses.pop(0) if self._statuses else 200
        headers = {"Retry-After": "0"} if status == 503 else {}
        response = web.Response(status=status, headers=headers, body=b"sealed")
        if len(self.bodies) == 2:
            response.force_close()
        return response

    async def receive(self, messages: list[bytes], rate: float = 0.0) -> load.Load:
        """Everything sent over two connections."""
        app = web.Application()
        app.router.add_post("/", self.answer)
        async with TestServer(app) as server:
            return await send_all(str(server.make_url("/")), messages, rate, connections=2)


@pytest.mark.parametrize("rate", [0.0, 10_000.0])
async def test_every_message_is_sent_once_and_timed(rate: float) -> None:
    relay, messages = Relay(), [b"%d" % number * 1000 for number in range(9)]
    found = await relay.receive(messages, rate)
    assert sorted(relay.bodies) == sorted(messages)
    assert len(found.latencies) == 9
    assert found.retries == 0
    assert 0 < found.percentile(50) <= found.percentile(99)
    assert found.rate > 0


async def test_what_an_overloaded_relay_turned_away_is_sent_again() -> None:
    relay = Relay(503, 503)
    found = await relay.receive([b"a", b"b", b"c"])
    assert (found.retries, len(found.latencies)) == (2, 3)
    assert sorted(set(relay.bodies)) == [b"a", b"b", b"c"]


async def test_any_other_answer_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Fatal, match="answered 404"):
        await Relay(404).receive([b"a"])
    monkeypatch.setattr(load, "TRIES", 2)
    with pytest.raises(Fatal, match="overloaded 2 times"):
        await Relay(503, 503).receive([b"a"])


def test_a_target_concerns_rows_of_its_stage_vdaf_role_path_and_rate_alone() -> None:
    row = Row("whole server side", "histogram", {}, "all servers", "multibuffer, postgres", 1.0, offered_rate=0.0)
    assert target_of(row, "ifma") == 220
    assert target_of(replace(row, path="openssl, sqlite")) == 350
    assert target_of(replace(row, offered_rate=1000.0), "ifma") == 300
    assert target_of(replace(row, role="leader")) is None
    assert target_of(replace(row, offered_rate=200.0)) is None
    kernel = Row("verify_init", "histogram", {"length": 256, "chunk_length": 16}, "helper", "avx2", 1.0)
    assert target_of(kernel) == 9
    assert target_of(replace(kernel, parameters={"length": 1024, "chunk_length": 32})) is None
    assert target_of(replace(kernel, path="baseline")) is None
    assert len(TARGETS) == len({(*vars(target).values(),) for target in TARGETS})


@pytest.mark.parametrize(
    ("stage", "role", "ifma"),
    [("token verify", "both", 4.0), ("HPKE open", "leader", 5.5), ("aggregation job", "leader + helper", 45.0)],
)
def test_what_is_wanted_of_ifma_is_not_asked_of_avx2(stage: str, role: str, ifma: float) -> None:
    row = Row(stage, "histogram", {}, role, "multibuffer, sqlite", 1.0)
    assert target_of(row, "ifma") == ifma
    assert target_of(row, "avx2") is None
    kernel = Row("verify_init", "histogram", {"length": 256, "chunk_length": 16}, "helper", "avx2", 1.0)
    assert target_of(kernel, "ifma") == target_of(kernel, "avx2") == 9, "kernels have a path of their own"


def test_a_timing_is_the_median_and_its_spread() -> None:
    assert Timing.of([2e-6]) == Timing(2.0, 0.0, 1)
    timing = Timing.of([1e-6, 3e-6, 2e-6])
    assert timing.repetitions == 3
    assert timing.micro == pytest.approx(2.0)
    assert timing.spread == pytest.approx(1.0)


def test_processor_time_and_memory_are_told_by_process_ids() -> None:
    before = cpu_of_tree(os.getpid())
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    assert cpu_of_tree(os.getpid()) >= before + 0.02
    assert memory_of_tree(os.getpid()) > 1 << 20
    assert cpu_of_tree(NOBODY) == memory_of_tree(NOBODY) == 0
    assert cpu_by_party([("nobody", NOBODY), ("nobody", NOBODY)])["nobody"] == 0
    assert spent({"leader": 1.0}, {"leader": 3.0, "helper": 1.0, "relay": 0.0}, 2) == {"leader": 1.0, "helper": 0.5}


def test_a_url_without_a_port_is_refused() -> None:
    with pytest.raises(ValueError, match="host and port"):
        asyncio.run(send_all("relay.example", [b"a"]))


def test_an_interpreter_that_fails_is_no_figure() -> None:
    assert start_up("sum(range(200_000))", 2).micro >= 0
    with pytest.raises(Fatal, match="ended with status 3"):
        start_up("raise SystemExit(3)", 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "http://192.0.2.1:80/"},
        {"url": "http://127.0.0.1/"},
        {"kind": "another"},
        {"connections": 3000},
        {"seconds": 600},
        {"rate": 1e6},
        {"sources": 0},
    ],
)
def test_an_attack_stays_on_this_machine_and_within_its_bounds(changed: dict[str, Any]) -> None:
    attack: dict[str, Any] = {"kind": "flood", "url": "http://127.0.0.1:9/", "media_type": "a/b", "connections": 8}
    assert Attack(**attack, seconds=1).encode()
    with pytest.raises(UsageError):
        Attack(**{**attack, "seconds": 1, **changed})


@pytest.mark.parametrize("kind", KINDS)
async def test_attackers_reach_their_target_and_end_with_their_time(kind: str) -> None:
    began: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            began.append(await reader.readexactly(4))
            while await reader.read(65_536):
                if kind == "flood":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await attack_with(Attack(kind, f"http://127.0.0.1:{port}/", "a/b", 5, 0.3, sources=2, body=100))
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0)
    assert began == [b"POST"] * 5


def test_a_share_of_a_processor_is_kept_or_refused_in_one_line() -> None:
    for share in (0.0, 0.01, 1.5):
        with pytest.raises(UsageError, match=r"between 0\.05 and 1"), limited([os.getpid()], share):
            pass
    with subprocess.Popen([sys.executable, "-c", SPINS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            with contextlib.suppress(UsageError), limited([child.pid], 0.1):
                used, begun = cpu_of_tree(child.pid), time.monotonic()
                time.sleep(0.6)
                spent_share = (cpu_of_tree(child.pid) - used) / (time.monotonic() - begun)
                assert spent_share < 0.2, "a process that spins has what it was given, and not a core"
            assert child.poll() is None, "it runs on without its limit"
        finally:
            child.kill()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/tacit-bench-{os.getpid()}-*"))
