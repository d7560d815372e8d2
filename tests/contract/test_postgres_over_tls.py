"""PostgreSQL over TLS, on a real server with a private authority: who answers there is made sure of, or it is refused
in one line; on every connection, those of migrations and advisory locks included."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from infra.backing.postgres import SUPERUSER, PostgresServer
from infra.base.certificates import CertificateAuthority
from infra.base.free_ports import free_ports
from services.leader import schema
from tacit.adapters.databases import postgres_tls
from tacit.adapters.databases.postgres import administer
from tacit.adapters.databases.postgres_tls import protection_of
from tacit.adapters.databases.sql import open_database
from tacit.errors import UsageError
from tacit.service.base.secret_files import read_database_url, write_secret
from tests.certificates import LIFETIME, Authority

MIGRATIONS = (schema.METADATA, schema.MIGRATIONS)


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("ca", time.time(), LIFETIME)


@pytest.fixture(scope="module")
def server(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory, authority: CertificateAuthority
) -> Iterator[PostgresServer]:
    """A server that speaks TLS alone; its certificate names 127.0.0.1 and database.example."""
    made = PostgresServer.create(postgres.folder.parent / "tls", free_ports(1)[0], "secret")
    made.extra["fsync"] = "off"
    made.certify(authority, ["database.example"], time.time())
    made.start()
    yield made
    made.crash()


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """File of an authority that has signed nothing here."""
    return Authority(tmp_path, "other").certificate


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 127.0.0.1 were another machine."""
    monkeypatch.setattr(postgres_tls, "is_loopback", lambda _host: False)


@pytest.fixture
async def databases(server: PostgresServer) -> str:
    """URL of an empty database, without a query."""
    name = f"t{time.time_ns()}"
    await administer(make_url(server.url), [f"CREATE DATABASE {name}"])
    return server.url_of(SUPERUSER, "secret", name).partition("?")[0]


async def refusal(url: str, *, shared: bool = False) -> str:
    """The one line in which a database is refused."""
    with pytest.raises(UsageError) as caught:
        await open_database(url, *MIGRATIONS, shared=shared)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    return str(caught.value)


async def encrypted(url: str) -> set[bool]:
    """Of every session of this database, whether it is encrypted, as the server says."""
    query = "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.datname = current_database()"
    found: set[bool] = set()
    for shared in (False, True):
        database = await open_database(url, *MIGRATIONS, shared=shared)
        try:
            for _ in range(2):
                async with database.transaction() as one, database.read() as two:
                    for connection in (one, two):
                        found |= set((await connection.execute(sa.text(query))).scalars())
        finally:
            await database.close()
    return found


@pytest.mark.usefixtures("away")
async def test_another_machine_is_verified_in_full_without_being_asked_to(
    server: PostgresServer, databases: str, authority: CertificateAuthority, tmp_path: Path
) -> None:
    trusted = tmp_path / "folder with spaces" / "ca.pem"
    write_secret(trusted, authority.pem)
    write_secret(tmp_path / "folder with spaces" / "database.url", f"{databases}?sslrootcert=ca.pem".encode())
    assert await encrypted(read_database_url(trusted.parent / "database.url")) == {True}


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("shared", [False, True])
async def test_a_server_of_an_unknown_authority_is_refused(databases: str, other: Path, shared: bool) -> None:
    assert "its certificate is not trusted" in await refusal(databases, shared=shared)
    assert "its certificate is not trusted" in await refusal(f"{databases}?sslrootcert={other}", shared=shared)


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("shared", [False, True])
async def test_a_server_of_another_name_is_refused(server: PostgresServer, databases: str, shared: bool) -> None:
    """``localhost`` is where it is, and not what its certificate says."""
    url = databases.replace("127.0.0.1", "localhost") + f"?sslrootcert={server.folder / 'ca.pem'}"
    assert "its certificate is for another host" in await refusal(url, shared=shared)


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("shared", [False, True])
async def test_a_server_without_tls_gets_neither_password_nor_statement(postgres: PostgresServer, shared: bool) -> None:
    url = postgres.url_of(SUPERUSER, postgres.password, "postgres")
    assert "it does not speak TLS" in await refusal(url, shared=shared)
    with pytest.raises(UsageError, match="it does not speak TLS"):
        await administer(make_url(url), ["SELECT 1"])


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-ca"])
async def test_a_weaker_mode_off_loopback_needs_the_word_insecure(
    server: PostgresServer, databases: str, authority: CertificateAuthority, mode: str
) -> None:
    url = f"{databases}?sslmode={mode}&sslrootcert={server.folder / 'ca.pem'}"
    assert f"sslmode={mode} does not make sure who answers there" in await refusal(url)
    insecure = f"{url}&insecure_tls=true"
    if mode == "disable":
        assert "refuses" in await refusal(insecure), "the server takes no plain connection"
    else:
        assert await encrypted(insecure) == {True}


@pytest.mark.parametrize("host", ["database.example", "localhost.example", "192.0.2.1", "[2001:db8::1]", "2130706433"])
async def test_whoever_is_not_plainly_on_this_machine_is_on_another_one(host: str) -> None:
    """Nothing is resolved and nobody is called: what is refused is the URL."""
    url = f"postgresql+asyncpg://u:secret@{host}:5432/d"
    for mode in ("disable", "prefer", "verify-ca"):
        assert "use verify-full (sslrootcert=FILE names an authority" in await refusal(f"{url}?sslmode={mode}")
    for said in ("", "?sslmode=verify-full"):
        context = protection_of(make_url(url + said))[1].arguments()["ssl"]
        assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


@pytest.mark.usefixtures("away")
async def test_the_environment_does_not_weaken_a_connection(
    monkeypatch: pytest.MonkeyPatch, databases: str, postgres: PostgresServer
) -> None:
    monkeypatch.setenv("PGSSLMODE", "disable")
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(postgres.port))
    assert "its certificate is not trusted" in await refusal(databases)
    nowhere = f"postgresql+asyncpg://{SUPERUSER}:{quote(postgres.password)}@/postgres"
    assert "must name one host" in await refusal(nowhere)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("?ssl=require", "ssl is not a known option"),
        ("?sslmode=full", "sslmode must be one of"),
        ("?host=database.example", "must name one host"),
        ("?host=/run/postgresql", "must name one host"),
        ("?sslmode=verify-full&sslrootcert=/no/such/file", "No such file"),
        ("?passfile=/etc/passwd", "passfile is not a known option"),
    ],
)
async def test_a_url_says_nothing_that_is_not_understood(query: str, says: str) -> None:
    assert says in await refusal(f"postgresql+asyncpg://u:secret@127.0.0.1:1/d{query}")


async def test_a_new_authority_is_followed_and_sessions_go_on(
    server: PostgresServer, databases: str, authority: CertificateAuthority, other: Path, tmp_path: Path
) -> None:
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(authority.pem)
    database = await open_database(f"{databases}?sslrootcert={trusted}", *MIGRATIONS, shared=True)
    try:
        shutil.copy(other, trusted)
        async with database.read() as connection:
            assert (await connection.execute(sa.text("SELECT 1"))).scalar() == 1
        assert "not trusted" in await refusal(f"{databases}?sslrootcert={trusted}")
    finally:
        await database.close()


async def test_cancelling_a_statement_is_encrypted_too(server: PostgresServer, databases: str) -> None:
    """The request to cancel goes over a connection of its own, which the server would not take in plain text."""
    url = f"{databases}?sslrootcert={server.folder / 'ca.pem'}"
    database = await open_database(url, *MIGRATIONS, shared=True)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), database.read() as connection:
                await connection.execute(sa.text("SELECT pg_sleep(60) /* abandoned */"))
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%abandoned%' AND state = 'active'"
        async with asyncio.timeout(30):
            while True:
                async with database.read() as connection:
                    if (await connection.execute(sa.text(query + " AND pid <> pg_backend_pid()"))).scalar() == 0:
                        break
                await asyncio.sleep(0.05)
    finally:
        await database.close()
