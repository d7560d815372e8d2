"""Prepared reports of a DAP task without tokens, made a chunk ahead of those that are sent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from tacit.errors import UsageError
from tacit.messages import REPORT_ID_SIZE, PlaintextInputShare, ReportMetadata, Role, UploadRequest
from tacit.roles.client import seal_report
from tacit.task import Task
from tacit.vdaf.native.batch import BatchProver
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram

CHUNK = 128


@dataclass
class Prepared:
    """Reports of a task of Prio3Count or Prio3Histogram; ``sums``: the aggregate of those made so far."""

    task: Task
    sums: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.task.vdaf, Prio3Count | Prio3Histogram):
            raise UsageError("reports are made for Prio3Count and Prio3Histogram")
        self._prover = BatchProver(self.task.vdaf, self.task.ctx)
        self.sums = [0] * self.task.vdaf.flp.OUTPUT_LEN

    async def uploads(self, count: int) -> AsyncIterator[bytes]:
        """Yield the bodies of ``count`` uploads of one report each, dated now."""
        sizes = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
        ahead = asyncio.ensure_future(asyncio.to_thread(self._make, sizes[0]))
        for following in [*sizes[1:], 0]:
            bodies = await ahead
            ahead = asyncio.ensure_future(asyncio.to_thread(self._make, following))
            for body in bodies:
                yield body
        await ahead

    def _make(self, count: int) -> list[bytes]:
        task, size = self.task, self.task.vdaf.RAND_SIZE
        ids = [os.urandom(REPORT_ID_SIZE) for _ in range(count)]
        answers = self._answers(count)
        made = self._prover.shard(answers, ids, [os.urandom(size) for _ in ids]) if count else []
        now, bodies = task.report_time(time.time()), []
        for report_id, (public_share, leader, helper) in zip(ids, made, strict=True):
            shares = {
                role: PlaintextInputShare((), payload)
                for role, payload in ((Role.LEADER, leader), (Role.HELPER, helper))
            }
            report = seal_report(task, ReportMetadata(report_id, now), public_share, shares, os.urandom)
            bodies.append(UploadRequest((report,)).encode())
        return bodies

    def _answers(self, count: int) -> Sequence[int]:
        """Draw answers, and add them to the sums."""
        if isinstance(self.task.vdaf, Prio3Count):
            bits = [byte & 1 for byte in os.urandom(count)]
            self.sums[0] += sum(bits)
            return bits
        places = [int.from_bytes(os.urandom(4)) % len(self.sums) for _ in range(count)]
        for place in places:
            self.sums[place] += 1
        return places
