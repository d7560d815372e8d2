"""PostgreSQL for a local stack: one database and one role per service, and so per trust domain.

Each service reads the URL of its database from a secret file in its own folder and cannot connect to another's. The
server is the stack's own or one that the operator names; the choice is made once per stack.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from infra.backing.postgres import PostgresServer, Say, let_server_through
from infra.base.certificate_files import CA_FILE
from infra.base.free_ports import free_ports
from infra.base.remembered_servers import amend_config, has_server, own_port, remember
from infra.stacks.certificates import authority_of
from infra.stacks.layout import Layout
from tacit.adapters.databases.postgres import administer
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.ports import Entropy
from tacit.service.base.secret_files import read_database_url, write_secret

FOLDER = "postgres"
URL_FILE = "database.url"
WITHOUT_DATABASE = frozenset({"relay"})


@contextlib.contextmanager
def databases(
    layout: Layout, *, wanted: bool, url_file: Path | None, entropy: Entropy, say: Say = lambda _words: None
) -> Iterator[None]:
    """Provide the databases of ``layout`` while the block runs, and stop the stack's own server afterwards. ``say`` is
    told how far a long start is, as after a crash.

    A new stack gets databases if ``wanted``; an existing one keeps what it began with. Raises ``UsageError``.
    """
    folder = layout.state_dir / FOLDER
    server: PostgresServer | None = None
    try:
        if has_server(folder):
            port = own_port(folder)
            if url_file is not None:
                raise UsageError(f"{layout.state_dir}: this stack has its databases; leave --postgres-url-file out")
            if port is not None:
                server = PostgresServer.load(folder / "server", port)
                _certify(layout, server)
                server.start(say)
        elif wanted:
            _require_new(layout)
            if url_file is None:
                server = _create_server(layout, entropy)
                _certify(layout, server)
                server.start(say)
                url = make_url(server.url)
                beside = {"sslrootcert": CA_FILE} if layout.options.tls else {}
                _provision(layout, url, url.update_query_dict(beside), entropy)
            else:
                url = make_url(read_database_url(url_file))
                _provision(layout, url, url, entropy)
            remember(folder, None if server is None else server.port)
        yield
    finally:
        if server is not None:
            server.stop()


def _require_new(layout: Layout) -> None:
    """Refuse a stack that already keeps data in SQLite."""
    if any(any(config.parent.glob("*.sqlite3")) for config in layout.configs.values()):
        raise UsageError(f"{layout.state_dir}: this stack keeps its data in SQLite; choose another --state-dir")


def _create_server(layout: Layout, entropy: Entropy) -> PostgresServer:
    folder = layout.state_dir / FOLDER
    if folder.exists():  # left by a start that failed before the marker was written; no service has used it
        shutil.rmtree(folder)
    let_server_through(layout.state_dir)
    try:
        folder.mkdir(mode=0o700)
        let_server_through(folder)
        return PostgresServer.create(folder / "server", free_ports(1)[0], entropy(16).hex())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _certify(layout: Layout, server: PostgresServer) -> None:
    """In a stack with TLS, give the server a certificate, so that it speaks TLS only."""
    if layout.options.tls:
        now = SystemClock().now()
        server.certify(authority_of(layout.state_dir, now), ["postgres.local"], now)


def _provision(layout: Layout, url: URL, for_services: URL, entropy: Entropy) -> None:
    """Make a role and a database for each service, acting as the role of ``url``, and enter them in the services'
    configurations. ``for_services`` is ``url`` with the path of the authority's file relative to a service's folder."""
    stack = entropy(4).hex()
    urls: dict[str, URL] = {}
    statements: list[str] = []
    for name in layout.services:
        if name not in WITHOUT_DATABASE:
            own, password = f"tacit_{stack}_{name}", entropy(32).hex()
            urls[name] = for_services.set(username=own, password=password, database=own)
            statements += [
                f"CREATE ROLE {own} LOGIN PASSWORD '{password}'",
                f"GRANT {own} TO CURRENT_USER",
                f"CREATE DATABASE {own} OWNER {own}",
                f"REVOKE ALL ON DATABASE {own} FROM PUBLIC",
            ]
    asyncio.run(administer(url, statements))
    for name, own_url in urls.items():
        config = layout.configs[name]
        write_secret(config.parent / URL_FILE, own_url.render_as_string(hide_password=False).encode())
        amend_config(config, database_file=URL_FILE)
