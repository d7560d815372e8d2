"""Connections on which things happen in an order that only load, a stop or a failure brings about."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tacit.service.http.connection import Connection
from tacit.service.http.listener import TlsListener
from tacit.service.http.reader import MOST_UNWANTED
from tests.kit.probe_server import PATIENCE, Served, read_answer, request, served, until

LATER = "POST /later HTTP/1.1"


async def test_who_sends_a_large_body_to_the_end_sees_an_answer_that_did_not_wait_for_it() -> None:
    async with served("application") as server:
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(bytes(3_000_000), LATER))
        await until(lambda: len(server.server.connections) == 1)
        (connection,) = server.server.connections
        await until(lambda: not connection._readable)
        assert connection._reader.body.size > MOST_UNWANTED
        server.open.set()
        assert (await read_answer(reader))[::3] == (413, True)
        await until(lambda: connection._reader.body.size + connection._discarded == 3_000_000)


async def test_an_answer_in_place_of_one_that_failed_before_its_first_byte_is_framed_as_its_head_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def failing(request: web.Request) -> web.StreamResponse:
        await web.StreamResponse().prepare(request)
        return web.Response(text="another")

    async with served("application") as server:
        monkeypatch.setattr(server.server.application._server, "request_handler", failing)
        reader, writer = await server.connect()
        writer.write(request() * 2)
        assert (await read_answer(reader))[2:] == (b"another", False)
        assert (await read_answer(reader))[2:] == (b"another", False)


async def test_the_answer_to_head_has_no_body_also_where_the_head_is_refused() -> None:
    async with served("fast") as server:
        reader, writer = await server.connect()
        head = b"HEAD / HTTP/1.1\r\nHost: a\r\n"
        writer.write(head + b"Expect: another\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 417 ")
        writer.write(head + b"\r\n")
        assert (await read_answer(reader, b"HEAD"))[0] == 405


async def test_what_a_handler_writes_to_head_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def streaming(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"some")
        await response.write_eof(b"more")
        return response

    async with served("application") as server:
        monkeypatch.setattr(server.server.application._server, "request_handler", streaming)
        reader, writer = await server.connect()
        for _ in range(2):
            writer.write(b"HEAD /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n")
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")


async def test_a_reader_of_a_stream_that_leaves_is_noticed_whatever_it_sent_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def streaming(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"event")
            await asyncio.sleep(0.01)

    async with served("application") as server:
        monkeypatch.setattr(server.server.application._server, "request_handler", streaming)
        reader, writer = await server.connect()
        writer.write(request() * 2)
        async with asyncio.timeout(PATIENCE):
            await reader.readuntil(b"event")
        writer.write_eof()
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0


@asynccontextmanager
async def _waiting(body: bytes) -> AsyncIterator[tuple[Served, asyncio.StreamReader, Connection]]:
    """A server whose only turn is taken, while the end of the body of a request to ``/later`` waits for one; its
    connection."""
    async with served("application", requests=1) as server:
        admission = server.server.admission
        reader, writer = await server.connect()
        raw = request(body, LATER)
        writer.write(raw[:-1])
        await until(lambda: len(server.server.connections) == 1)
        (connection,) = server.server.connections
        await until(lambda: connection._answering is not None)
        server.open.clear()
        _, other = await server.connect()
        other.write(request())
        await until(lambda: admission.turns == 1)
        writer.write(raw[-1:])
        await until(lambda: admission.waiting == 1)
        yield server, reader, connection


async def test_a_body_whose_end_waits_for_its_turn_is_read_when_the_server_stops() -> None:
    async with _waiting(b"abc") as (server, reader, _):
        server.server.close_idle()
        server.open.set()
        assert (await read_answer(reader))[::3] == (200, True)
        await until(lambda: len(server.server.admission) == 0)
        assert server.server.admission.turns == 0


async def test_a_request_that_was_answered_early_is_not_answered_again_when_it_has_waited_too_long() -> None:
    async with served("application", requests=1) as server:
        loop, admission = asyncio.get_running_loop(), server.server.admission
        server.open.clear()
        reader, writer = await server.connect()
        writer.write(request(b"", LATER, length="2000000"))
        await until(lambda: admission.receiving == 1)
        (connection,) = server.server.connections
        _, other = await server.connect()
        other.write(request())
        await until(lambda: admission.turns == 1)
        writer.write(b"more")
        await until(lambda: admission.waiting == 1)
        server.open.set()
        admission.sweep(loop.time() + admission.limits.wait_seconds + 1)
        assert (await read_answer(reader))[0] == 413
        await until(lambda: admission.turns == 0)
        assert connection._is_last
        assert connection._answering is None
        assert sorted(server.counted) == [("/", 200), ("/later", 413)]


async def test_a_handshake_that_has_not_begun_ends_when_its_listener_closes() -> None:
    async with served("fast") as server:
        admission, (ours, theirs) = server.server.admission, socket.socketpair()
        ours.setblocking(False)
        with theirs:
            listener = TlsListener(server.server, [], ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            listener._admit(ours, "192.0.2.1")
            assert len(admission) == 1
            listener.close()
            await until(lambda: len(admission) == 0)
            assert theirs.recv(1) == b""
