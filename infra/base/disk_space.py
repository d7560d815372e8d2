"""Says that a file system is full: a program that ends for that reason can often write no last words."""

from __future__ import annotations

import os
from pathlib import Path

LITTLE = 1 << 20
"""Free bytes below which a service can begin nothing."""


def disk_space_problem(folder: Path) -> str:
    """That the file system of ``folder`` has next to no bytes or inodes left; empty if it has some, or is unknown."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return ""
    free = found.f_bavail * found.f_frsize
    if found.f_files and not found.f_favail:
        return f"no space left on device: the file system of {folder} has no inodes left"
    if free < LITTLE:
        return f"no space left on device: {free >> 10} KiB are free in the file system of {folder}"
    return ""
