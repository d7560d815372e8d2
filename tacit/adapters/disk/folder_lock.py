"""One process at a time in a folder: an advisory lock that is released when its holder ends, and that names the
holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tacit.errors import UsageError

_LONGEST_NAME = 32


@contextlib.contextmanager
def alone_in(folder: Path, lock: str, taken: str) -> Iterator[None]:
    """Hold the lock file ``lock`` in ``folder`` (made with mode 0700 where missing) until the block ends.

    Raises ``UsageError`` where the folder cannot be used, and where another process holds the lock: ``taken`` says what
    that means, and the process id is added.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or 'cannot be used'}") from error
    try:
        _take(descriptor, folder, taken)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone_in_or_beside(folder: Path, lock: str) -> Iterator[Path]:
    """Hold the lock file ``lock`` in ``folder`` and yield the folder; where another process holds it, yield a new
    folder beside it, which is removed when the block ends. Raises ``UsageError`` where the folder cannot be used."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone_in(folder, lock, "another process uses it"))
        except UsageError:
            if not folder.is_dir():
                raise
            beside = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
            stack.callback(shutil.rmtree, beside, ignore_errors=True)
            yield beside
        else:
            yield folder


@contextlib.contextmanager
def turn_in(folder: Path, lock: str) -> Iterator[None]:
    """Hold the file ``lock`` of ``folder`` until the block ends, once whoever holds it lets it go. Raises
    ``UsageError`` where the folder cannot be used."""
    try:
        descriptor = os.open(folder / lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or 'cannot be used'}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, folder: Path, taken: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, _LONGEST_NAME, 0).decode("ascii", "replace")
        named = f" (pid {holder})" if holder.isdigit() else ""
        raise UsageError(f"{folder}: {taken}{named}") from error
