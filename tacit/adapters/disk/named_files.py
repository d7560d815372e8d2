"""Files that a person names to a command: pipes and terminals are among them."""

from __future__ import annotations

import contextlib
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO, Final, cast

from tacit.adapters.disk.files import is_device, open_file, replace_file
from tacit.errors import UsageError

IN_MEMORY: Final = 1 << 24
"""Bytes of a pipe that are kept in memory."""


def open_seekable(path: Path, most: int = 1 << 32) -> BinaryIO:
    """Open as ``open_file`` does, for a reader that goes back to the beginning: a pipe is copied first, in memory or,
    if it is long, into a temporary file without a name. Raises ``UsageError``, also for a pipe of more than ``most``
    bytes."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_file(path))
        if file.seekable():
            stack.pop_all()
            return file
        copy = stack.enter_context(tempfile.SpooledTemporaryFile(IN_MEMORY))
        try:
            while piece := file.read(IN_MEMORY // 16):
                copy.write(piece)
                if copy.tell() > most:
                    raise UsageError(f"{path}: larger than {most} bytes")
            copy.seek(0)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
        file.close()
        stack.pop_all()
        return cast("BinaryIO", copy)


def is_readable(path: Path) -> bool:
    """Whether ``open_file`` would take ``path``, for commands that take a name where there is no such file."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(kind) or (stat.S_ISFIFO(kind) and is_device(path))


def write_answer(path: Path, data: bytes) -> None:
    """``replace_file`` for a path that a person named: a terminal or pipe, such as ``/dev/stdout``, takes ``data`` as
    it is. Raises ``UsageError``."""
    if not is_device(path) and not path.is_fifo():
        replace_file(path, data)
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be written'}") from error
