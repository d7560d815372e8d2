"""Which files are written in place of others."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tacit.adapters.disk.files import replace_file
from tacit.errors import UsageError

MEMORY = Path("/dev/shm")  # noqa: S108


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason="no folder in memory here")
def test_a_file_in_memory_is_replaced_like_one_on_a_disk() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "slots.json"
        for data in (b"one", b"two"):
            replace_file(path, data)
            assert path.read_bytes() == data


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/null", "/dev/fd/1"])
def test_a_device_is_not_replaced(path: str) -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        replace_file(Path(path), b"x")
