"""A name whose first address is silent is reached at its second, by every client and on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiohappyeyeballs
import pytest
import uvloop

from tacit.adapters.network import happy_eyeballs
from tacit.adapters.network.happy_eyeballs import ATTEMPT_DELAY, RacingLoop, connect, open_socket
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.http_stream import Streams
from tacit.ports import TransportError
from tests.kit.addresses import ANSWERING, silent_first

NewLoop = Callable[[], asyncio.AbstractEventLoop]
on_both_loops = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_line: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer((ANSWERING, 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


def run(new_loop: NewLoop, work: Any) -> Any:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


@on_both_loops
def test_http_reaches_the_address_that_answers(new_loop: NewLoop, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(name: str) -> bytes:
        async with HttpTransport(insecure_http=True, timeout=8.0, connect_timeout=5.0) as transport:
            return (await transport.request("GET", f"http://{name}:{port}/")).body

    with silent_first(port, monkeypatch) as name:
        assert run(new_loop, asked(name)) == b"hello"


@on_both_loops
def test_streams_reach_the_address_that_answers(new_loop: NewLoop, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(name: str) -> bytes:
        async with Streams(insecure_http=True).get(f"http://{name}:{port}/", {}) as stream:
            return (await stream.whole()).body

    with silent_first(port, monkeypatch) as name:
        assert run(new_loop, asked(name)) == b"hello"


@on_both_loops
def test_a_client_library_that_takes_no_socket_races_too(
    new_loop: NewLoop, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(name: str) -> tuple[str, bool]:
        loop = RacingLoop(asyncio.get_running_loop())
        transport, _ = await loop.create_connection(asyncio.Protocol, name, port)
        peer = transport.get_extra_info("peername")[0]
        transport.close()
        return peer, asyncio.current_task(loop) is asyncio.current_task()  # type: ignore[arg-type]

    with silent_first(port, monkeypatch) as name:
        assert run(new_loop, asked(name)) == (ANSWERING, True)


class Waiting(asyncio.Protocol):
    """Ends a future with an exception when its connection ends, as asyncpg's does."""

    def __init__(self, loop: RacingLoop) -> None:
        self.told = loop.create_future()

    def connection_lost(self, _error: Exception | None) -> None:
        self.told.set_exception(ConnectionError("lost"))


@on_both_loops
def test_who_gives_up_connecting_leaves_no_exception_that_nobody_retrieves(new_loop: NewLoop, port: int) -> None:
    complaints = list[str]()

    async def given_up() -> None:
        running = asyncio.get_running_loop()
        running.set_exception_handler(lambda _loop, context: complaints.append(str(context)))
        loop = RacingLoop(running)
        for turns in range(12):  # wherever it is by then
            task = asyncio.ensure_future(loop.create_connection(lambda: Waiting(loop), ANSWERING, port))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                (await task)[0].close()
            await asyncio.sleep(0.01)
            del task
            gc.collect()

    run(new_loop, given_up())
    assert complaints == []


async def test_the_second_address_is_tried_after_a_quarter_of_a_second(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[float | None]()

    async def counted(found: Any, *, happy_eyeballs_delay: float | None) -> socket.socket:
        asked.append(happy_eyeballs_delay)
        return await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=happy_eyeballs_delay)

    monkeypatch.setattr(happy_eyeballs, "start_connection", counted)
    with await open_socket(ANSWERING, port) as opened:
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert asked == [ATTEMPT_DELAY] == [0.25]


@on_both_loops
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_where_every_address_refuses_the_error_says_so(new_loop: NewLoop, host: str) -> None:
    async def asked() -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            await open_socket(host, bound.getsockname()[1])

    with pytest.raises(OSError):
        run(new_loop, asked())


@on_both_loops
@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 70 + ".example", "a..b"])
def test_a_name_that_does_not_exist_is_an_error_of_the_network(new_loop: NewLoop, host: str) -> None:
    async def asked() -> None:
        async with HttpTransport(insecure_http=True, connect_timeout=30.0) as transport:
            await transport.request("GET", f"http://{host}:1/")

    with pytest.raises(TransportError):
        run(new_loop, asked())


@on_both_loops
def test_a_socket_is_closed_where_the_connection_fails_or_is_given_up(new_loop: NewLoop, port: int) -> None:
    """A socket that were left would warn when it is collected, which fails a test."""

    def broken() -> asyncio.Protocol:
        raise ValueError("no protocol")

    async def asked(name: str) -> None:
        with pytest.raises(ValueError, match="no protocol"):
            await connect(broken, ANSWERING, port)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await open_socket(name, silent_only)

    with pytest.MonkeyPatch.context() as patch, socket.socket() as free:
        free.bind((ANSWERING, 0))
        silent_only = free.getsockname()[1]
        free.listen(0)
        with socket.socket() as first, socket.socket() as second, silent_first(silent_only, patch) as name:
            for waiting in (first, second):
                waiting.setblocking(False)
                waiting.connect_ex((ANSWERING, silent_only))
            run(new_loop, asked(name))
            gc.collect()
