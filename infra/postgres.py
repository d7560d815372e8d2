"""A PostgreSQL server of this stack's own, run from the system's binaries, on loopback only.

PostgreSQL refuses to run as root; as root it runs as the system's user ``postgres``, who must be able to reach its
folder.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.certificates import CA_FILE, CERTIFICATE, KEY, CertificateAuthority, certify, is_certified
from infra.child import LOG_NAME, Child
from infra.postgres_programs import find_binaries
from tacit.errors import UsageError
from tacit.service.config import read_secret, write_secret

SUPERUSER = "tacit_admin"
SYSTEM_USER = "postgres"
LEFT_OVER_SECONDS = 10.0
PAUSE_SECONDS = 0.05
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "120",
    "shared_buffers": "64MB",
    "checkpoint_timeout": "15min",  # each checkpoint makes the next write to every page of an index a whole page of log
    "max_wal_size": "2GB",
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",
}
_LEFT_OVER = ("still in use", "postmaster.pid")


@dataclass
class PostgresServer:
    """A server whose files are in ``folder``; ``create`` makes them, ``start`` and ``stop`` may alternate."""

    folder: Path
    port: int
    password: str = field(repr=False)
    extra: dict[str, str] = field(default_factory=dict)
    _child: Child | None = None

    @classmethod
    def create(cls, folder: Path, port: int, password: str) -> PostgresServer:
        """Make a new server's files. Raises ``UsageError`` with one line if that cannot be."""
        binaries = require_binaries()
        _require_passage(folder)
        folder.mkdir(mode=0o700, parents=True)
        _give_to_system_user(folder)
        secret = folder / "superuser"
        write_secret(secret, password.encode())
        _give_to_system_user(secret)
        command = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", SUPERUSER, "-E", "UTF8"]
        command += ["--locale=C", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-instructions"]
        made = subprocess.run(command, capture_output=True, cwd="/", check=False, **_as_system_user())  # noqa: S603
        if made.returncode:
            raise UsageError(f"initdb failed in {folder}: {_reason(made.stderr)}")
        return cls(folder, port, password)

    @classmethod
    def load(cls, folder: Path, port: int) -> PostgresServer:
        """The server whose files ``create`` made."""
        return cls(folder, port, read_secret(folder / "superuser").decode())

    @property
    def url(self) -> str:
        """URL of the superuser's own database."""
        return self.url_of(SUPERUSER, self.password, "postgres")

    def url_of(self, role: str, password: str, database: str) -> str:
        """SQLAlchemy URL of ``database`` for ``role``; the authority's file is named where it lies here."""
        url = f"postgresql+asyncpg://{role}:{password}@127.0.0.1:{self.port}/{database}"
        return f"{url}?sslmode=verify-full&sslrootcert={self.folder / CA_FILE}" if is_certified(self.folder) else url

    def certify(self, authority: CertificateAuthority, names: Sequence[str], now: float) -> None:
        """Give it a certificate: from its next start on it takes no connection without TLS."""
        certify(self.folder, authority, names, now)
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text("hostssl all all all scram-sha-256\n")
        for path in (self.folder / CERTIFICATE, self.folder / KEY):
            _give_to_system_user(path)

    def start(self) -> None:
        """Start, and return when connections are accepted. Raises ``UsageError`` with what the log says.

        The processes of a server that was killed hold its memory for a moment; that is waited for.
        """
        begun = time.monotonic()
        while not self._started():
            why = _reason((self.folder / LOG_NAME).read_bytes())
            if not any(sign in why for sign in _LEFT_OVER) or time.monotonic() > begun + LEFT_OVER_SECONDS:
                raise UsageError(f"PostgreSQL did not start: {why}")
            time.sleep(PAUSE_SECONDS)

    def _started(self) -> bool:
        settings = {**SETTINGS, **self._tls_settings(), "port": str(self.port), **self.extra}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(require_binaries() / "postgres"), "-D", str(self.folder / "data"), *options]
        self._child = Child(command, self.folder / LOG_NAME, **_as_system_user())
        if self._child.until(self._is_ready):
            return True
        self._child = None
        return False

    def _tls_settings(self) -> dict[str, str]:
        if not is_certified(self.folder):
            return {}
        files = {"ssl_cert_file": CERTIFICATE, "ssl_key_file": KEY}
        return {"ssl": "on", **{name: str(self.folder / file) for name, file in files.items()}}

    def stop(self) -> None:
        """Shut down: open transactions end, everything committed is on disk. Kills what does not stop."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def crash(self) -> None:
        """SIGKILL to the server, as a power cut of the database alone; its other processes end by themselves."""
        lines = self._postmaster()
        child, self._child = self._child, None
        if child is not None and lines:
            os.kill(int(lines[0]), signal.SIGKILL)
            child.wait()
            child.kill()

    def _postmaster(self) -> list[str]:
        """The lines of the lock file: pid first, the state last."""
        with contextlib.suppress(OSError):
            return (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        return []

    def _is_ready(self) -> bool:
        """Whether this start's postmaster says so; a lock file left by a crash names another pid."""
        lines = self._postmaster()
        return len(lines) >= 8 and lines[7].strip() == "ready" and self._is_child(lines[0])

    def _is_child(self, pid: str) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return self._child is not None and os.getpgid(int(pid)) == self._child.group
        return False


def require_binaries() -> Path:
    """``find_binaries``, or ``UsageError`` with one line."""
    found = find_binaries()
    if found is None:
        raise UsageError("no PostgreSQL here: install it (apt-get install postgresql), or give --postgres-url-file")
    if os.geteuid() == 0:
        _system_user()
    return found


def _system_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError as error:
        raise UsageError("PostgreSQL refuses to run as root, and there is no system user postgres") from error


def _as_system_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    user = _system_user()
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _give_to_system_user(path: Path) -> None:
    if os.geteuid() == 0:
        user = _system_user()
        os.chown(path, user.pw_uid, user.pw_gid)


def let_server_through(folder: Path) -> None:
    """As root: the server's user (as group) may pass through ``folder``, everybody else still may not."""
    if os.geteuid() == 0:
        os.chown(folder, -1, _system_user().pw_gid)
        folder.chmod(0o710)


def _require_passage(path: Path) -> None:
    """As root: refuse a place that the server's user could not reach."""
    if os.geteuid() != 0:
        return
    group = _system_user().pw_gid
    for folder in path.absolute().parents:
        status = folder.stat()
        if not status.st_mode & (0o011 if status.st_gid == group else 0o001):
            raise UsageError(f"{folder}: the user postgres cannot pass through; choose another --state-dir, or no root")


def _reason(output: bytes) -> str:
    """The last complaint in a server's or initdb's output."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    complaints = [line for line in lines if "FATAL" in line or "error:" in line]
    return (complaints or lines or ["no message"])[-1].strip()
