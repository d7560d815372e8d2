"""Two processes of one service behind one port, on one PostgreSQL database: one may die, the address answers on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.base.free_ports import free_ports
from infra.stacks.layout import Layout
from tacit.adapters.network.http import HttpTransport
from tacit.ports import HttpResponse, TransportError
from tacit.service.base.secret_files import write_secret
from tests.kit.processes import ReadyProcess

Serve = Callable[..., ReadyProcess]
REQUESTS = 8


def config_of(layout: Layout, name: str, database: str, port: int, folder: Path) -> Path:
    """The service's configuration with one database and one port for any number of processes."""
    original = layout.configs[name]
    document: dict[str, Any] = json.loads(original.read_text())
    write_secret(original.parent / "shared-database", database.encode())
    document |= {
        "database_file": "shared-database",
        "listen": {"host": "127.0.0.1", "port": port, "reuse_port": True},
    }
    path = original.with_name(f"{name}-{folder.name}.json")
    path.write_text(json.dumps(document))
    return path


async def asked(url: str) -> list[HttpResponse]:
    """Answers to requests on connections of their own."""
    answers = []
    for _ in range(REQUESTS):
        async with HttpTransport() as http:
            answers.append(await http.request("GET", url))
    return answers


@pytest.mark.parametrize("name", ["helper", pytest.param("leader", marks=pytest.mark.slow)])
async def test_processes_share_a_database_and_an_address_and_one_may_be_killed(
    layout: Layout, serve: Serve, make_postgres_url: Callable[[], str], tmp_path: Path, name: str
) -> None:
    (port,) = free_ports(1)
    config = config_of(layout, name, make_postgres_url(), port, tmp_path)
    first, second = serve(name, config), serve(name, config)
    ready = [await asyncio.to_thread(process.ready) for process in (first, second)]
    assert ready[0]["url"] == ready[1]["url"]
    assert ready[0]["pid"] != ready[1]["pid"]
    keys = ready[0]["url"] + "/hpke_config"
    assert {answer.status for answer in await asked(keys)} == {200}
    os.kill(ready[0]["pid"], signal.SIGKILL)
    await asyncio.to_thread(first.wait)
    assert {answer.status for answer in await asked(keys)} == {200}
    os.kill(ready[1]["pid"], signal.SIGTERM)
    assert await asyncio.to_thread(second.wait) == 0
    with pytest.raises(TransportError):
        await asked(keys)
