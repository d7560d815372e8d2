"""A stack's own Redis server, on loopback only: it loses at most the last second, and never evicts keys.

Each user may access only the keys with one prefix, so that one trust domain cannot read another's. Passwords are in
files that only their owner can read.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.backing.child import PrivateServer, require_program
from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY
from tacit.service.base.secret_files import write_secret

ANSWER_SECONDS = 1.0
SETTINGS = {
    "bind": "127.0.0.1",
    "protected-mode": "yes",
    "daemonize": "no",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "auto-aof-rewrite-min-size": "1mb",  # so that expired keys soon leave the file
    "save": '""',
    "maxmemory-policy": "noeviction",
    "databases": "1",
}
COMMANDS = "+@read +@write +@connection +@transaction +@blocking -@dangerous +info +time"


@dataclass(frozen=True)
class RedisUser:
    """A user with a password, and the prefix of its keys."""

    name: str
    password: str = field(repr=False)
    prefix: str

    def rule(self) -> str:
        """Return the user's line of the access list, which holds only the password's digest."""
        digest = hashlib.sha256(self.password.encode()).hexdigest()
        return f"user {self.name} on #{digest} ~{self.prefix}* resetchannels -@all {COMMANDS}"


class RedisServer(PrivateServer):
    """A Redis server of a local stack, on loopback. Each user reaches only the keys of its prefix, and a crash may lose
    about a second of writes."""

    @classmethod
    def create(cls, folder: Path, port: int, users: Mapping[str, RedisUser]) -> RedisServer:
        """Create a new server's files. Raises ``UsageError`` if Redis is not installed."""
        require_redis()
        folder.mkdir(mode=0o700, parents=True)
        (folder / "data").mkdir(mode=0o700)
        rules = ["user default off", *(user.rule() for user in users.values())]
        write_secret(folder / "users.acl", "\n".join([*rules, ""]).encode())
        settings = {**SETTINGS, "port": str(port), "dir": f'"{folder / "data"}"', "aclfile": f'"{folder}/users.acl"'}
        write_secret(folder / "redis.conf", "".join(f"{name} {value}\n" for name, value in settings.items()).encode())
        return cls(folder, port)

    def url_of(self, user: RedisUser) -> str:
        """Return the URL for one user; with TLS, the authority's file must be beside the file with the URL."""
        place = f"{user.name}:{user.password}@127.0.0.1:{self.port}/0"
        return f"rediss://{place}?ssl_ca_certs={CA_FILE}" if self.certified else f"redis://{place}"

    def command(self) -> list[str]:
        """Return the command line that runs the server, configuration file and TLS included."""
        return [require_redis(), str(self.folder / "redis.conf"), *(self._over_tls() if self.certified else ())]

    def _over_tls(self) -> list[str]:
        files = {"cert-file": CERTIFICATE, "key-file": KEY, "ca-cert-file": CA_FILE}
        named = [part for name, file in files.items() for part in (f"--tls-{name}", str(self.folder / file))]
        return ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no", *named]

    def answers(self) -> bool:
        """Whether the server asks for a password. It may still be loading its data, and tells its users so."""
        try:
            with self.connect(ANSWER_SECONDS) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"-NOAUTH")
        except OSError:
            return False


def find_redis() -> str | None:
    """Return the path of ``redis-server``, or None."""
    return shutil.which("redis-server")


def require_redis() -> str:
    """Return the path of ``redis-server``. Raises ``UsageError`` if it is not installed."""
    return require_program(find_redis(), "Redis", "redis-server", "--redis-url-file")
