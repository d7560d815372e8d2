"""Collection messages of DAP-18: Collector to Leader, Leader to Helper, and the AAD of the results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.messages.basic import (
    BATCH_ID_SIZE,
    CHECKSUM_SIZE,
    INTERVAL_SIZE,
    BatchMode,
    Extension,
    HpkeCiphertext,
    Interval,
)
from tacit.messages.struct import Struct, join, member, require_size


class CollectionJobExtension(Extension):
    """An extension of a collection job; DAP-18 registers none."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Query(Struct):
    """Which batch the Collector wants. Make one with ``time_interval`` or ``leader_selected``."""

    batch_mode: BatchMode
    config: bytes

    @classmethod
    def time_interval(cls, interval: Interval) -> Self:
        """All reports with a time in ``interval``."""
        return cls(BatchMode.TIME_INTERVAL, interval.encode())

    @classmethod
    def leader_selected(cls) -> Self:
        """The next batch that the Leader has ready."""
        return cls(BatchMode.LEADER_SELECTED, b"")

    @property
    def interval(self) -> Interval:
        """Interval of a time-interval query; ``DecodeError`` in the other mode, and where it reaches past the last
        representable time, which is no malformed message but an invalid batch (DAP-18 section 4.6)."""
        return Interval.decode(self.config)

    def write(self, writer: Writer) -> None:
        writer.uint(self.batch_mode, 1).opaque(require_size(self.config, _QUERY_SIZE[self.batch_mode], "query"), 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(*_read_batch(reader, _QUERY_SIZE))


@dataclass(frozen=True, slots=True)
class BatchSelector(Struct):
    """Which batch the Leader means when it asks the Helper for its aggregate share."""

    batch_mode: BatchMode
    config: bytes

    @classmethod
    def time_interval(cls, interval: Interval) -> Self:
        """The buckets of ``interval``."""
        return cls(BatchMode.TIME_INTERVAL, interval.encode())

    @classmethod
    def leader_selected(cls, batch_id: bytes) -> Self:
        """The batch with this id (32 bytes)."""
        return cls(BatchMode.LEADER_SELECTED, batch_id)

    @property
    def interval(self) -> Interval:
        """Interval of a time-interval selector; ``DecodeError`` in the other mode."""
        return Interval.decode(self.config)

    @property
    def batch_id(self) -> bytes:
        """Batch id of a leader-selected selector (32 bytes); ``DecodeError`` in the other mode."""
        if self.batch_mode is not BatchMode.LEADER_SELECTED:
            raise DecodeError("a time-interval batch selector has no batch id")
        return self.config

    def write(self, writer: Writer) -> None:
        size = _SELECTOR_SIZE[self.batch_mode]
        writer.uint(self.batch_mode, 1).opaque(require_size(self.config, size, "batch selector"), 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(*_read_batch(reader, _SELECTOR_SIZE))


@dataclass(frozen=True, slots=True)
class CollectionJobReq(Struct):
    """The Collector's request. Its bytes are in the AAD of both aggregate shares."""

    query: Query
    agg_param: bytes = b""
    extensions: tuple[CollectionJobExtension, ...] = ()

    def write(self, writer: Writer) -> None:
        self.query.write(writer)
        writer.opaque(self.agg_param, 4).opaque(join(self.extensions), 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(Query.read(reader), reader.opaque(4), tuple(reader.vector(2, CollectionJobExtension.read)))


@dataclass(frozen=True, slots=True)
class CollectionJobResp(Struct):
    """The result: how many reports, the smallest interval that holds their times, and both sealed shares."""

    report_count: int
    interval: Interval
    leader_encrypted_agg_share: HpkeCiphertext
    helper_encrypted_agg_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        writer.uint(self.report_count, 8)
        self.interval.write(writer)
        self.leader_encrypted_agg_share.write(writer)
        self.helper_encrypted_agg_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.uint(8), Interval.read(reader), HpkeCiphertext.read(reader), HpkeCiphertext.read(reader))


@dataclass(frozen=True, slots=True)
class AggregateShareReq(Struct):
    """The Leader's request for the Helper's share: the Collector's request, the batch, and what the Leader
    counted. ``checksum`` is the XOR of SHA-256 over the batch's report ids."""

    collection_job_req: CollectionJobReq
    batch_selector: BatchSelector
    report_count: int
    checksum: bytes

    def write(self, writer: Writer) -> None:
        self.collection_job_req.write(writer)
        self.batch_selector.write(writer)
        writer.uint(self.report_count, 8).raw(require_size(self.checksum, CHECKSUM_SIZE, "checksum"))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            CollectionJobReq.read(reader),
            BatchSelector.read(reader),
            reader.uint(8),
            reader.raw(CHECKSUM_SIZE),
        )


@dataclass(frozen=True, slots=True)
class AggregateShare(Struct):
    """The Helper's aggregate share, sealed to the Collector."""

    encrypted_aggregate_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        self.encrypted_aggregate_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(HpkeCiphertext.read(reader))


_QUERY_SIZE = {BatchMode.TIME_INTERVAL: INTERVAL_SIZE, BatchMode.LEADER_SELECTED: 0}
_SELECTOR_SIZE = {BatchMode.TIME_INTERVAL: INTERVAL_SIZE, BatchMode.LEADER_SELECTED: BATCH_ID_SIZE}


def _read_batch(reader: Reader, sizes: dict[BatchMode, int]) -> tuple[BatchMode, bytes]:
    mode = member(BatchMode, reader.uint(1))
    config = reader.opaque(2, minimum=sizes[mode], maximum=sizes[mode])
    return mode, config
