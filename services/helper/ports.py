"""The interface of the Helper's store."""

from __future__ import annotations

from typing import Protocol

from tacit.aggregator.ports import DecidingTx, ReleasingTx, StatusTx


class HelperTx(DecidingTx, ReleasingTx, StatusTx, Protocol):
    """The Helper's view of a transaction."""

    async def begin_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Take an aggregation job; False if another transaction has answered it. Waits for a transaction that has taken
        it and not ended."""
        ...

    async def job_response(self, task_id: bytes, job_id: bytes) -> bytes | None:
        """The stored response of an aggregation job; empty while there is none, None for an unknown job."""
        ...

    async def end_job(self, job_id: bytes, response: bytes) -> None:
        """Store the response (not empty) of a job that this transaction took. Raises ``Fatal`` for a job that it did
        not take, or that has a response."""
        ...

    async def drop_job(self, task_id: bytes, job_id: bytes) -> bool:
        """Delete a stored response; the decisions about its reports stay. False if there was none."""
        ...

    async def job_count(self, task_id: bytes) -> int:
        """Number of aggregation jobs whose response is stored."""
        ...

    async def share_response(self, task_id: bytes, share_id: bytes) -> bytes | None:
        """The stored answer of an aggregate share, or None."""
        ...

    async def put_share(self, task_id: bytes, share_id: bytes, response: bytes) -> None:
        """Store the answer of an aggregate share."""
        ...

    async def drop_share(self, task_id: bytes, share_id: bytes) -> bool:
        """Delete the stored answer of an aggregate share; its batch stays closed. False if there was none."""
        ...

    async def report_counts(self, task_id: bytes) -> dict[str, int]:
        """Number of decided reports: counted and refused."""
        ...
