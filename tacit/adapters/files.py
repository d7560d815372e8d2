"""What makes files durable beyond their bytes, and who may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make names that were given or taken in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_private(status: os.stat_result) -> bool:
    """Whether a file is a secret of whoever runs this process: nobody but its owner can do anything with it; or it is
    root's, who reads everything anyway, and a group that root chose may read it. The latter is how Kubernetes and
    systemd hand a secret to a process that is not root."""
    given = 0o040 if status.st_uid == 0 and os.geteuid() != 0 else 0
    return not stat.S_IMODE(status.st_mode) & 0o077 & ~given
