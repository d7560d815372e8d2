"""Shares of a processor for single processes, by the kernel's control groups, so that nothing else is scarce."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tacit.errors import UsageError

ROOTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Where the controller of processor time is: in a hierarchy of its own, or in the one of all controllers."""
PERIOD_US = 20_000
LEAST_SHARE = 0.05


@contextlib.contextmanager
def limited(pids: Sequence[int], share: float) -> Iterator[None]:
    """Give each of the processes at most ``share`` of one processor while the block runs. Raises ``UsageError`` where
    this user may not, or the system has no such limits."""
    if not LEAST_SHARE <= share <= 1:
        raise UsageError(f"a share of a processor is between {LEAST_SHARE} and 1")
    with contextlib.ExitStack() as stack:
        for pid in pids:
            stack.enter_context(_group(pid, round(share * PERIOD_US)))
        yield


@contextlib.contextmanager
def _group(pid: int, quota_us: int) -> Iterator[None]:
    root = next((root for root in ROOTS if (root / "cgroup.procs").exists()), None)
    if root is None:
        raise UsageError("this system has no control groups for processor time")
    folder = root / f"tacit-bench-{os.getpid()}-{pid}"
    try:
        folder.mkdir()
        if (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        (folder / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise UsageError(f"limits of processor time need root and the cpu controller: {error.strerror}") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (root / "cgroup.procs").write_text(str(pid))
        with contextlib.suppress(OSError):
            folder.rmdir()
