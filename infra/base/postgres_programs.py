"""Finds the programs of PostgreSQL on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path


def find_binaries() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres``: the one on PATH, else the newest below /usr/lib/postgresql,
    else None."""
    versions = sorted(
        (path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()),
        key=lambda path: int(path.parent.name),
    )
    on_path = shutil.which("initdb")
    if on_path is not None:
        versions.append(Path(on_path).resolve().parent)
    complete = [folder for folder in versions if all((folder / name).exists() for name in ("initdb", "postgres"))]
    return complete[-1] if complete else None
