"""Servers that change places behind one address, as Patroni lets them, and PgBouncer before a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.backing import postgres as backing
from infra.backing.child import Child
from infra.backing.postgres import SUPERUSER, PostgresServer
from infra.base.free_ports import free_ports
from infra.base.postgres_programs import find_binaries
from tests.kit.postgres import FAST

BOUNCER = "/usr/sbin/pgbouncer"


class Address:
    """An address that leads to a port of this machine, now to one, now to another; connections that are open stay where
    they are, as behind an address that moves."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._links = set[asyncio.Task[None]]()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Address:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            onward, out = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                await asyncio.gather(_copy(reader, out), _copy(onward, writer))
            finally:
                out.transport.abort()
        writer.transport.abort()
        self._links.discard(task)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        sink.write(data)
        await sink.drain()
    sink.transport.abort()


class Node(PostgresServer):
    """A server of a pair; ``follow`` makes it the standby of the other one, ``promote`` the primary."""

    def _is_ready(self) -> bool:
        lines = self._postmaster()
        return len(lines) >= 8 and lines[7].strip() in {"ready", "standby"} and self._is_child(lines[0])

    def follow(self, primary: Node) -> None:
        """Start as the standby of ``primary``, whose data this node holds."""
        data = self.folder / "data"
        (data / "standby.signal").touch()
        backing._give_to_system_user(data / "standby.signal")
        where = f"host=127.0.0.1 port={primary.port} user={SUPERUSER} password={self.password}"
        self.extra = {**self.extra, "primary_conninfo": where}
        self.start()

    def promote(self) -> None:
        """Become the primary."""
        run("pg_ctl", "promote", "-w", "-D", str(self.folder / "data"))


def run(program: str, *arguments: str, password: str = "") -> None:
    """Run a program of PostgreSQL as the servers' user."""
    command = [str((find_binaries() or Path()) / program), *arguments]
    environment = {**os.environ, "PGPASSWORD": password}
    subprocess.run(command, check=True, capture_output=True, cwd="/", env=environment, **backing._as_system_user())


@contextlib.contextmanager
def pair() -> Iterator[tuple[Node, Node]]:
    """A primary and its standby, both running."""
    folder = _passable()
    ports = free_ports(2)
    created = PostgresServer.create(folder / "first", ports[0], "secret")
    primary = Node(created.folder, created.port, created.password, dict(FAST))
    standby = Node(folder / "second", ports[1], primary.password, dict(FAST))
    try:
        primary.start()
        standby.folder.mkdir(mode=0o700)
        backing._give_to_system_user(standby.folder)
        place = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", SUPERUSER, "-D", str(standby.folder / "data")]
        run("pg_basebackup", *place, "-c", "fast", password=primary.password)
        standby.follow(primary)
        yield primary, standby
    finally:
        for node in (primary, standby):
            node.crash()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def bouncer(server: PostgresServer) -> Iterator[int]:
    """The port of a PgBouncer before ``server`` that pools by session, and is otherwise as it comes."""
    folder = _passable()
    (port,) = free_ports(1)
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={server.port} user={SUPERUSER} password={server.password}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\npool_mode = session\n"
        "unix_socket_dir =\nmax_client_conn = 50\n"
    )
    backing._give_to_system_user(config)
    user: dict[str, Any] = backing._as_system_user()
    child = Child([BOUNCER, str(config)], folder / "pgbouncer.log", **user)
    try:
        assert child.until(lambda: f":{port}" in (folder / "pgbouncer.log").read_text(), 20)
        yield port
    finally:
        child.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _passable() -> Path:
    """A new folder through which the servers' user can pass."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-switchover-"))
    folder.chmod(0o711)
    return folder


def is_installed() -> bool:
    """Whether PgBouncer is here."""
    return shutil.which(BOUNCER) is not None
