"""The PostgreSQL database of one service as a file of statements, and back, by the server's own programs.

Whom they trust and what they show is what the URL says (``tacit.adapters.postgres_tls``); the password stands in their
environment, where other users do not see it.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from infra.postgres_programs import find_binaries
from tacit.adapters.postgres_tls import protection_of
from tacit.errors import UsageError

CLIENT_PACKAGE = "postgresql-client"
_FILES = {"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
_ALONE = (
    "DO $$ BEGIN IF EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = "
    "'tacit') THEN RAISE EXCEPTION 'a service has the database open'; END IF; END $$"
)
_EMPTY = "DROP OWNED BY CURRENT_USER CASCADE"


def dump_database(url: str, target: Path) -> None:
    """Write the database at ``url``, as it is at one moment, to the new file ``target`` (0600). Raises
    ``UsageError``."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    _run("pg_dump", ["--no-owner", "--no-privileges", "--file", str(target)], url)


def put_dump(dump: Path, url: str) -> None:
    """Replace everything in the database at ``url`` by what ``dump`` holds, in one transaction. Raises ``UsageError``,
    with nothing changed, where a service has it open."""
    steps = ["--command", _ALONE, "--command", _EMPTY, "--file", str(dump)]
    _run("psql", ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--single-transaction", *steps], url)


def _run(program: str, arguments: Sequence[str], url: str) -> None:
    command = [_program(program), *arguments]
    environment = {"PATH": os.defpath, "LC_ALL": "C", "PGAPPNAME": "tacit-backup", **_environment(make_url(url))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        complaint = [line for line in done.stderr.strip().splitlines() if "ERROR:" in line or "error:" in line]
        raise UsageError(f"{program}: {(complaint or [done.stderr.strip() or 'failed'])[0]}")


def _program(name: str) -> str:
    """Of the newest server that is installed, which can read the dumps of every older one, or on PATH."""
    binaries = find_binaries()
    if binaries is not None and (binaries / name).exists():
        return str(binaries / name)
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"no {name} here: install it (apt-get install {CLIENT_PACKAGE})")
    return found


def _environment(url: URL) -> Mapping[str, str]:
    """What libpq is told; raises ``UsageError`` for what a service would refuse."""
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
