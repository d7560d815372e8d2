"""Dumps the PostgreSQL database of one service into a file of SQL statements and restores it, with ``pg_dump`` and
``psql``.

Both use the TLS settings of the URL (``tacit.adapters.databases.postgres_tls``), and read the password from their
environment,
where other users cannot see it. A dump may hold only statements for the server: meta-commands of ``psql`` that act on
this machine (``\\!``, ``\\copy``) are refused, whoever wrote them.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO, cast

from sqlalchemy.engine import URL, make_url

from infra.base.postgres_programs import find_binaries
from tacit.adapters.databases.postgres_tls import protection_of
from tacit.errors import UsageError
from tacit.lines import lines_of

CLIENT_PACKAGE = "postgresql-client"
_FILES = {"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
_ALONE = (
    "DO $$ BEGIN IF EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = "
    "'tacit') THEN RAISE EXCEPTION 'a service has the database open'; END IF; END $$"
)
_EMPTY = "DROP OWNED BY CURRENT_USER CASCADE"
_RESTRICTS = re.compile(rb"^\\restrict ([0-9A-Za-z]{1,200})$", re.MULTILINE)
"""The line that dumps of 2025 and later begin with; they end with ``\\unrestrict``."""
_HEAD = 4096


def dump_into(url: str, take: Callable[[BinaryIO], None]) -> None:
    """Let ``take`` read a snapshot of the database at ``url`` while it is made, so that it need not lie anywhere.
    Raises ``UsageError``, and what ``take`` raises."""
    _run("pg_dump", ["--no-owner", "--no-privileges"], url, take=take)


def write_new(source: BinaryIO, target: Path) -> None:
    """Copy ``source`` into the new file ``target`` (0600). Raises ``OSError``."""
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(source, file)
        file.flush()
        os.fsync(file.fileno())


def put_dump(dump: Path, url: str) -> None:
    """Replace everything in the database at ``url`` by the contents of ``dump``, in one transaction that commits only
    at the end of the dump. Raises ``UsageError``, with nothing changed, for instance if a service has it open."""
    steps = ["BEGIN", _ALONE, _EMPTY, f"\\restrict {secrets.token_hex(32)}"]
    commands = [word for step in steps for word in ("--command", step)]
    _run("psql", ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", *commands, "--file", "-"], url, _lines(dump))


def _lines(dump: Path) -> Iterator[bytes]:
    """The dump's lines without its own ``\\restrict`` marks, which must not occur within ours, and a final COMMIT."""
    with dump.open("rb") as file:
        found = _RESTRICTS.search(file.read(_HEAD))
        marks = {b"\\%s %s\n" % (word, found[1]) for word in (b"restrict", b"unrestrict")} if found else set()
        file.seek(0)
        yield from (line for line in file if line not in marks)
    yield b"\nCOMMIT;\n"


def _run(
    program: str,
    arguments: Sequence[str],
    url: str,
    stdin_lines: Iterable[bytes] = (),
    take: Callable[[BinaryIO], None] | None = None,
) -> None:
    command = [_program(program), *arguments]
    environment = {"PATH": os.defpath, "LC_ALL": "C", "PGAPPNAME": "tacit-backup", **_environment(make_url(url))}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=pipe, stdout=nothing if take is None else pipe, stderr=said
        ) as process,
    ):
        try:
            with contextlib.suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as stream:
                for line in stdin_lines:
                    stream.write(line)
            if take is not None:
                take(cast("BinaryIO", process.stdout))
        except BaseException:
            process.kill()
            raise
        process.wait()
        said.seek(0)
        words = said.read(_HEAD).decode("utf-8", "replace").strip()
    if process.returncode:
        complaint = [line for line in lines_of(words) if "ERROR:" in line or "error:" in line]
        raise UsageError(f"{program}: {(complaint or [words or 'failed'])[0]}")


def _program(name: str) -> str:
    """The program of the newest installed server, which can read the dumps of every older one, or the one on PATH."""
    binaries = find_binaries()
    if binaries is not None and (binaries / name).exists():
        return str(binaries / name)
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"no {name} here: install it (apt-get install {CLIENT_PACKAGE})")
    return found


def _environment(url: URL) -> Mapping[str, str]:
    """The environment variables for libpq. Raises ``UsageError`` for a URL that a service would refuse."""
    _, protection = protection_of(url)
    said = {
        "PGHOST": protection.socket or url.host,
        "PGPORT": None if url.port is None else str(url.port),
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
        "PGSSLMODE": protection.mode,
        **{name: str(url.query[member]) for member, name in _FILES.items() if member in url.query},
    }
    if protection.mode in {"verify-ca", "verify-full"} and "PGSSLROOTCERT" not in said:
        said["PGSSLROOTCERT"] = ssl.get_default_verify_paths().openssl_cafile
    return {name: str(value) for name, value in said.items() if value}
