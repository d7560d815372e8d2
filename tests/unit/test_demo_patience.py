"""A demo asks a busy party again as devices do, and ends in one line where it stays busy."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.cli import run
from infra.lab.demo.attacks.common import offered
from infra.lab.demo.fleet import Device, Fleet
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.patience import ADVICE, BACKOFF, TRIES, Patience, PatientTransport, in_a_line
from tacit.adapters.network.http import HttpTransport
from tacit.errors import Fatal, Refusal, UsageError
from tacit.ports import HttpResponse, TransportError

Answer = HttpResponse | Exception
BUSY: list[Answer] = [
    HttpResponse(503, {}, b""),
    HttpResponse(504, {}, b""),
    TransportError("timed out"),
    TransportError("reset"),
]
FINE = HttpResponse(200, {}, b"fine")


class Script:
    """A transport that answers by a script, the last word again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, bytes]] = []

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.asked.append((method, url, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def patience() -> tuple[Patience, list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return Patience(SeededEntropy(b"patience"), sleep), slept


async def test_a_busy_party_is_asked_again_with_the_same_bytes_after_growing_random_pauses() -> None:
    waits, slept = patience()
    script = Script(*BUSY, FINE)
    answer = await PatientTransport(script, waits).request("POST", "http://x/", body=b"the same")
    assert answer is FINE
    assert script.asked == [("POST", "http://x/", b"the same")] * 5
    assert all(0.5 * 0.5 * 2**at <= pause < 1.5 * 0.5 * 2**at for at, pause in enumerate(slept))
    assert len({round(pause / 2**at, 6) for at, pause in enumerate(slept)}) == len(slept)


@pytest.mark.parametrize("stays", BUSY)
async def test_tries_and_pauses_are_bounded(stays: Answer) -> None:
    waits, slept = patience()
    transport = PatientTransport(Script(stays), waits)
    if isinstance(stays, HttpResponse):
        assert (await transport.request("GET", "http://x/")).status == stays.status
    else:
        with pytest.raises(TransportError, match=str(stays)):
            await transport.request("GET", "http://x/")
    assert len(slept) == TRIES - 1
    assert max(slept) < BACKOFF.most


@pytest.mark.parametrize("answer", [HttpResponse(400, {}, b""), HttpResponse(404, {}, b""), Refusal("rule", "no")])
async def test_what_no_later_try_can_change_is_not_tried_again(answer: Answer) -> None:
    waits, slept = patience()
    transport = PatientTransport(Script(answer), waits)
    if isinstance(answer, HttpResponse):
        assert await transport.request("GET", "http://x/") is answer
    else:
        with pytest.raises(Refusal):
            await transport.request("GET", "http://x/")
    assert slept == []


async def _resetting(times: int) -> tuple[asyncio.Server, str]:
    """A server that resets so many connections in the middle of a request, and then answers."""
    left = [times]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if left[0]:
            left[0] -= 1
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        else:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfine")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_connections_that_are_reset_are_made_again() -> None:
    waits, slept = patience()
    server, url = await _resetting(3)
    async with server, HttpTransport() as direct:
        answer = await PatientTransport(direct, waits).request("POST", url, body=b"bytes")
    assert answer.body == b"fine"
    assert len(slept) == 3


LATE = Refusal("log-checkpoint", "the checkpoint has 1 recent cosignatures of witnesses (2 of any age), but needs 2")


@pytest.mark.parametrize("second", [TransportError("the relay answered 503"), LATE])
async def test_a_device_whose_gateway_is_busy_or_whose_witnesses_are_late_reads_the_log_later(
    second: Exception,
) -> None:
    waits, slept = patience()
    failures = [TransportError("the gateway answered 504"), second]

    async def sync() -> str:
        if failures:
            raise failures.pop(0)
        return ""

    agent: Any = SimpleNamespace(sync=sync)
    ticks: list[int] = []
    await Fleet([Device(agent, Any)], SimClock()).sync(lambda: ticks.append(1), waits)  # type: ignore[arg-type]
    assert (len(ticks), len(slept)) == (1, 2)


async def test_a_log_that_shows_another_history_is_not_asked_again() -> None:
    waits, slept = patience()

    async def sync() -> str:
        raise Refusal("log-fork", "two histories")

    with pytest.raises(Refusal, match="log-fork"):
        await waits(sync)
    assert slept == []


async def test_a_report_of_an_attack_is_offered_again_and_its_refusal_is_not() -> None:
    waits, slept = patience()
    bodies: list[bytes] = []
    statuses = [503, 504, 403]

    async def request(_method: str, _url: str, *, media_type: str, content: bytes) -> Any:
        bodies.append(content)
        return SimpleNamespace(status=statuses[len(bodies) - 1])

    client: Any = SimpleNamespace(request=request)
    assert await waits(lambda: offered(client, "http://x/", "t/p", b"report")) == 403
    assert (bodies, len(slept)) == ([b"report"] * 3, 2)


def grouped(error: Exception) -> Exception:
    return ExceptionGroup("tasks", [ExceptionGroup("tasks", [error]), TransportError("another")])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (grouped(TransportError("the gateway answered 504")), f"at 'uploads': the gateway answered 504; {ADVICE}"),
        (TimeoutError(), f"TimeoutError; {ADVICE}"),
        (ConnectionResetError(104, "Connection reset by peer"), ADVICE),
        (grouped(Refusal("demo-staged", "a batch of B-1 was released")), "demo-staged: a batch of B-1 was released"),
        (grouped(UsageError("the file is empty")), "the file is empty"),
        (grouped(KeyError("leader")), "KeyError: 'leader'; run it again"),
    ],
)
def test_whatever_ends_a_run_is_one_error_that_says_what_to_do(error: Exception, said: str) -> None:
    assert said in str(in_a_line(error, "uploads"))
    assert isinstance(in_a_line(error, ""), Fatal | Refusal | UsageError)


@pytest.mark.parametrize(
    "error",
    [grouped(TransportError("the gateway answered 504")), grouped(ValueError("two\nlines")), Refusal("r", "no")],
)
def test_a_run_that_fails_is_one_line_and_status_1(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_of(*_arguments: Any) -> Any:
        async def failing() -> None:
            raise error

        return SimpleNamespace(run=failing)

    monkeypatch.setattr("infra.lab.demo.run.DemoRun", run_of)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert run(["demo", "--devices", "200", "--out", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("tacit: ")
    assert "Traceback" not in line
