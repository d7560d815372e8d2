"""What the Helper asks of whatever keeps its state."""

from __future__ import annotations

from typing import Protocol

from tacit.aggregator.ports import DecidingTx, ReleasingTx, StatusTx


class HelperTx(DecidingTx, ReleasingTx, StatusTx, Protocol):
    """What the Helper asks of a transaction."""

    async def begin_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Take an aggregation job; False if another transaction has answered it. Waits for one that is about to."""
        ...

    async def job_response(self, task_id: bytes, job_id: bytes) -> bytes | None:
        """The response of an aggregation job, as it was given."""
        ...

    async def end_job(self, job_id: bytes, response: bytes) -> None:
        """Keep the response, which is not empty, of a job that this transaction took. Raises ``Fatal`` for one that it
        did not take, or that has a response."""
        ...

    async def drop_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Forget a response; what was decided about its reports stays. False if there was none."""
        ...

    async def job_count(self, task_id: bytes) -> int:
        """Aggregation jobs whose response is kept."""
        ...

    async def share_response(self, task_id: bytes, share_id: bytes) -> bytes | None:
        """The aggregate share as it was given."""
        ...

    async def put_share(self, task_id: bytes, share_id: bytes, response: bytes) -> None:
        """Keep an aggregate share's answer."""
        ...

    async def drop_share(self, task_id: bytes, share_id: bytes) -> bool:
        """Forget an aggregate share's answer; its batch stays closed. False if there was none."""
        ...

    async def report_counts(self, task_id: bytes) -> dict[str, int]:
        """Decided reports: how many were counted and how many refused."""
        ...
