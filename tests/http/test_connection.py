"""Connections whose requests the application answers: heads, bodies, answers, turns, however the bytes come."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import socket
import struct

import pytest
from aiohttp import web

from tacit.adapters.network.http import HttpTransport
from tacit.service.http.admission import LINGER_SECONDS
from tacit.service.http.connection import Connection
from tacit.service.http.reader import MOST_HEAD, MOST_UNWANTED
from tests.kit.probe_server import PATIENCE, TYPE, Served, chunked, head_of, read_answer, request, served, until


@pytest.mark.parametrize("ended", [True, False], ids=["a whole head", "a head without an end"])
@pytest.mark.parametrize("size", [1000, 7000, 60_000], ids=["in small pieces", "in pieces", "at once"])
async def test_a_head_above_the_bound_is_refused_whatever_it_asks_for(size: int, ended: bool) -> None:
    raw = head_of(*(f"X-{number}: {'y' * 8000}" for number in range(5)), line=b"GET /elsewhere HTTP/1.1\r\n")
    raw = raw if ended else raw[:-2]
    async with served("fast") as server:
        reader, writer = await server.connect()
        for at in range(0, len(raw), size):
            writer.write(raw[at : at + size])
            await asyncio.sleep(0.001)
        status, headers, _, closed = await read_answer(reader, b"GET")
        assert (status, headers["content-type"], closed) == (400, "application/problem+json", True)


async def test_heads_up_to_the_bound_are_read_one_after_the_other() -> None:
    raw = head_of(*(f"X-{number}: {'y' * 8000}" for number in range(4)), line=b"GET /elsewhere HTTP/1.1\r\n")
    async with served("fast") as server:
        reader, writer = await server.connect()
        for _ in range(3):
            writer.write(raw[:20_000])
            await asyncio.sleep(0.001)
            writer.write(raw[20_000:-1])
            await asyncio.sleep(0.001)
            writer.write(raw[-1:])
            assert (await read_answer(reader, b"GET"))[0] == 404


LATE = f"POST /elsewhere HTTP/1.1\r\nHost: a\r\nContent-Type: {TYPE}\r\nContent-Length: 60000\r\n"


@pytest.mark.parametrize("expecting", ["", "Expect: 100-continue\r\n"], ids=["", "expecting"])
async def test_an_answer_before_the_body_is_the_last_and_the_body_that_follows_is_no_request(expecting: str) -> None:
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(f"{LATE}{expecting}\r\n".encode())
        status, _, _, closed = await read_answer(reader)
        assert (status, closed) == (404, True)
        for _ in range(6):
            writer.write(b"\r\n\r\n" + bytes(9996))
            await asyncio.sleep(0.001)
        writer.write(head_of(line=b"GET /elsewhere HTTP/1.1\r\n"))
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(server.server.admission) == 0)


async def test_who_asks_on_a_connection_whose_answer_came_early_uses_another() -> None:
    async with served("application") as server, HttpTransport(insecure_http=True) as transport:
        url = "http://{}:{}/elsewhere".format(*server.runner.addresses[0][:2])
        for size in (200_000, 1_000_000, 1, 4_000_000, 0):
            for _ in range(3):
                answer = await transport.request("POST", url, headers={"Content-Type": TYPE}, body=bytes(size))
                assert answer.status == 404


async def test_requests_sent_ahead_for_the_application_are_answered_in_turn() -> None:
    get = head_of(line=b"GET /elsewhere HTTP/1.1\r\n")
    post = request(b"\r\n\r\n" * 50, "POST /elsewhere HTTP/1.1")
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(get + b"\r\n" + get + post + get[:-1])
        assert await _answers(reader, 3) == [b"404"] * 3
        writer.write(get[-1:])
        assert await _answers(reader, 1) == [b"404"]


async def _answers(reader: asyncio.StreamReader, count: int) -> list[bytes]:
    """The statuses of the next answers, at least ``count``, which may come in one piece."""
    found = b""
    async with asyncio.timeout(PATIENCE):
        while found.count(b"HTTP/1.1 ") < count or not found.endswith(b"}"):
            more = await reader.read(65_536)
            assert more, "the connection ended"
            found += more
    return re.findall(rb"HTTP/1\.1 (\d+)", found)


@pytest.mark.parametrize(
    "broken",
    [b"zz\r\n", b"0\r\n" + b"X: y\r\n" * 200, b"0\r\nX: " + b"y" * 40_000],
    ids=["no size", "many trailers", "a long trailer"],
)
async def test_a_broken_body_is_refused_and_keeps_no_turn(broken: bytes) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        writer.write(chunked(b"abc")[:-5])
        await asyncio.sleep(0.01)
        writer.write(broken)
        status, _, _, closed = await read_answer(reader)
        assert (status, closed) == (400, True)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0


@pytest.mark.parametrize(
    "raw",
    [
        head_of("Content-Length: 1", line=b"GET /elsewhere HTTP/1.1\r\n"),
        head_of("Transfer-Encoding: chunked", line=b"OPTIONS /elsewhere HTTP/1.1\r\n"),
        head_of("Content-Length: 18446744073709551615"),
        head_of("Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
        head_of("Transfer-Encoding: ", "Content-Length: 3") + b"abc",
        head_of("Transfer-Encoding: chunked", "Connection: keep-alive", line=b"POST / HTTP/1.0\r\n") + b"0\r\n\r\n",
        head_of(line=b"GET /elsewhere HTTP/2.0\r\n"),
        head_of(line=b"GET http://u@a/elsewhere HTTP/1.1\r\n"),
        head_of(line=b"CONNECT xn--a:443 HTTP/1.1\r\n"),
    ],
    ids=[
        "GET with a body",
        "OPTIONS with chunks",
        "a length of 64 bits",
        "two codings",
        "an empty coding",
        "chunks of HTTP/1.0",
        "another version",
        "a target with a user",
        "a tunnel to it",
    ],
)
@pytest.mark.parametrize("later", [False, True], ids=["first", "second"])
async def test_a_request_whose_end_others_see_elsewhere_is_refused(raw: bytes, later: bool) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        if later:
            writer.write(head_of(line=b"GET /elsewhere HTTP/1.1\r\n"))
            assert (await read_answer(reader, b"GET"))[0] == 404
        writer.write(raw)
        writer.write(head_of(line=b"GET /elsewhere HTTP/1.1\r\n"))
        assert (await read_answer(reader))[0] == 400
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        assert server.bodies == []
        writer.close()
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0


async def test_a_request_over_which_aiohttp_fails_ends_its_connection_and_keeps_no_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        await until(lambda: len(server.server.connections) == 1)
        monkeypatch.setattr(server.server.application._server, "request_factory", lambda *_parts: 1 // 0)
        writer.write(head_of(line=b"GET /elsewhere HTTP/1.1\r\n"))
        assert (await read_answer(reader, b"GET"))[::3] == (500, True)
        writer.close()
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0


async def test_a_handler_that_is_cancelled_when_nobody_waits_any_more_keeps_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = asyncio.Event()

    async def end(_request: object) -> None:
        await opened.wait()
        raise asyncio.CancelledError

    async with served("application") as server:
        _, writer = await server.connect()
        connection = await _only(server)
        monkeypatch.setattr(server.server.application._server, "request_handler", end)
        writer.write(head_of(line=b"GET /elsewhere HTTP/1.1\r\n"))
        await until(lambda: server.server.admission.turns == 1)
        reset = struct.pack("ii", 1, 0)  # an end of one side alone might still wait for the answer
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()
        await until(lambda: connection.transport is None)
        assert server.server.admission.turns == 1, "nobody gets more turns by hanging up"
        opened.set()
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0


@pytest.mark.parametrize(
    ("by", "head"),
    [
        ("application", head_of("Expect: 100-continue", line=b"GET /elsewhere HTTP/1.1\r\n")),
        ("fast", head_of("Content-Length: 5, 6")),
    ],
    ids=["the interim answer", "a refusal"],
)
async def test_who_hangs_up_before_an_answer_writes_no_line_of_the_log(
    capsys: pytest.CaptureFixture[str], by: str, head: bytes
) -> None:
    async with served(by) as server:
        for _ in range(5):
            _, writer = await server.connect()
            writer.write(head)
            writer.close()
            await asyncio.sleep(0.01)
        await until(lambda: len(server.server.admission) == 0)
    assert capsys.readouterr() == ("", "")


GET = head_of(line=b"GET /elsewhere HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("raw", "statuses"),
    [
        (GET + chunked(b"abc") + GET, [b"404", b"200"]),
        (GET + head_of("Content-Length: 1", line=b"GET /elsewhere HTTP/1.1\r\n"), [b"404", b"400"]),
    ],
    ids=["chunks and more", "a refused one"],
)
@pytest.mark.parametrize("pause", [0, 1, 2, 3], ids=["at once", "a tick later", "two ticks", "three ticks"])
async def test_a_request_that_ends_its_connection_is_answered_also_right_behind_another(
    raw: bytes, statuses: list[bytes], pause: int
) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        writer.write(raw[: len(GET)])
        for _ in range(pause):
            await asyncio.sleep(0)
        writer.write(raw[len(GET) :])
        async with asyncio.timeout(PATIENCE):
            found = await reader.read()
        assert re.findall(rb"HTTP/1\.[01] (\d+)", found) == statuses


@pytest.mark.parametrize(
    "raw",
    [
        chunked(b"abc")[:-2] + b"X: y\r\n\r\n",
        head_of("Connection: upgrade", "Upgrade: websocket", line=b"GET /elsewhere HTTP/1.1\r\n"),
        request(b"abc", "PUT /elsewhere HTTP/1.1", "Connection: upgrade", "Upgrade: h2c"),
    ],
    ids=["a trailer", "an upgrade", "an upgrade with a body"],
)
async def test_what_the_server_ignores_leaves_the_connection_usable(raw: bytes) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        for _ in range(3):
            writer.write(raw)
            assert not (await read_answer(reader))[3]


async def test_a_large_body_waits_until_the_application_asks_for_it() -> None:
    async with served("application") as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(bytes(900_000), "POST /later HTTP/1.1")[:-1])
        connection = await _only(server)
        await until(lambda: not connection._readable)
        assert MOST_UNWANTED < connection._reader.body.size < 900_000
        server.open.set()
        await until(lambda: connection._reader.body.size > 600_000)
        writer.write(b"\0")
        assert (await read_answer(reader))[::2] == (200, b"900000")


async def test_a_body_in_the_smallest_chunks_is_read_and_endless_framing_is_refused() -> None:
    head = head_of("Transfer-Encoding: chunked", line=b"POST /later HTTP/1.1\r\n")
    async with served("application") as server:
        answer = await server.exchange(head + b"1\r\nx\r\n" * 160_000 + b"0\r\n\r\n")
        assert answer[::2] == (200, b"160000")
        reader, writer = await server.connect()
        writer.write(head + b"1\r\nx\r\n1;" + b"y" * 60_000 + b"\r\nx\r\n")
        assert (await read_answer(reader))[::3] == (400, True)
        await until(lambda: server.counted == [("/later", 200), ("/later", 400)])


async def test_who_hangs_up_after_an_early_answer_leaves_nothing_that_waits() -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        writer.write(LATE.encode() + b"\r\n")
        assert (await read_answer(reader))[0] == 404
        (connection,) = server.server.connections
        await until(lambda: connection._answering is None)
        writer.transport.abort()
        await until(lambda: len(server.server.admission) == 0)
        assert not server.server.connections


async def test_what_waits_behind_an_answer_that_is_not_read_counts() -> None:
    async with served("application") as server:
        connection = await _unread(server)
        connection.data_received(request(bytes(90_000)) * 5 + request(b"abc") * 50)
        await until(lambda: connection._writable is not None)
        assert connection.transport is not None
        unread = connection.transport.get_write_buffer_size()
        assert connection._held
        assert server.server.admission._held == unread + len(connection._held)


async def _only(server: Served) -> Connection:
    await until(lambda: len(server.server.connections) == 1)
    (connection,) = server.server.connections
    return connection


async def _unread(server: Served) -> Connection:
    """A connection whose client reads nothing, with small buffers."""
    _, writer = await server.connect()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    connection = await _only(server)
    for transport, buffer in ((writer.transport, socket.SO_RCVBUF), (connection.transport, socket.SO_SNDBUF)):
        assert transport is not None
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, buffer, 4096)
    return connection


async def test_an_early_answer_that_nobody_reads_counts_until_it_is_cut() -> None:
    async with served("application") as server:
        admission, connection = server.server.admission, await _unread(server)
        wire = await _filled(connection)
        connection.data_received(head_of("Transfer-Encoding: chunked", line=b"POST /elsewhere HTTP/1.1\r\n"))
        await until(lambda: server.counted == [("none", 404)])
        connection.data_received(b"no size of a chunk\r\n")
        await asyncio.sleep(0.05)
        assert wire.get_write_buffer_size() > 0
        assert (len(admission), admission.turns) == (1, 0)
        size = wire.get_write_buffer_size()
        limits = admission.limits
        admission.sweep(asyncio.get_running_loop().time() + limits.grace_seconds + size / limits.least_rate + 1)
        await until(lambda: len(admission) == 0)


async def test_a_request_with_which_its_sender_hangs_up_is_answered_in_a_turn() -> None:
    async with served("application") as server:
        server.open.clear()
        admission = server.server.admission
        await server.connect()
        connection = await _only(server)
        connection.data_received(request(b"abc", "POST /later HTTP/1.1"))
        connection.cut()  # as where a read finds data and the end
        await until(lambda: connection.transport is None and connection._answering is not None)
        await asyncio.sleep(0.05)
        assert (len(admission), admission.turns) == (1, 1)
        server.open.set()
        await until(lambda: len(admission) == 0)
        assert admission.turns == 0


async def test_an_answer_that_cannot_be_sent_is_an_error_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server.server.application._server, "request_handler", _answer_with_a_broken_field)
            writer.write(GET)
            assert (await read_answer(reader, b"GET"))[::3] == (500, True)
    assert "answer_failed" in capsys.readouterr().err


async def test_an_answer_that_fails_midway_ends_with_its_connection(capsys: pytest.CaptureFixture[str]) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        writer.write(request(line="POST /begun HTTP/1.1"))
        async with asyncio.timeout(PATIENCE):
            assert (await reader.read()).endswith(b"\r\n\r\n4\r\nsome\r\n")
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0
        assert server.counted == [("/begun", 500)]
    assert capsys.readouterr().err.count("internal_error") == 1


async def test_an_answer_that_fails_midway_keeps_no_turn_where_nobody_reads_it() -> None:
    async with served("application") as server:
        admission, connection = server.server.admission, await _unread(server)
        wire = await _filled(connection)
        connection.data_received(request(line="POST /begun HTTP/1.1"))
        await until(lambda: admission.turns == 1 or bool(server.counted))
        await until(lambda: admission.turns == 0)
        assert wire.get_write_buffer_size() > 0
        assert len(admission) == 1
        admission.sweep(asyncio.get_running_loop().time() + LINGER_SECONDS + 1)
        await until(lambda: len(admission) == 0)


async def _filled(connection: Connection) -> asyncio.WriteTransport:
    """The transport of ``connection``, whose client reads nothing, with bytes that wait."""
    wire = connection.transport
    assert wire is not None
    while not wire.get_write_buffer_size():
        wire.write(bytes(10_000))
        await asyncio.sleep(0.05)
    return wire


async def _answer_with_a_broken_field(_request: object) -> web.Response:
    return web.Response(headers={"Broken": "a\nb"})


async def test_what_comes_behind_the_last_request_is_dropped_and_takes_no_turn() -> None:
    async with served("application") as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(b"one", "POST / HTTP/1.1", "Connection: close"))
        await until(lambda: bool(server.bodies))
        (connection,) = server.server.connections
        writer.write(request(b"two"))
        await until(lambda: bool(connection._held))
        server.open.set()
        assert (await read_answer(reader))[2] == b"one"
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        await until(lambda: len(server.server.admission) == 0)
        assert (server.server.admission.turns, server.bodies) == (0, [b"one"])


async def test_a_body_that_its_handler_has_not_read_yet_has_a_turn() -> None:
    async with served("application") as server:
        server.open.clear()
        reader, writer = await server.connect()
        connection = await _only(server)
        connection.data_received(request(bytes(700_000), "POST /later HTTP/1.1"))  # sockets may deliver a part
        await until(lambda: server.server.admission.turns == 1)
        server.open.set()
        assert (await read_answer(reader))[::2] == (200, b"700000")
        writer.write(request(b"abc", "POST /later HTTP/1.1"))
        assert (await read_answer(reader))[::2] == (200, b"3")
        assert server.server.admission.turns == 0


async def test_a_body_is_not_inflated() -> None:
    body = gzip.compress(bytes(100_000))
    async with served("application") as server:
        answer = await server.exchange(request(body, "POST /later HTTP/1.1", "Content-Encoding: gzip"))
        assert answer[::2] == (200, str(len(body)).encode())


@pytest.mark.parametrize("trailer", [b"", b"Authorization: Bearer let-me-in\r\n"], ids=["none", "a field"])
async def test_trailers_are_no_fields_of_the_next_request(trailer: bytes) -> None:
    async with served("application") as server:
        reader, writer = await server.connect()
        writer.write(chunked(b"abc")[:-2] + trailer + b"\r\n")
        assert (await read_answer(reader))[0] == 200
        with contextlib.suppress(ConnectionError):
            writer.write(request(b"abc", "POST /known/well HTTP/1.1"))
            async with asyncio.timeout(PATIENCE):
                assert (await reader.readline())[:12] == b"HTTP/1.1 401"


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("last", [0, 1, 2, 3, 4, 5])
async def test_the_bound_of_a_head_does_not_depend_on_its_pieces(last: int, over: int) -> None:
    most = [f"X-{number}: {'y' * 8000}" for number in range(4)]
    line = b"GET /elsewhere HTTP/1.1\r\n"
    room = MOST_HEAD + over - len(head_of(*most, "Y: ", line=line)) + 4
    raw = head_of(*most, "Y: " + "y" * room, line=line)
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(raw[: len(raw) - last])
        await asyncio.sleep(0.01)
        writer.write(raw[len(raw) - last :])
        assert (await read_answer(reader, b"GET"))[0] == (400 if over else 404)


@pytest.mark.parametrize("coded", [False, True], ids=["a length", "chunks"])
async def test_a_head_above_the_bound_behind_a_body_is_refused_or_dropped(coded: bool) -> None:
    parts = [b"x" * 10_000] * 3
    body = chunked(*parts) if coded else request(b"".join(parts))
    head = head_of(*(f"X-{number}: {'y' * 8000}" for number in range(12)), line=b"GET /elsewhere HTTP/1.1\r\n")
    async with served("application") as server:
        reader, writer = await server.connect()
        writer.write(body + head[:-2])
        status, _, _, closed = await read_answer(reader)
        assert (status, closed) == (200, coded), "where chunks end only the parser knows"
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                assert (await reader.read()).partition(b"\r\n")[0] in {b"", b"HTTP/1.1 400 Bad Request"}
        writer.close()
        await until(lambda: len(server.server.admission) == 0)


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_a_blank_line_may_come_in_parts_and_with_the_body(cut: int) -> None:
    async with served("fast") as server:
        reader, writer = await server.connect()
        raw = f"{LATE}\r\n".encode()
        writer.write(raw[:-cut])
        await asyncio.sleep(0.01)
        writer.write(raw[-cut:] + bytes(60_000))
        assert (await read_answer(reader))[0] == 404


@pytest.mark.parametrize("ended", [True, False], ids=["whole", "endless"])
async def test_trailers_are_bounded(ended: bool) -> None:
    async with served("fast") as server:
        reader, writer = await server.connect()
        writer.write(head_of(line=b"GET /elsewhere HTTP/1.1\r\n"))
        assert (await read_answer(reader, b"GET"))[0] == 404
        trailers = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 8000) for number in range(20))
        writer.write(head_of("Transfer-Encoding: chunked") + b"0\r\n" + trailers + (b"\r\n" if ended else b""))
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while await reader.read(65_536):
                    pass
        writer.close()
        await until(lambda: len(server.server.admission) == 0)
