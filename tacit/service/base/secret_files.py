"""Secret files, mode 0600: keys, tokens, and URLs with a password."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from tacit.adapters.disk.files import is_private, sync_folder
from tacit.errors import UsageError

LEAST_SECRET = 20
"""A value of this many characters without a suffix may be a secret instead of a file's name."""
_FILE_MEMBERS = frozenset({"sslrootcert", "sslcert", "sslkey"})
"""Members of a database's URL that name files."""


def read_secret(path: Path, *, max_size: int = 1 << 16) -> bytes:
    """Read a secret file. Raises ``UsageError`` unless it is a regular file that is private
    (``tacit.adapters.disk.files.is_private``). A value that is not the name of a file is not repeated in the error,
    because it may be the secret itself."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        if len(path.name) >= LEAST_SECRET and not path.suffix:
            raise UsageError(
                f"{path.parent}: there is no such file here; name a file that holds the secret, not the secret itself"
            ) from error
        raise UsageError(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path}: not a regular file")
        if not is_private(status):
            raise UsageError(f"{path}: readable by others; run: chmod 600 {path}")
        data = os.read(descriptor, max_size + 1)
    finally:
        os.close(descriptor)
    if not data or len(data) > max_size:
        raise UsageError(f"{path}: empty or larger than {max_size} bytes")
    return data


def write_secret(path: Path, data: bytes) -> None:
    """Write a secret file with mode 0600, atomically and durably; the folder is made with mode 0700."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_database_url(path: Path) -> str:
    """Read the PostgreSQL URL in a secret file, for ``tacit.adapters.databases.sql``; files that it names are taken
    from the file's folder. Raises a ``UsageError`` that does not quote it."""
    scheme, separator, rest = read_secret(path).decode("utf-8", "replace").strip().partition("://")
    if scheme not in {"postgresql", "postgresql+asyncpg"} or not separator or not rest or rest.split() != [rest]:
        raise UsageError(
            f"{path}: must hold one URL, postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full&sslrootcert=FILE"
        )
    return files_beside(path, f"postgresql+asyncpg://{rest}", _FILE_MEMBERS)


def files_beside(path: Path, url: str, members: Collection[str]) -> str:
    """``url`` from the file ``path``; files named by these members of its query are taken from the folder of
    ``path``."""
    place, mark, query = url.partition("?")
    folder = path.absolute().parent
    pairs = [
        (name, str(folder / Path(value).expanduser()) if name in members else value)
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return f"{place}?{urlencode(pairs)}" if mark else url
