"""An error that was answered holds nothing: where it was raised there are whole requests, which must not wait for the
next search for garbage."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import Abort, drop_frames
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv, make_app
from tacit.service.base.group_commit import GroupCommitter
from tacit.service.batcher import Batcher, FrameBounds
from tacit.service.fast_routes import add_fast_route
from tacit.service.http.fast_route import Asking, FastRoute, Respond
from tacit.service.http.listener import listening_sockets
from tacit.service.http.problems import Answer
from tacit.service.run import Runner

TYPE = "application/x-test"


class Held:
    """What a frame holds, such as a request."""


class Nowhere:
    async def request(self, method: str, url: str, **_rest: object) -> HttpResponse:
        raise TransportError(f"{method} {url}")


class Failing:
    """Raises errors from frames that hold something, by way of what gathers requests; ``held`` says what is left."""

    def __init__(self, deps: ServiceEnv) -> None:
        self.held: list[weakref.ref[Held]] = []
        self._batcher: Batcher[object, object] = Batcher(FrameBounds(8, 1000, 0.0), deps, self._refuse)
        self._committer: GroupCommitter[object, object] = GroupCommitter(self._refuse, 8, 0, deps.clock)

    async def _refuse(self, items: Sequence[object]) -> list[object]:
        self.held += map(weakref.ref, items)  # type: ignore[arg-type]
        raise Abort("urn:x:y", status=409)

    async def alone(self) -> Answer:
        await self._refuse([Held()])
        return Answer()

    async def wrapped(self) -> Answer:
        try:
            return await self.alone()
        except Abort as error:
            raise Abort("urn:x:z", status=410) from error

    async def in_a_frame(self) -> Answer:
        await self._batcher.submit(Held(), 1)
        return Answer()

    async def in_a_group(self) -> Answer:
        await self._committer.submit(Held())
        return Answer()

    async def in_a_circle(self) -> Answer:
        verdicts: list[Exception] = []
        try:
            await self.alone()
        except Abort as error:
            verdicts.append(error)
        raise verdicts[0]


@pytest.fixture(autouse=True)
def _no_search() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("way", ["alone", "wrapped", "in_a_frame", "in_a_group", "in_a_circle"])
@pytest.mark.parametrize("route", ["hot", "aiohttp"])
async def test_what_the_raising_frames_held_is_free_once_the_error_is_answered(route: str, way: str) -> None:
    deps = ServiceEnv(SimClock(), SeededEntropy(1), Nowhere())
    app = make_app("probe", deps)
    failing = Failing(deps)
    respond: Callable[[], Coroutine[Any, Any, Answer]] = getattr(failing, way)

    def admit(_head: Asking) -> Respond:
        return lambda _body: respond()

    async def get(_request: web.Request) -> web.Response:
        await respond()
        return web.Response()

    add_fast_route(app, FastRoute("/hot", TYPE, 100, admit))
    app.router.add_post("/aiohttp", get)
    runner = Runner(app)
    await runner.setup()
    try:
        await runner.listen(await listening_sockets("127.0.0.1", 0, backlog=100, reuse_port=False))
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        for _ in range(3):
            writer.write(
                f"POST /{route} HTTP/1.1\r\nHost: a\r\nContent-Type: {TYPE}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            async with asyncio.timeout(60):
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"}")
            assert b" 409 " in head or b" 410 " in head
        writer.close()
        await asyncio.sleep(0)
    finally:
        await runner.cleanup()
    assert [one() for one in failing.held] == [None] * 3


def test_frames_are_dropped_of_every_error_that_led_to_another() -> None:
    first, last = _raised(KeyError()), _raised(ValueError())
    last.__cause__ = first
    drop_frames(last)
    assert (first.__traceback__, last.__traceback__) == (None, None)
    part = _raised(KeyError())
    drop_frames(_raised(ExceptionGroup("", [ValueError(), ExceptionGroup("", [part])])))
    assert part.__traceback__ is None


def _raised(error: Exception) -> Exception:
    with contextlib.suppress(type(error)):
        raise error
    return error
