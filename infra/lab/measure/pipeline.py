"""One task of noise shares from measurements to released sums, with all parties in this process.

Reports go through ``BatchProver``, both aggregators' ``BatchVerifier``, the helper's answer to the leader, tallies,
sealed aggregate shares and the collector's ``open_collection``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from infra.lab.kit.aggregators import party_of
from infra.lab.kit.reports import make_task_kit
from tacit.errors import Fatal
from tacit.messages import REPORT_ID_SIZE, CollectionJobResp, Interval, Role
from tacit.methods.flips import Flips
from tacit.ports import Entropy
from tacit.roles.aggregator import Tally, merge
from tacit.roles.collector import AggregateResult, collection_request, open_collection
from tacit.roles.jobs import HelperJob, LeaderJob, finish_leader
from tacit.roles.rows import Rows
from tacit.task import seal_aggregate_share
from tacit.vdaf.chunks import chunk_length_for
from tacit.vdaf.native.batch import BatchProver, VerifiedBatch
from tacit.vdaf.prio3 import Prio3SumVec

BATCH = 512
"""Number of reports that are processed together."""
Tallies = tuple[Tally, Tally]
"""The tallies of leader and helper."""


class Pipeline:
    """Leader, helper and collector of one task for the measurements of ``shares``, with keys of their own."""

    def __init__(self, shares: Flips) -> None:
        bits = shares.cells * shares.largest.bit_length()
        vdaf = Prio3SumVec(2, shares.cells, shares.largest, chunk_length_for(bits))
        self._kit = make_task_kit(vdaf, min_batch_size=1, seed=os.urandom(32))
        self._task = self._kit.task
        self._parties = {role: party_of(self._kit, role) for role in (Role.LEADER, Role.HELPER)}
        self._prover = BatchProver(vdaf, self._task.ctx)

    def released(self, measurements: Sequence[Any], entropy: Entropy) -> AggregateResult:
        """Shard, verify and add up ``measurements`` (``shares.cells`` numbers each); returns what the collector opens.
        Raises ``Fatal`` if a report is rejected, or if nobody takes part."""
        tallies = [self._job(measurements[at : at + BATCH], entropy) for at in range(0, len(measurements), BATCH)]
        return self._collected(tallies, entropy)

    def _job(self, measurements: Sequence[Any], entropy: Entropy) -> Tallies:
        """Shard ``measurements``, verify them and add them up at both aggregators."""
        count, rand_size = len(measurements), self._task.vdaf.RAND_SIZE
        ids, rands = (_pieces(entropy(size * count), size) for size in (REPORT_ID_SIZE, rand_size))
        public, leader, helper = zip(*self._prover.shard(measurements, ids, rands), strict=True)
        led = self._parties[Role.LEADER].batch.leader(ids, public, leader)
        helped = self._parties[Role.HELPER].batch.helper(ids, public, helper, led.outbounds)
        answer = HelperJob(ids, self._rows(ids, helped), helped.outbounds, []).respond({})
        accepted, rejections = finish_leader(LeaderJob(self._rows(ids, led), led.outbounds, led.seeds), answer)
        if rejections:
            raise Fatal("a report of the measurement was rejected by the leader")
        return self._tally(Role.LEADER, accepted), self._tally(Role.HELPER, self._rows(ids, helped))

    def _rows(self, ids: list[bytes], batch: VerifiedBatch) -> Rows:
        if any(batch.errors):
            raise Fatal("a report of the measurement did not verify")
        return Rows(ids, [self._task.interval.start] * len(ids), [b""] * len(ids), batch.out_shares)

    def _tally(self, role: Role, rows: Rows) -> Tally:
        (tally,) = rows.tallies(self._parties[role], None).values()
        return tally

    def _collected(self, tallies: Sequence[Tallies], entropy: Entropy) -> AggregateResult:
        task = self._task
        request = collection_request(task)
        sealed = []
        for role, of_role in zip((Role.LEADER, Role.HELPER), zip(*tallies, strict=True), strict=True):
            tally = merge(task, of_role)
            if tally is None:
                raise Fatal("nobody took part in a run of the measurement")
            sealed.append(seal_aggregate_share(task, role, request.encode(), tally.agg_share, entropy))
        count = sum(leader.count for leader, _ in tallies)
        response = CollectionJobResp(count, Interval(task.interval.start, 1), *sealed)
        return open_collection(task, self._kit.key_pairs[Role.COLLECTOR], request, response)


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
