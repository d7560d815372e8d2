"""Folders that exist for one run and are removed afterwards, however the run ends."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_REMOVER = 'cat >/dev/null; for again in 1 2 3 4 5; do rm -rf -- "$0" 2>/dev/null; [ -e "$0" ] || exit 0; sleep 1; done'
"""Its input ends once every process of the run has ended. It retries, as others may still write for a moment."""


@contextlib.contextmanager
def scratch_folder(prefix: str, mode: int = 0o700) -> Iterator[Path]:
    """A new folder in the temporary folder. It may hold keys, so it must not stay even if this process is killed: a
    separate process, in a session of its own, removes it then."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(mode)
    command = ["/bin/sh", "-c", _REMOVER, str(folder)]
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    ):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
