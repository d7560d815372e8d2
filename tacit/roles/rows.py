"""Verified reports as columns: their out shares stay packed from verification to the aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import Self, TypeVar

from tacit.roles.aggregator import Party, Tally, bucket_of, checksum_of
from tacit.task import BatchClose, Task

Item = TypeVar("Item")


@dataclass(frozen=True)
class Rows:
    """Verified reports, in order. ``out_shares`` holds one encoded out share per report, ``times`` are in units of the
    task's precision."""

    report_ids: list[bytes]
    times: list[int]
    nullifiers: list[bytes] = field(repr=False)
    out_shares: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.report_ids)

    def keep(self, indices: Sequence[int]) -> Rows:
        """The reports at ``indices``, in their order."""
        return Rows(
            pick(self.report_ids, indices),
            pick(self.times, indices),
            pick(self.nullifiers, indices),
            pick_rows(self.out_shares, len(self), indices),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Rows:
        """All reports of ``parts``, in order."""
        return Rows(
            [report_id for part in parts for report_id in part.report_ids],
            [time for part in parts for time in part.times],
            [nullifier for part in parts for nullifier in part.nullifiers],
            b"".join([part.out_shares for part in parts]),
        )

    def buckets(self, task: Task, batch_id: bytes | None) -> list[bytes]:
        """The bucket in which each report counts. Raises ``ValueError`` where a leader-selected task has no batch."""
        if task.batch_close is BatchClose.ON_QUERY:
            return [bucket_of(task, batch_id, time) for time in self.times]
        return [bucket_of(task, batch_id, task.interval.start)] * len(self)

    def tallies(self, party: Party, batch_id: bytes | None) -> dict[bytes, Tally]:
        """What these reports add to each of their buckets; raises as ``buckets`` does."""
        if not len(self):
            return {}
        places: dict[bytes, list[int]] = {}
        for at, bucket in enumerate(self.buckets(party.task, batch_id)):
            places.setdefault(bucket, []).append(at)
        return {bucket: self.keep(indices)._tally(party) for bucket, indices in places.items()}

    def _tally(self, party: Party) -> Tally:
        return Tally(
            count=len(self),
            checksum=checksum_of(self.report_ids),
            first_time=min(self.times),
            last_time=max(self.times),
            agg_share=party.batch.aggregate(self.out_shares),
        )


def pick(items: list[Item], indices: Sequence[int]) -> list[Item]:
    """The items at ``indices``, in their order; ``items`` itself where these are all."""
    return items if is_all(indices, len(items)) else [items[at] for at in indices]


def pick_rows(data: bytes, rows: int, indices: Sequence[int]) -> bytes:
    """The pieces at ``indices`` of ``data``, which consists of ``rows`` pieces of equal size."""
    # nearly every job keeps all of its reports: then its out shares, megabytes, are not copied
    if is_all(indices, rows):
        return data
    size = len(data) // rows
    return b"".join([data[at * size : (at + 1) * size] for at in indices])


def is_all(indices: Sequence[int], count: int) -> bool:
    """Whether ``indices`` are 0 to ``count`` - 1 in order."""
    return len(indices) == count and all(map(eq, indices, range(count)))
