"""Basic types of DAP-18: ids, roles, times, intervals, HPKE configurations and ciphertexts.

Ids are plain ``bytes`` of fixed length. ``Time`` and ``Duration`` are plain ``int`` in multiples of the
task's ``time_precision``, never seconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Self

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.messages.struct import Struct, join, require_nonempty

TASK_ID_SIZE = 32
REPORT_ID_SIZE = 16
BATCH_ID_SIZE = 32
JOB_ID_SIZE = 16
CHECKSUM_SIZE = 32
INTERVAL_SIZE = 16

_UINT64_MAX = (1 << 64) - 1


class Role(enum.IntEnum):
    """Party of a DAP task; its number is part of the HPKE info strings."""

    COLLECTOR = 0
    CLIENT = 1
    LEADER = 2
    HELPER = 3


class BatchMode(enum.IntEnum):
    """The DAP batch mode: how reports are put into batches."""

    TIME_INTERVAL = 1
    LEADER_SELECTED = 2


@dataclass(frozen=True, slots=True)
class Interval(Struct):
    """Half-open span ``[start, start + duration)`` in units of the time precision. One that is written or read never
    reaches past 2^64 - 1."""

    start: int
    duration: int

    @property
    def end(self) -> int:
        """First time after the interval."""
        return self.start + self.duration

    def contains(self, time: int) -> bool:
        """Whether ``time`` lies in the interval, to which ``end`` does not belong."""
        return self.start <= time < self.end

    def covers(self, other: Interval) -> bool:
        """Whether ``other`` lies inside this interval."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: Interval) -> bool:
        """Whether each begins before the other ends: if neither is empty, whether they share any time."""
        return self.start < other.end and other.start < self.end

    def write(self, writer: Writer) -> None:
        if self.end > _UINT64_MAX:
            raise ValueError("interval ends past the last representable time")
        writer.uint(self.start, 8).uint(self.duration, 8)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        interval = cls(reader.uint(8), reader.uint(8))
        if interval.end > _UINT64_MAX:
            raise DecodeError("interval ends past the last representable time")
        return interval


@dataclass(frozen=True, slots=True)
class Extension(Struct):
    """A report extension. The same struct carries aggregation-job, collection-job and task extensions, which
    differ only in whose registry the type comes from."""

    extension_type: int
    extension_data: bytes = field(repr=False)

    def write(self, writer: Writer) -> None:
        writer.uint(self.extension_type, 2).opaque(self.extension_data, 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.uint(2), reader.opaque(2))


@dataclass(frozen=True, slots=True)
class HpkeConfig(Struct):
    """A public key to which input shares or aggregate shares are sealed. Suites that this implementation does not
    support still decode."""

    id: int
    kem_id: int
    kdf_id: int
    aead_id: int
    public_key: bytes

    def write(self, writer: Writer) -> None:
        writer.uint(self.id, 1).uint(self.kem_id, 2).uint(self.kdf_id, 2).uint(self.aead_id, 2)
        writer.opaque(require_nonempty(self.public_key, "public key"), 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.uint(1), reader.uint(2), reader.uint(2), reader.uint(2), reader.opaque(2, minimum=1))


@dataclass(frozen=True, slots=True)
class HpkeConfigList(Struct):
    """Answer of ``/hpke_config``: configurations in decreasing preference, their ids distinct."""

    configs: tuple[HpkeConfig, ...]

    def write(self, writer: Writer) -> None:
        if not self.configs or not _distinct(self.configs):
            raise ValueError("an HPKE configuration list needs distinct ids and at least one entry")
        writer.opaque(join(self.configs), 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        configs = tuple(reader.vector(2, HpkeConfig.read, minimum=10))
        if not _distinct(configs):
            raise DecodeError("HPKE configuration list repeats an id")
        return cls(configs)


@dataclass(frozen=True, slots=True)
class HpkeCiphertext(Struct):
    """Output of single-shot HPKE: ``enc`` is the encapsulated key, ``payload`` ciphertext and tag."""

    config_id: int
    enc: bytes = field(repr=False)
    payload: bytes = field(repr=False)

    def write(self, writer: Writer) -> None:
        writer.uint(self.config_id, 1)
        writer.opaque(require_nonempty(self.enc, "encapsulated key"), 2).opaque(
            require_nonempty(self.payload, "ciphertext"), 4
        )

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.uint(1), reader.opaque(2, minimum=1), reader.opaque(4, minimum=1))


def _distinct(configs: tuple[HpkeConfig, ...]) -> bool:
    return len({config.id for config in configs}) == len(configs)
