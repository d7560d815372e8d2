"""HPKE keys that are read again when their files change."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from tacit.aggregator.keys import HpkeKey, find_key, generate_hpke_key, write_hpke_key
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.errors import UsageError


def made(path: Path, number: int) -> HpkeKey:
    key = generate_hpke_key(number, SeededEntropy(number))
    write_hpke_key(path, key)
    return key


def test_a_key_beside_the_old_ones_is_taken_up_and_the_last_by_name_is_preferred(tmp_path: Path) -> None:
    folder, alone = tmp_path / "keys", tmp_path / "first.key"
    first, old = made(alone, 1), made(folder / "2026-01.key", 2)
    keys = LiveHpkeKeys([alone, folder])
    assert list(keys) == [first, old]
    new = made(folder / "2026-02.key", 3)
    assert list(keys) == [first, new, old]
    assert find_key(keys, new.config) == new
    (folder / "2026-01.key").unlink()
    assert (len(keys), keys[1], keys.trouble()) == (2, new, "")


def unreadable(folder: Path) -> Iterator[Path]:
    raise PermissionError(errno.EACCES, "Permission denied", str(folder))


def test_files_that_cannot_be_used_leave_the_keys_as_they_were_and_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "keys"
    old = made(folder / "1.key", 1)
    keys = LiveHpkeKeys([folder])
    wrong = folder / "2.key"
    for write in (lambda: made(wrong, 1), lambda: wrong.chmod(0o644), lambda: wrong.write_text("no key")):
        write()
        assert list(keys) == [old]
        assert keys.trouble().startswith("HPKE keys: the new files cannot be used, the old ones stay in use: ")
    wrong.unlink()
    assert (list(keys), keys.trouble()) == ([old], "")
    (folder / "1.key").unlink()
    assert list(keys) == [old]
    assert "at least one key" in keys.trouble()
    monkeypatch.setattr(Path, "iterdir", unreadable)
    (folder / "1.key").touch()
    assert list(keys) == [old]
    assert keys.trouble().endswith(f"{folder}: Permission denied")
    monkeypatch.undo()
    (folder / "1.key").unlink()
    folder.rmdir()
    assert list(keys) == [old]
    with pytest.raises(UsageError):
        LiveHpkeKeys([folder])
