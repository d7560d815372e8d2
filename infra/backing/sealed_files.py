"""Encrypts the files of a backup to public keys of the operator, in the age format (age-encryption.org/v1): X25519 and
ChaCha20-Poly1305 in chunks of 64 KiB, so that a file of any size passes. What encrypts cannot decrypt: the private key
is on no machine that makes backups."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from tacit.errors import UsageError
from tacit.extras import require_extra
from tacit.lines import lines_of
from tacit.service.base.secret_files import read_secret, write_secret

PRIVATE = "AGE-SECRET-KEY-1"
"""What the text of a private key begins with."""
SEALED = ".age"
"""Suffix of an encrypted file."""


def require_age() -> None:
    """Raise ``UsageError`` where the library is not installed."""
    require_extra("encrypting backups", "backup", "pyrage")


def recipients_of(keys: Sequence[str]) -> list[Any]:
    """The public keys in ``keys`` (``age1...``). Raises ``UsageError``."""
    require_age()
    import pyrage

    try:
        return [pyrage.x25519.Recipient.from_str(key) for key in keys]
    except pyrage.RecipientError as error:
        raise UsageError("not a public key of tacit keys generate backup, or of age-keygen (age1...)") from error


def generate_backup_key(path: Path) -> None:
    """Make a private key in the new file ``path`` (0600). Raises ``UsageError``."""
    require_age()
    import pyrage

    made = pyrage.x25519.Identity.generate()  # from the randomness of the operating system
    write_secret(path, f"{made}\n".encode())


def backup_public_key(path: Path) -> str:
    """The public key of the private one in the secret file ``path``. Raises ``UsageError``."""
    return str(_identity(path).to_public())


def _identity(path: Path) -> Any:
    """The private key in a file of ``generate_backup_key`` or age-keygen, whose remarks begin with ``#``."""
    require_age()
    import pyrage

    lines = [line.strip() for line in lines_of(read_secret(path).decode("ascii", "replace"))]
    try:
        (text,) = [line for line in lines if line and not line.startswith("#")]
        return pyrage.x25519.Identity.from_str(text)
    except (ValueError, pyrage.IdentityError) as error:
        raise UsageError(f"{path}: not a private key of backups ({PRIVATE}...)") from error


def seal(source: BinaryIO, target: Path, recipients: Sequence[Any]) -> None:
    """Encrypt what ``source`` holds into the new file ``target`` (0600). Raises ``OSError``."""
    import pyrage

    with _new_file(target) as file:
        try:
            pyrage.encrypt_io(source, cast("BinaryIO", file), recipients)
        except pyrage.EncryptError as error:
            raise file.failure or OSError(errno.EIO, str(error), str(target)) from error


def unseal(source: BinaryIO, target: Path, key: Path) -> None:
    """Decrypt ``source`` into the new file ``target`` (0600) with the private key in ``key``. Raises ``UsageError`` for
    another key, and for a file that was changed or cut; ``OSError`` where ``target`` cannot be written. Then it holds
    nothing."""
    import pyrage

    identity = _identity(key)
    with _new_file(target) as file:
        try:
            pyrage.decrypt_io(source, cast("BinaryIO", file), [identity])
        except (pyrage.DecryptError, OSError) as error:
            os.ftruncate(file.fileno(), 0)
            if file.failure is not None:
                raise file.failure from error
            raise UsageError(f"{source.name}: cannot be decrypted with {key}, or is damaged") from error


class _Target(io.FileIO):
    """A file that remembers why it took nothing: the library tells it in words of its own."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of ``data``, of which one call of the system may take a part. An ``OSError`` is kept as ``failure``
        too."""
        try:
            left = memoryview(data)
            while left:
                left = left[super().write(left) or 0 :]
        except OSError as error:
            self.failure = OSError(error.errno, error.strerror, str(self.name))
            raise
        return len(data)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[_Target]:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with _Target(path, "r+") as file:
        yield file
        os.fsync(file.fileno())
