"""Who cannot listen is told which process does."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import uvloop
from aiohttp import web

from tacit.errors import UsageError
from tacit.service.app import SERVICE_NAME
from tacit.service.base.config import Listen
from tacit.service.run import holder_of, started
from tests.kit.processes import running

LISTENS = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"


def test_the_process_that_listens_is_named_with_its_command() -> None:
    command = [sys.executable, "-c", LISTENS, "this is it"]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline())
        found = holder_of(port)
        process.stdin.close()
    assert found.startswith(f"pid {process.pid} ({sys.executable} -c import socket")
    assert len(found) < 200


def test_of_a_process_that_cannot_be_seen_the_port_and_the_command_that_tells_are_named(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(f"head\n 0: 0100007F:{8443:04X} 00000000:0000 0A 0:0 00:0 0 0 0 4711 1\n")
    assert holder_of(8443, tmp_path) == "a process that cannot be seen from here (as root: ss -ltnp 'sport = :8443')"


def test_a_service_that_finds_its_address_taken_names_the_holder() -> None:
    async def listen(port: int) -> None:
        app = web.Application()
        app[SERVICE_NAME] = "relay"
        async with started(app, Listen(host="127.0.0.1", port=port)):
            pytest.fail("two cannot listen there")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"cannot bind 127.0.0.1:{port}: in use by pid {os.getpid()} \("):
            asyncio.run(listen(port))


def test_of_two_that_bound_one_address_before_either_listened_the_second_says_that_it_is_taken() -> None:
    really_listen = socket.socket.listen

    async def serve_at(port: int) -> None:
        app = web.Application()
        app[SERVICE_NAME] = "relay"
        async with started(app, Listen(host="127.0.0.1", port=port)):
            pytest.fail("two cannot listen there")

    with socket.socket() as rival:
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rival.bind(("127.0.0.1", 0))
        port = rival.getsockname()[1]

        def listen_after_the_rival(bound: socket.socket, backlog: int) -> None:
            assert bound.getsockname()[1] == port
            really_listen(rival)
            really_listen(bound, backlog)

        with (
            mock.patch.object(socket.socket, "listen", listen_after_the_rival),
            pytest.raises(UsageError, match=rf"cannot bind 127.0.0.1:{port}: in use by"),
        ):
            uvloop.run(serve_at(port))
