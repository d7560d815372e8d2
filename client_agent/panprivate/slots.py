"""A file of two slots of constant size: the newest content, and the one before it.

An update writes one whole slot in place, the older one, by one ``pwrite`` and one ``fdatasync``. The file never
grows, shrinks or moves; wherever the process dies, one slot is whole. There are no other pages: what an update
replaces is overwritten two updates later where the file system writes in place (ext4, xfs, FAT; copy-on-write file
systems, snapshots and the wear levelling of flash memory keep older ones).

Every slot carries a number that grows with every update and the SHA-256 of all of it. That finds accidents; whoever can
write to the file can write another content.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from pathlib import Path
from typing import NamedTuple, Protocol

from tacit.adapters.disk.files import sync_folder
from tacit.errors import DecodeError, Fatal, UsageError
from tacit.ports import Entropy

PAGE = 4096
"""Bytes of a page. A slot consists of whole pages, so no page holds bytes of both slots."""
MAX_BYTES = 1 << 20
"""Largest size of a file in bytes; no state is that large."""
_HEAD = struct.Struct(">16sII")
_MAGIC = b"tacit pan state1"
_CHECK = hashlib.sha256().digest_size


class Disk(Protocol):
    """The system calls of an update, each called once."""

    def write(self, file: int, data: bytes, at: int) -> int:
        """Write ``data`` at offset ``at``, as ``os.pwrite`` does."""
        ...

    def sync(self, file: int) -> None:
        """Sync the file's data to the disk, as ``os.fdatasync`` does."""
        ...


class OsDisk:
    """The system calls themselves."""

    def write(self, file: int, data: bytes, at: int) -> int:
        return os.pwrite(file, data, at)

    def sync(self, file: int) -> None:
        os.fdatasync(file)


OS_DISK: Disk = OsDisk()


class Content(NamedTuple):
    """Content of a slot; ``number`` (below 2^32) increases with every update."""

    number: int
    payload: bytes


def slot_size(payload: int) -> int:
    """Bytes of a slot for ``payload`` bytes of payload: with head and hash, rounded up to whole pages."""
    return -(-(_HEAD.size + payload + _CHECK) // PAGE) * PAGE


def encode_slot(content: Content) -> bytes:
    """The bytes of the slot: head, payload, SHA-256 of both, and zeros up to ``slot_size``."""
    held = _HEAD.pack(_MAGIC, content.number, len(content.payload)) + content.payload
    return (held + hashlib.sha256(held).digest()).ljust(slot_size(len(content.payload)), b"\0")


def decode_slot(slot: bytes) -> Content | None:
    """The content of a slot of whole pages; ``None`` if the slot is damaged."""
    magic, number, length = _HEAD.unpack_from(slot)
    end = _HEAD.size + length
    if magic != _MAGIC or slot_size(length) != len(slot):
        return None
    if slot[end : end + _CHECK] != hashlib.sha256(slot[:end]).digest() or any(slot[end + _CHECK :]):
        return None
    return Content(number, slot[_HEAD.size : end])


def newest(path: Path) -> Content:
    """The newest intact slot of the file, also while another process writes to it. Raises ``DecodeError`` if there is
    none, and ``OSError``."""
    with path.open("rb") as file:
        return _newest(file.read(MAX_BYTES + 1))


def _newest(data: bytes) -> Content:
    size, odd = divmod(len(data), 2)
    if odd or not size or size % PAGE or len(data) > MAX_BYTES:
        raise DecodeError(f"it has {len(data)} bytes, which no state has")
    whole = [content for at in (0, size) if (content := decode_slot(data[at : at + size]))]
    if not whole:
        raise DecodeError("neither of its slots is whole")
    return max(whole, key=lambda content: content.number)


class Kept(Protocol):
    """Where the newest content of one state is kept."""

    @property
    def content(self) -> Content:
        """The content that was written last."""
        ...

    @property
    def path(self) -> Path:
        """The file's path, for messages."""
        ...

    @property
    def file_size(self) -> int:
        """The file's size in bytes, which is constant."""
        ...

    def write(self, content: Content) -> None:
        """Replace the older content. Raises ``Fatal`` if the disk does not accept it."""
        ...

    def erase(self, entropy: Entropy) -> None:
        """Delete all content for good. Raises ``OSError``."""
        ...

    def close(self) -> None:
        """Release the file to other processes."""
        ...


class InMemory:
    """Content without a file: it is lost with the process."""

    __slots__ = ("content", "path")

    def __init__(self, content: Content, path: Path) -> None:
        self.content, self.path = content, path

    @property
    def file_size(self) -> int:
        """0, since there is no file."""
        return 0

    def write(self, content: Content) -> None:
        self.content = content

    def erase(self, entropy: Entropy) -> None:
        """Drop the state and keep its number."""
        self.content = Content(self.content.number, b"")

    def close(self) -> None:
        """Does nothing: there is no open file."""


class Slots:
    """An open file that only this process writes to."""

    __slots__ = ("_disk", "_file", "_older", "_size", "content", "path")

    def __init__(self, file: int, path: Path, disk: Disk) -> None:
        self._file, self._disk, self.path = file, disk, path
        data = os.pread(file, MAX_BYTES + 1, 0)
        content = _newest(data)
        self.content = content
        self._size = len(data) // 2
        self._older = int(decode_slot(data[: self._size]) == content)

    @classmethod
    def make(cls, path: Path, first: Content, second: Content) -> None:
        """Make the file atomically, with mode 0600, in a folder of mode 0700. Raises ``OSError``."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, encode_slot(first) + encode_slot(second))
            os.fsync(file)
        finally:
            os.close(file)
        draft.replace(path)
        sync_folder(path.parent)

    @classmethod
    def open(cls, path: Path, disk: Disk = OS_DISK) -> Slots:
        """Open the file. Raises ``UsageError`` if another process holds it, ``DecodeError`` if no slot is intact, and
        ``OSError``."""
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _lock(file, path)
            return cls(file, path, disk)
        except BaseException:
            os.close(file)
            raise

    @property
    def file_size(self) -> int:
        """Size of the whole file in bytes, which is constant."""
        return 2 * self._size

    def write(self, content: Content) -> None:
        """Replace the older slot. Raises ``Fatal`` if the disk does not accept it: the newest one is still there.
        Raises ``ValueError`` for a payload of another size, and for a number that is not above the last one."""
        slot = encode_slot(content)
        if len(slot) != self._size or content.number <= self.content.number:
            raise ValueError("an update has the size of the last one and a greater number")
        try:
            written = self._disk.write(self._file, slot, self._older * self._size)
            self._disk.sync(self._file)
        except OSError as error:
            raise Fatal(f"{self.path}: {error.strerror}") from error
        if written != self._size:
            raise Fatal(f"{self.path}: written in part")
        self.content, self._older = content, 1 - self._older

    def erase(self, entropy: Entropy) -> None:
        """Overwrite both slots, and remove the file."""
        try:
            _overwrite(self._file, self.file_size, entropy)
        finally:
            self.close()
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    def close(self) -> None:
        """Release the file to other processes."""
        os.close(self._file)


def erase_file(path: Path, entropy: Entropy) -> None:
    """``erase`` for a file that no process has open, whatever it holds; does nothing if there is none. Raises
    ``OSError``."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        _overwrite(file, min(os.fstat(file).st_size, MAX_BYTES), entropy)
    finally:
        os.close(file)
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def _overwrite(file: int, size: int, entropy: Entropy) -> None:
    os.pwrite(file, entropy(size), 0)
    os.fsync(file)


def _lock(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UsageError(f"{path}: another process keeps this state; stop it first") from error
