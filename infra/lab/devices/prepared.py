"""Contributions on disk, made before a load test so that the test does not include the devices' work.

File (mode 0600; big-endian): header, one frame per contribution, one last frame with the totals. A frame is a length of
four bytes, a type byte and its content; a file without its last frame was cut off. Reports are kept as they go into
the upload request, not encapsulated: every send needs a fresh OHTTP encapsulation, which the gateway accepts only once
and only if its date is within a few minutes of the gateway's clock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from infra.lab.devices.additions import read_addition, write_addition
from infra.lab.devices.contributions import Contribution
from infra.lab.devices.faults import Fault
from tacit.codec import Reader, Writer
from tacit.errors import DecodeError, UsageError

MAGIC = b"TACITFP2"
HASH_SIZE = 32
HEADER_SIZE = len(MAGIC) + HASH_SIZE + 8 + 8 + 8 + 1
MAX_FRAME = 1 << 20
"""Bytes of the largest frame: an upload of one report is far below the leader's own limit."""
MAX_DEVICES = 1 << 32
_CONTRIBUTION, _TOTALS = 1, 2
_WHAT = "prepared contribution"


@dataclass(frozen=True)
class PreparedHeader:
    """What the contributions are for. ``send_at`` is the POSIX second from which their reports are dated, ``direct``
    whether their tokens were signed with the issuer's key instead of being issued."""

    recipe_hash: bytes
    first: int
    devices: int
    send_at: int
    direct: bool

    def encode(self) -> bytes:
        """The header of 65 bytes: magic, recipe hash, and big-endian numbers in the order of the members."""
        writer = Writer().raw(MAGIC).raw(self.recipe_hash).uint(self.first, 8).uint(self.devices, 8)
        return writer.uint(self.send_at, 8).uint(self.direct, 1).bytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Strict inverse of ``encode``. Raises ``DecodeError``."""
        reader = Reader(data, "prepared file's header")
        if reader.raw(len(MAGIC)) != MAGIC:
            raise DecodeError("not a file of prepared contributions of this version")
        recipe_hash, first, devices = reader.raw(HASH_SIZE), reader.uint(8), reader.uint(8)
        send_at, direct = reader.uint(8), reader.uint(1)
        reader.end()
        if direct > 1 or first + devices > MAX_DEVICES:
            raise DecodeError("prepared file's header is out of range")
        return cls(recipe_hash, first, devices, send_at, bool(direct))


@dataclass(frozen=True)
class Totals:
    """The numbers in the last frame: contributions in the file, devices that were sampled but have none (no token), and
    devices whose randomised answer lies beyond the weight bound."""

    contributions: int
    without_token: int = 0
    beyond: int = 0

    def encode(self) -> bytes:
        """The content of the last frame."""
        return Writer().uint(self.contributions, 8).uint(self.without_token, 8).uint(self.beyond, 8).bytes()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Strict inverse of ``encode``. Raises ``DecodeError``."""
        reader = Reader(data, "prepared file's totals")
        totals = cls(reader.uint(8), reader.uint(8), reader.uint(8))
        reader.end()
        return totals


def encode_contribution(contribution: Contribution) -> bytes:
    """Device (4 bytes), fault (1 byte), addition and body of a contribution, as they are framed."""
    writer = Writer().uint(contribution.device, 4).uint(contribution.fault, 1)
    return write_addition(writer, contribution.adds).opaque(contribution.body, 4).bytes()


def decode_contribution(data: bytes) -> Contribution:
    """Strict inverse of ``encode_contribution``. Raises ``DecodeError``."""
    reader = Reader(data, _WHAT)
    device, number = reader.uint(4), reader.uint(1)
    try:
        fault = Fault(number)
    except ValueError as error:
        raise DecodeError("a prepared contribution has a fault of another version") from error
    adds = read_addition(reader)
    body = reader.opaque(4, minimum=1)
    reader.end()
    return Contribution(device, fault, adds, body)


class PreparedWriter:
    """Writes one file, or one shard's part of it. A context manager: what was written is durable at its end."""

    def __init__(self, path: Path) -> None:
        """Raises ``UsageError`` if the file exists or cannot be created."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file: BinaryIO = os.fdopen(os.open(path, flags, 0o600), "wb")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or 'cannot be created'}") from error
        self.contributions = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._file.flush()
                os.fsync(self._file.fileno())

    def header(self, header: PreparedHeader) -> None:
        """Write the header, which comes first in the file."""
        self._file.write(header.encode())

    def write(self, contributions: Sequence[Contribution]) -> None:
        """Append one frame per contribution. Raises ``UsageError`` if the disk is full."""
        for contribution in contributions:
            self._frame(_CONTRIBUTION, encode_contribution(contribution))
        self.contributions += len(contributions)

    def append(self, part: Path) -> None:
        """Append the frames of ``part``, which was written without a header; ``contributions`` stays as it is."""
        with part.open("rb") as source:
            shutil.copyfileobj(source, self._file, 1 << 20)

    def finish(self, totals: Totals) -> None:
        """Write the last frame, which holds ``totals``."""
        self._frame(_TOTALS, totals.encode())

    def _frame(self, kind: int, content: bytes) -> None:
        if len(content) >= MAX_FRAME:
            raise ValueError("a frame of prepared contributions is too large")
        try:
            self._file.write(Writer().uint(len(content) + 1, 4).uint(kind, 1).raw(content).bytes())
        except OSError as error:
            raise UsageError(f"prepared contributions: {error.strerror or 'cannot be written'}") from error


def read_header(path: Path) -> PreparedHeader:
    """Read the header. Raises ``UsageError`` or ``DecodeError``."""
    with _opened(path) as file:
        return PreparedHeader.decode(file.read(HEADER_SIZE))


def read_totals(path: Path) -> Totals:
    """Read the totals after a walk over the heads of all frames, which also proves that the file is whole. Raises
    ``UsageError`` or ``DecodeError``."""
    found: list[Totals] = []
    contributions = 0
    with _opened(path) as file:
        PreparedHeader.decode(file.read(HEADER_SIZE))
        for kind, size in _heads(file):
            if found:
                raise DecodeError("a prepared file goes on after its totals")
            if kind == _TOTALS:
                found.append(Totals.decode(_exactly(file, size)))
            else:
                contributions += 1
                file.seek(size, os.SEEK_CUR)
    if not found or found[0].contributions != contributions:
        raise DecodeError("the prepared file was cut off; prepare it again")
    return found[0]


def read_contributions(path: Path, shard: int = 0, shards: int = 1) -> Iterator[Contribution]:
    """Yield every ``shards``-th contribution from number ``shard``. Raises ``UsageError`` or ``DecodeError``."""
    with _opened(path) as file:
        PreparedHeader.decode(file.read(HEADER_SIZE))
        for number, (kind, size) in enumerate(_heads(file)):
            if kind == _TOTALS:
                Totals.decode(_exactly(file, size))
                return
            if number % shards == shard:
                yield decode_contribution(_exactly(file, size))
            else:
                file.seek(size, os.SEEK_CUR)
    raise DecodeError("the prepared file was cut off; prepare it again")


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error


def _heads(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield type and size of each frame; the caller must read or skip its content before the next one."""
    while head := file.read(5):
        if len(head) < 5:
            raise DecodeError("the prepared file was cut off; prepare it again")
        size, kind = int.from_bytes(head[:4], "big"), head[4]
        if not 1 <= size <= MAX_FRAME or kind not in (_CONTRIBUTION, _TOTALS):
            raise DecodeError("a frame of the prepared file is malformed")
        yield kind, size - 1


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise DecodeError("the prepared file was cut off; prepare it again")
    return data
