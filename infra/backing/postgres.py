"""A stack's own PostgreSQL server, run from the system's binaries, on loopback only.

PostgreSQL refuses to run as root. If this process is root, the server runs as the system user ``postgres``, who must be
able to reach its folder.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.backing.child import LOG_NAME, Child
from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY, is_certified
from infra.base.certificates import CertificateAuthority, certify
from infra.base.postgres_programs import find_binaries
from tacit.errors import UsageError
from tacit.lines import lines_of
from tacit.service.base.secret_files import read_secret, write_secret

SUPERUSER = "tacit_admin"
SYSTEM_USER = "postgres"
LEFT_OVER_SECONDS = 10.0
PAUSE_SECONDS = 0.05
RECOVERY_SECONDS, CHECKPOINT_SECONDS = 3600.0, 120.0
"""The most time for replaying the log after a crash, which begins anew if it is stopped, and for writing all pages when
the server stops."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "120",
    "checkpoint_timeout": "15min",  # after a checkpoint, the first write to each index page logs the whole page
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",
}
MEMORY_SHARE, LEAST_MEMORY, MOST_MEMORY = 4, 64 << 20, 4 << 30
"""The share of the machine's memory that the server may fill with pages, and its bounds in bytes. It takes them as its
databases grow: every spent token is looked up at a random place of two indexes, some 200 bytes together."""
DISK_SHARE, LEAST_LOG, MOST_LOG = 8, 128 << 20, 8 << 30
"""The share of the free disk that the write-ahead log may fill before a checkpoint, and its bounds in bytes."""
_CGROUPS, _CGROUP_ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_LEFT_OVER = ("still in use", "postmaster.pid")
SAY_SECONDS = 10.0
"""A start that lasts longer is said, and how far it is, each time that so much has passed."""
_STAGES = re.compile(r"LOG:\s+(.*(?:recovery|redo|checkpoint|shut down|syncing data).*)")
"""What PostgreSQL's log says of its start after a crash: from version 15 on every ten seconds."""
_LOG_TAIL = 8192
Say = Callable[[str], None]


@dataclass
class PostgresServer:
    """A PostgreSQL server with its files in ``folder``. It can be started and stopped repeatedly."""

    folder: Path
    port: int
    password: str = field(repr=False)
    extra: dict[str, str] = field(default_factory=dict)
    _child: Child | None = None

    @classmethod
    def create(cls, folder: Path, port: int, password: str) -> PostgresServer:
        """Create a new server's files. Raises ``UsageError`` if that fails."""
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
        """Load the server whose files ``create`` made."""
        return cls(folder, port, read_secret(folder / "superuser").decode())

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the superuser's own database."""
        return self.url_of(SUPERUSER, self.password, "postgres")

    def url_of(self, role: str, password: str, database: str) -> str:
        """Return the SQLAlchemy URL of ``database`` for ``role``; with TLS, it names the authority's file here."""
        url = f"postgresql+asyncpg://{role}:{password}@127.0.0.1:{self.port}/{database}"
        return f"{url}?sslmode=verify-full&sslrootcert={self.folder / CA_FILE}" if is_certified(self.folder) else url

    def certify(self, authority: CertificateAuthority, names: Sequence[str], now: float) -> None:
        """Give the server a certificate; from its next start on it refuses connections without TLS."""
        certify(self.folder, authority, names, now)
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text("hostssl all all all scram-sha-256\n", "utf-8")
        for path in (self.folder / CERTIFICATE, self.folder / KEY):
            _give_to_system_user(path)

    def start(self, say: Say = lambda _words: None) -> None:
        """Start the server, and return when it accepts connections. ``say`` is told how far a long start is. Raises
        ``UsageError`` with the log's last error.

        The processes of a killed server hold its memory for a moment, so the start is retried until they are gone.
        """
        begun = time.monotonic()
        while not self._has_started(say):
            why = _reason((self.folder / LOG_NAME).read_bytes())
            if not any(sign in why for sign in _LEFT_OVER) or time.monotonic() > begun + LEFT_OVER_SECONDS:
                raise UsageError(f"PostgreSQL did not start: {why}")
            time.sleep(PAUSE_SECONDS)

    def _has_started(self, say: Say) -> bool:
        settings = {**SETTINGS, **_sizes(self.folder), **self._tls_settings(), "port": str(self.port), **self.extra}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(require_binaries() / "postgres"), "-D", str(self.folder / "data"), *options]
        log = self.folder / LOG_NAME
        progress = ProgressReporter(log, say)
        self._child = Child(command, log, **_as_system_user())
        if self._child.until(self._is_ready, RECOVERY_SECONDS, progress):
            return True
        self._child = None
        return False

    def _tls_settings(self) -> dict[str, str]:
        if not is_certified(self.folder):
            return {}
        files = {"ssl_cert_file": CERTIFICATE, "ssl_key_file": KEY}
        return {"ssl": "on", **{name: str(self.folder / file) for name, file in files.items()}}

    def stop(self) -> None:
        """Shut the server down: open transactions end, committed data is on disk. A server that hangs is killed."""
        child, self._child = self._child, None
        if child is not None:
            child.stop(CHECKPOINT_SECONDS)

    def crash(self) -> None:
        """Send SIGKILL to the server, like a power cut of the database; its other processes end by themselves."""
        lines = self._postmaster()
        child, self._child = self._child, None
        if child is not None and lines:
            os.kill(int(lines[0]), signal.SIGKILL)
            child.wait()
            child.kill()

    def _postmaster(self) -> list[str]:
        """The lines of the lock file: the pid first, the state last; none without a lock file."""
        with contextlib.suppress(OSError):
            return lines_of((self.folder / "data" / "postmaster.pid").read_text("utf-8"))
        return []

    def _is_ready(self) -> bool:
        """Whether the postmaster of this start reports ready; a lock file left by a crash names another pid."""
        lines = self._postmaster()
        return len(lines) >= 8 and lines[7].strip() == "ready" and self._is_child(lines[0])

    def _is_child(self, pid: str) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return self._child is not None and os.getpgid(int(pid)) == self._child.group
        return False


class ProgressReporter:
    """Says now and then what the log of a server that starts, at ``log``, has said last since this was made."""

    def __init__(self, log: Path, say: Say) -> None:
        self._log = log
        self._say = say
        self._begins = log.stat().st_size if log.exists() else 0
        self._next = SAY_SECONDS

    def __call__(self, seconds: float) -> None:
        """Say it if it is time: ``seconds`` have passed since the start."""
        if seconds < self._next:
            return
        self._next = seconds + SAY_SECONDS
        self._say(f"PostgreSQL has been starting for {seconds:.0f} s{self._stage()}")

    def _stage(self) -> str:
        try:
            with self._log.open("rb") as file:
                file.seek(max(self._begins, self._log.stat().st_size - _LOG_TAIL))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        found: list[str] = _STAGES.findall(text)
        return f": {found[-1].strip()}" if found else ""


def require_binaries() -> Path:
    """Return the folder that ``find_binaries`` finds. Raises ``UsageError`` if PostgreSQL is not usable here."""
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


def _sizes(folder: Path) -> dict[str, str]:
    """The settings that follow the size of the machine."""
    memory = min(MOST_MEMORY, max(LEAST_MEMORY, _memory() // MEMORY_SHARE))
    log = min(MOST_LOG, max(LEAST_LOG, shutil.disk_usage(folder).free // DISK_SHARE))
    return {"shared_buffers": f"{memory >> 20}MB", "max_wal_size": f"{log >> 20}MB"}


def _memory() -> int:
    """Bytes of memory that this process, and what it starts, may have on this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY:
        memory = min(memory, addresses)
    for path in _cgroup_limits():
        with contextlib.suppress(OSError, ValueError):  # no such limit, or "max"
            memory = min(memory, int(path.read_text("utf-8")))
    return memory


def _cgroup_limits() -> Iterator[Path]:
    """Where the limits of this process's control group and of those around it are, by versions 1 and 2."""
    yield from (_CGROUP_ROOT / "memory.max", _CGROUP_ROOT / "memory/memory.limit_in_bytes")
    lines = []
    with contextlib.suppress(OSError):
        lines = os.fsdecode(_CGROUPS.read_bytes()).split("\n")
    for _, controllers, place in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if controllers and "memory" not in controllers.split(","):
            continue
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        for root in [_CGROUP_ROOT / "memory"] if controllers else [_CGROUP_ROOT, _CGROUP_ROOT / "unified"]:
            inner = root / place.lstrip("/")
            yield from (folder / name for folder in (inner, *inner.parents) if folder.is_relative_to(root))


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
    """If this process is root, let the server's user (as group) pass through ``folder``, and nobody else."""
    if os.geteuid() == 0:
        os.chown(folder, -1, _system_user().pw_gid)
        folder.chmod(0o710)


def _require_passage(path: Path) -> None:
    """If this process is root, refuse a place that the server's user could not reach."""
    if os.geteuid() != 0:
        return
    group = _system_user().pw_gid
    for folder in path.absolute().parents:
        status = folder.stat()
        if not status.st_mode & (0o011 if status.st_gid == group else 0o001):
            raise UsageError(f"{folder}: the user postgres cannot pass through; choose another --state-dir, or no root")


def _reason(output: bytes) -> str:
    """The last complaint in a server's or initdb's output."""
    lines = lines_of(output.decode("utf-8", "replace").strip())
    complaints = [line for line in lines if "FATAL" in line or "error:" in line]
    return (complaints or lines or ["no message"])[-1].strip()
