"""A stack's own Mosquitto broker, on loopback only, for announcements only.

Anybody may connect anonymously and listen, because a broker must not tell devices apart. Only users with a password may
publish.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import pwd
import shutil
from collections.abc import Mapping
from pathlib import Path

from infra.backing.child import PrivateServer, require_program
from infra.base.certificate_files import CERTIFICATE, KEY
from tacit.ports import Entropy
from tacit.service.base.secret_files import write_secret

ANSWER_SECONDS = 1.0
TOPICS = "tacit/v1/#"
LARGEST_PACKET = 1024
HASH_ROUNDS, SALT_SIZE = 210_000, 12
_SBIN = "/usr/sbin:/usr/local/sbin"
_CONNECT = bytes.fromhex("100e00044d515454050200050000017a")
"""An MQTT 5 CONNECT that starts clean, with the client id "z"."""


class MosquittoServer(PrivateServer):
    """A Mosquitto broker of a local stack."""

    @classmethod
    def create(
        cls, folder: Path, port: int, publishers: Mapping[str, str], entropy: Entropy, *, tls: bool = False
    ) -> MosquittoServer:
        """Create a new broker's files; ``publishers`` maps names to passwords. With ``tls``, it needs a certificate
        (``infra.base.certificates.certify``) before it can start. Raises ``UsageError``."""
        require_mosquitto()
        folder.mkdir(mode=0o700, parents=True)
        rules = [f"topic read {TOPICS}"]
        passwords = []
        for name, password in publishers.items():
            rules += ["", f"user {name}", f"topic readwrite {TOPICS}"]
            passwords.append(f"{name}:{_hash_password(password, entropy)}")
        write_secret(folder / "access", "\n".join([*rules, ""]).encode())
        write_secret(folder / "passwords", "\n".join([*passwords, ""]).encode())
        write_secret(folder / "mosquitto.conf", _settings(folder, port, tls=tls).encode())
        return cls(folder, port)

    def command(self) -> list[str]:
        """The command line that runs the broker on its configuration file."""
        return [require_mosquitto(), "-c", str(self.folder / "mosquitto.conf")]

    def answers(self) -> bool:
        """Whether the broker accepts connections."""
        with contextlib.suppress(OSError), self.connect(ANSWER_SECONDS) as link:
            link.sendall(_CONNECT)
            return link.recv(1) == b"\x20"
        return False


def _settings(folder: Path, port: int, *, tls: bool) -> str:
    files = [f"certfile {folder / CERTIFICATE}", f"keyfile {folder / KEY}"] if tls else []
    return "\n".join(
        [
            f"listener {port} 127.0.0.1",
            *files,
            f"user {pwd.getpwuid(os.geteuid()).pw_name}",
            "allow_anonymous true",
            f"password_file {folder / 'passwords'}",
            f"acl_file {folder / 'access'}",
            f"max_packet_size {LARGEST_PACKET}",
            "max_queued_messages 100",
            "persistence false",
            "log_dest stderr",
            "log_type error",
            "log_type warning",
            "connection_messages false",
            "",
        ]
    )


def _hash_password(password: str, entropy: Entropy) -> str:
    """A password in the broker's hashed form (``mosquitto_passwd``, type 7: PBKDF2 with SHA-512)."""
    salt = entropy(SALT_SIZE)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, HASH_ROUNDS)
    return f"$7${HASH_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def find_mosquitto() -> str | None:
    """Return the path of ``mosquitto``, which Debian installs in a folder of only the superuser's PATH; or None."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path=_SBIN)


def require_mosquitto() -> str:
    """Return the path of ``mosquitto``. Raises ``UsageError`` if it is not installed."""
    return require_program(find_mosquitto(), "Mosquitto", "mosquitto", "--mqtt-url-file")
