"""Which files are written in place of others."""

from __future__ import annotations

import errno
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


def test_a_file_for_which_there_is_no_room_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "newest.npz"
    replace_file(path, b"whole")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        replace_file(path, b"another")
    assert [one.name for one in tmp_path.iterdir()] == ["newest.npz"]
    assert path.read_bytes() == b"whole"
