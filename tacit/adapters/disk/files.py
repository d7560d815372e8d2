"""File operations: making changes durable, and checking who may read a file."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from tacit.errors import UsageError

DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""What a write meets where the disk is full or broken: the same write may succeed later."""


def sync_folder(folder: Path) -> None:
    """Make renamed, created or deleted names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file, or a pipe of this process (``/dev/stdin``, ``/dev/fd/63``), for reading. Raises
    ``UsageError`` for a missing file, and for one that is neither: another process's pipe may never answer."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # opening a FIFO would block until a writer comes
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not a valid file name") from error
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind) and not (stat.S_ISFIFO(kind) and is_device(path)):
        os.close(descriptor)
        raise UsageError(f"{path}: {'Is a directory' if stat.S_ISDIR(kind) else 'not a regular file'}")
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def read_bounded(path: Path, most: int) -> bytes:
    """Read what ``open_file`` opens. Raises ``UsageError`` as it does, and for more than ``most`` bytes, without
    reading more than that."""
    with open_file(path) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
    if len(data) > most:
        raise UsageError(f"{path}: larger than {most} bytes")
    return data


def replace_file(path: Path, data: bytes) -> None:
    """Write ``path`` whole or not at all (``replacing``). Raises ``UsageError``."""
    with replacing(path) as draft:
        draft.write_bytes(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside ``path``, for the block to write; at its end it becomes ``path``, so that a full disk, an error
    or a power cut leaves what was there. It has the suffix of ``path``, by which libraries choose a format. An existing
    link is replaced, never written through, and an existing file's mode stays. Raises ``UsageError``."""
    draft = path.with_name(f".{path.stem[:200]}.{os.getpid()}.new{path.suffix}")
    try:
        if is_device(path) or (path.exists() and not path.is_file()):
            raise UsageError(f"{path}: not a regular file")
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            if path.is_file() and not path.is_symlink():
                draft.chmod(stat.S_IMODE(path.stat().st_mode))
            yield draft
            with open(draft, "rb") as file:
                os.fsync(file.fileno())
            draft.replace(path)
            sync_folder(path.parent)
        except FileExistsError:
            raise
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be written'}") from error


def is_private(status: os.stat_result) -> bool:
    """Whether a file is private to the user who runs this process: nobody but its owner has access; or it belongs to
    root, who can read everything anyway, and root allowed a group to read it. The latter is how Kubernetes and systemd
    hand a secret to a process that is not root."""
    given = 0o040 if status.st_uid == 0 and os.geteuid() != 0 else 0
    return not stat.S_IMODE(status.st_mode) & 0o077 & ~given


def is_device(path: Path) -> bool:
    """Whether ``path`` is below ``/dev``; a file in ``/dev/shm`` is one like others."""
    return path.is_relative_to("/dev") and not path.is_relative_to("/dev/shm")  # noqa: S108 - compared only
