"""What the Leader's smaller parts ask of the store; those that decide work on ``LeaderTx`` itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from services.leader.records import JobRow


class RoomTx(Protocol):
    """What ``Room`` asks of a transaction."""

    async def pending_summary(self, task_id: bytes) -> tuple[int, float | None]:
        """How many reports of a task have no job, and since when the oldest."""
        ...


class LeasesTx(Protocol):
    """What ``Workers`` ask of a transaction: jobs to take, to keep and to give back."""

    async def due_jobs(self, now: float, limit: int, other_than: Collection[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """(job id, task id) of jobs that a worker may take, of tasks ``other_than`` these, the longest due first."""
        ...

    async def claim_jobs(self, job_ids: Collection[bytes], now: float, holder: int, until: float) -> list[JobRow]:
        """Take those of ``job_ids`` that are still due and that no other process takes at this moment."""
        ...

    async def renew_leases(self, job_ids: Collection[bytes], holder: int, until: float) -> None:
        """Keep those of ``job_ids`` that ``holder`` still has for longer."""
        ...

    async def expire_lease(self, job: JobRow, now: float, cause: str) -> None:
        """A formed job could not be prepared: as if its worker had died."""
        ...

    async def free_leases(self, holder: int) -> None:
        """Give every job of ``holder`` back, as it was before it was taken."""
        ...
