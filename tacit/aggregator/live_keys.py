"""The HPKE keys of a running party, from files that are read again when they change: a new key beside the old ones is
adopted without a restart.

Each use of a key tests whether the files are still the same, by name, inode, size and times. Files that cannot be used
leave the keys as they were; the health check shows the reason until they are repaired. A key whose file was removed
opens nothing new; tasks that started with it keep it until the process ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

from tacit.aggregator.keys import HpkeKey, read_hpke_keys
from tacit.errors import UsageError

_State = tuple[tuple[str, int, int, int] | None, ...]


class LiveHpkeKeys(Sequence[HpkeKey]):
    """The keys of ``paths``, each a file, or a folder of files of which the last by name is the preferred one; names
    that begin with a dot are ignored. The preferred key of all comes first. Raises ``UsageError`` where they cannot be
    used at start."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._seen = self._state()
        self._keys = read_hpke_keys(self._files())
        self._trouble = ""

    def current(self) -> tuple[HpkeKey, ...]:
        """The newest keys that could be read."""
        state = self._state()
        if state != self._seen:
            self._seen = state
            try:
                self._keys, self._trouble = read_hpke_keys(self._files()), ""
            except (UsageError, OSError) as error:
                why = error if isinstance(error, UsageError) else f"{error.filename}: {error.strerror}"
                self._trouble = f"HPKE keys: the new files cannot be used, the old ones stay in use: {why}"
        return self._keys

    def trouble(self) -> str:
        """The problem with the files, after checking them again."""
        self.current()
        return self._trouble

    @overload
    def __getitem__(self, place: int) -> HpkeKey: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[HpkeKey, ...]: ...
    def __getitem__(self, place: int | slice) -> HpkeKey | tuple[HpkeKey, ...]:
        return self.current()[place]

    def __len__(self) -> int:
        return len(self.current())

    def __iter__(self) -> Iterator[HpkeKey]:
        return iter(self.current())

    def _files(self) -> list[Path]:
        files: list[Path] = []
        for path in self._paths:
            if path.is_dir():
                files += sorted((one for one in path.iterdir() if not one.name.startswith(".")), reverse=True)
            else:
                files.append(path)
        return files

    def _state(self) -> _State:
        try:
            return tuple(_state_of(path) for path in self._files())
        except OSError:
            return (None,)


def _state_of(path: Path) -> tuple[str, int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns
