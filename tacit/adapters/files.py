"""What makes files durable beyond their bytes, and who may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tacit.errors import UsageError


def sync_folder(folder: Path) -> None:
    """Make names that were given or taken in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(path: Path, most: int) -> bytes:
    """The bytes of a regular file, or of a pipe of this process's own (``/dev/stdin``, ``/dev/fd/63``). Raises
    ``UsageError`` for what is missing, neither, or of more than ``most`` bytes, without reading more than those."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # whoever opens a FIFO waits for a writer
        with os.fdopen(descriptor, "rb") as file:
            kind = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(kind) and not (stat.S_ISFIFO(kind) and path.is_relative_to("/dev")):
                raise UsageError(f"{path}: {'Is a directory' if stat.S_ISDIR(kind) else 'not a regular file'}")
            os.set_blocking(descriptor, True)
            data = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
    except ValueError as error:
        raise UsageError(f"{path}: no name of a file") from error
    if len(data) > most:
        raise UsageError(f"{path}: larger than {most} bytes")
    return data


def replace_file(path: Path, data: bytes) -> None:
    """Write ``path`` whole or not at all; what stood there before, also a link, is replaced and not written through.
    Raises ``UsageError``."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
            raise UsageError(f"{path}: not a regular file")
        try:
            with open(draft, "xb") as file:
                file.write(data)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be written'}") from error


def is_private(status: os.stat_result) -> bool:
    """Whether a file is a secret of whoever runs this process: nobody but its owner can do anything with it; or it is
    root's, who reads everything anyway, and a group that root chose may read it. The latter is how Kubernetes and
    systemd hand a secret to a process that is not root."""
    given = 0o040 if status.st_uid == 0 and os.geteuid() != 0 else 0
    return not stat.S_IMODE(status.st_mode) & 0o077 & ~given
