"""Uploads of model files over real connections, by clients that lie, stop or drip: refused before the body is read, or
without a trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from recipe_server.app import create_app
from recipe_server.models import MOST_BYTES
from tacit import media_types
from tacit.adapters.network.http import HttpTransport
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Limits
from tacit.service.http.admission import Admission
from tacit.service.http.listener import listening_sockets
from tacit.service.run import Runner
from tests.http.model_stage import BINARY, MODEL, OTHER_PATH, PATH, POLICY, ModelServer, model_server
from tests.http.test_attackers import until
from tests.http.test_recipe_server import URL

ENTROPY = SeededEntropy(b"hostile uploads")
LENGTH = len(MODEL.file)


@dataclass
class Listening:
    """A recipe server on a port, and clients that write what they want."""

    admission: Admission
    port: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def answered(self, sent: bytes) -> tuple[int, str]:
        """Status and type of the problem that is answered while the client waits to send more."""
        reader, _ = await self.connect(sent)
        return await problem_of(reader)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serves(self) -> bool:
        async with HttpTransport() as transport:
            return (await transport.request("GET", f"{self.url}{PATH}/0")).status == 200

    async def put(self, file: bytes, path: str = PATH) -> int:
        async with HttpTransport() as transport:
            return (await transport.request("PUT", self.url + path, headers=BINARY, body=file)).status


async def problem_of(reader: asyncio.StreamReader) -> tuple[int, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    problem = json.loads(await reader.readexactly(length))
    assert problem["status"] == int(head.split(" ")[1])
    return problem["status"], problem["type"].removeprefix("urn:tacit:")


@asynccontextmanager
async def on_a_port(server: ModelServer) -> AsyncIterator[Listening]:
    """The same server, stopped and started again on a port."""
    await server.network.unmount(URL)
    app = create_app(server.config(policy=POLICY), ServiceEnv(server.clock, ENTROPY, server.network, background=False))
    runner = Runner(app, grace_seconds=0.1, limits=Limits())
    await runner.setup()
    try:
        await runner.listen(await listening_sockets("127.0.0.1", 0, backlog=100, reuse_port=False))
        assert runner.server is not None
        listening = Listening(runner.server.admission, runner.addresses[0][1])
        yield listening
        for writer in listening.writers:
            writer.close()
    finally:
        await runner.cleanup()


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[Listening]:
    """A server whose log has round 0 of a training, again from the start and on a port."""
    async with model_server(tmp_path) as server, on_a_port(server) as found:
        yield found


def head(length: int | None = LENGTH, path: str = PATH, *more: str) -> bytes:
    sized = [] if length is None else [f"Content-Length: {length}"]
    lines = [f"PUT {path} HTTP/1.1", "Host: log", f"Content-Type: {media_types.OCTET_STREAM}", *sized, *more]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (head(path=OTHER_PATH), (404, "problem:model-unknown")),
        (head(LENGTH, OTHER_PATH, "Expect: 100-continue"), (404, "problem:model-unknown")),
        (head(LENGTH + 1), (422, "refusal:model-length")),
        (head(1 << 40), (422, "refusal:model-length")),
        (head(MOST_BYTES), (422, "refusal:model-length")),
        (head(None, PATH, "Transfer-Encoding: chunked"), (411, "about:blank")),
        (head(LENGTH, PATH, "Transfer-Encoding: chunked"), (400, "about:blank")),
        (head(LENGTH, PATH, "Content-Encoding: gzip"), (415, "about:blank")),
        (head(LENGTH, PATH, "Expect: 200-maybe"), (417, "about:blank")),
    ],
)
async def test_what_no_body_could_change_is_answered_before_it_is_sent(
    listening: Listening, sent: bytes, told: tuple[int, str]
) -> None:
    assert await listening.answered(sent) == told
    assert await listening.put(MODEL.file) == 201


async def test_a_body_that_stops_leaves_nothing_and_keeps_nobody_out(listening: Listening) -> None:
    _, stopping = await listening.connect(head() + MODEL.file[:-1])
    reader, dripping = await listening.connect(head() + MODEL.file[:1])
    await until(lambda: listening.admission.receiving == 2)
    stopping.close()
    await until(lambda: listening.admission.receiving == 1)
    assert not await listening.serves()
    assert await listening.put(MODEL.file) == 201
    dripping.write(MODEL.file[1:])
    assert b" 200 " in await reader.readline()


async def test_a_body_that_comes_too_slowly_is_answered_408(listening: Listening) -> None:
    reader, writer = await listening.connect(head())
    writer.write(MODEL.file[:1])
    await until(lambda: listening.admission.receiving == 1)
    listening.admission.sweep(asyncio.get_running_loop().time() + Limits().grace_seconds + 1)
    assert await problem_of(reader) == (408, "about:blank")
    assert not await listening.serves()


async def test_the_longest_file_is_taken_and_a_wrong_one_of_its_length_is_not(tmp_path: Path) -> None:
    file = ENTROPY(MOST_BYTES)
    async with model_server(tmp_path) as server:
        path = await server.name(file)
        async with on_a_port(server) as found:
            assert await found.put(bytes(MOST_BYTES), path) == 422
            assert sorted(await asyncio.gather(*(found.put(file, path) for _ in range(2)))) == [200, 201]
            assert await found.put(file, OTHER_PATH) == 404
            async with HttpTransport() as transport:
                pieces = [(await transport.request("GET", f"{found.url}{path}/{number}")).body for number in range(18)]
            assert b"".join(pieces) == file
