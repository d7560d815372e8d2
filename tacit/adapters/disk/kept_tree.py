"""A log's tree in a folder, for readers of logs that are larger than memory; same interface as
``tacit.tlog.log.MemoryTree``.

One file holds the entries one after another, a second one the offset where each ends, and one file per level the hashes
of that level; all records have a fixed width, so an index gives the offset. Nothing in the folder is trusted. A tree
that is opened again must lead to the root that its reader verified, an entry is hashed again whenever it is read, and
files that do not fit are emptied: everything can be read again from the log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, overload

from tacit.errors import Fatal
from tacit.tlog.log import nodes_of_append
from tacit.tlog.merkle import HASH_SIZE, leaf_hash, root_hash

WAITING_BYTES: Final = 1 << 18
"""Bytes of one file kept in memory before they are written."""
_PLACE: Final = 8
LEVELS: Final = 48


class FileTree:
    """The tree in ``folder``, used by one process. ``close`` it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._text = _File(folder / "entries", 1)
        self._ends = _File(folder / "ends", _PLACE)
        self._levels = [_File(folder / f"level-{level:02d}", HASH_SIZE) for level in range(LEVELS)]
        self._durable = _File(folder / "durable", _PLACE)
        self.entries: Sequence[bytes] = _Entries(self)
        self.cut(int.from_bytes(self._durable.at(0), "big") if self._durable.count else 0)

    @property
    def size(self) -> int:
        """Number of entries in the tree, those not yet synced included."""
        return self._ends.count

    def read(self, level: int, index: int) -> bytes:
        """Hash of a perfect subtree that is in the tree."""
        return self._levels[level].at(index)

    def root(self, size: int | None = None) -> bytes:
        """Root of the first ``size`` entries (default: all)."""
        return root_hash(self.read, self.size if size is None else size)

    def append(self, entry: bytes) -> int:
        """Add an entry, which is durable only after ``sync``; returns its index, counted from 0."""
        index = self.size
        for node in nodes_of_append(self.read, index, entry):
            self._levels[node.level].append(node.hash)
        self._text.append(entry)
        self._ends.append(self._text.count.to_bytes(_PLACE, "big"))
        return index

    def entry(self, index: int) -> bytes:
        """One entry. Raises ``IndexError``, and ``Fatal`` where the disk does not hold what was written."""
        if not 0 <= index < self.size:
            raise IndexError(index)
        start = self._end(index - 1) if index else 0
        found = self._text.span(start, max(0, self._end(index) - start))
        if leaf_hash(found) != self.read(0, index):
            raise Fatal("the stored copy of the log has changed on the disk; remove the folder and start again")
        return found

    def clear(self) -> None:
        """Remove every entry from the tree and its files."""
        self.cut(0)

    def cut(self, size: int) -> None:
        """Forget everything after ``size`` entries; everything where there are fewer entries than that."""
        if size > self.size or any(one.count < size >> level for level, one in enumerate(self._levels)):
            size = 0
        length = self._end(size - 1) if size else 0
        if length > self._text.count:
            size = length = 0
        self._text.cut(length)
        self._ends.cut(size)
        for level, one in enumerate(self._levels):
            one.cut(size >> level)

    def sync(self) -> None:
        """Make everything durable on the disk; what is not synced is discarded when the folder is opened again."""
        for one in (self._text, self._ends, *self._levels):
            one.sync()
        self._durable.cut(0)
        self._durable.append(self.size.to_bytes(_PLACE, "big"))
        self._durable.sync()

    def close(self) -> None:
        for one in (self._text, self._ends, *self._levels, self._durable):
            one.close()

    def _end(self, index: int) -> int:
        return int.from_bytes(self._ends.at(index), "big")


class _Entries(Sequence[bytes]):
    """The entries of a tree, read on demand."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree

    def __len__(self) -> int:
        return self._tree.size

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self._tree.entry(one) for one in range(*index.indices(len(self)))]
        return self._tree.entry(index + len(self) if index < 0 else index)

    def __iter__(self) -> Iterator[bytes]:
        return map(self._tree.entry, range(len(self)))


class _File:
    """Records of one width, one after another; the newest stay in memory until there are enough to write. Threads may
    read while one writes."""

    def __init__(self, path: Path, width: int) -> None:
        self._width = width
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._written = os.fstat(self._file).st_size
        self._waiting = bytearray()
        self._dirty = False
        self._moving = threading.Lock()
        """Held by whoever reads both the written and the waiting records."""

    @property
    def count(self) -> int:
        """Number of whole records, those not yet written included."""
        with self._moving:
            return (self._written + len(self._waiting)) // self._width

    def append(self, record: bytes) -> None:
        """Append a record; with width 1, several."""
        with self._moving:
            self._waiting += record
            self._dirty = True
            if len(self._waiting) >= WAITING_BYTES:
                self._flush()

    def at(self, index: int) -> bytes:
        """One record. Raises ``KeyError`` where there is none."""
        found = self.span(index * self._width, self._width)
        if index < 0 or len(found) != self._width:
            raise KeyError(index)
        return found

    def span(self, start: int, length: int) -> bytes:
        """Bytes from ``start`` on, fewer where the file ends."""
        with self._moving:
            found = b""
            if start < self._written:
                found = os.pread(self._file, min(length, self._written - start), start)
                start, length = self._written, length - len(found)
            begin = start - self._written
            return found + self._waiting[begin : begin + length] if length else found

    def cut(self, count: int) -> None:
        """Keep only the first ``count`` records."""
        if count == self.count:
            return
        with self._moving:
            self._flush()
            self._written = min(self._written, count * self._width)
            os.ftruncate(self._file, self._written)
            self._dirty = True

    def sync(self) -> None:
        """Sync the file to the disk, if it changed since the last sync."""
        with self._moving:
            if not self._dirty:
                return
            self._flush()
            self._dirty = False
        try:
            os.fsync(self._file)
        except OSError:
            self._dirty = True
            raise

    def close(self) -> None:
        """Close the file and discard what was not written yet."""
        os.close(self._file)

    def _flush(self) -> None:
        while self._waiting:
            done = os.pwrite(self._file, self._waiting, self._written)
            self._written += done
            del self._waiting[:done]
