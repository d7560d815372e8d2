"""The organisation's jobs: work of the admin service and of the collector that does not end by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tacit.client.caller import Caller, part
from tacit.client.documents import Job, read
from tacit.client.pages import items

ROOT = "/v1/jobs"


class AsyncJobs:
    """Which of it is stuck, why, and when it is tried again."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[Job]:
        """The service's own, then collections that have released nothing, page by page. Raises ``AwayError`` while the
        collector is away."""
        return items(self._caller, ROOT, "jobs", Job)

    async def retry(self, job: Job | str) -> Job:
        """Have one tried again now; as it is then. Raises ``NotFoundError`` where it is done meanwhile."""
        name = job.id if isinstance(job, Job) else job
        return read(Job, (await self._caller.send("POST", f"{ROOT}/{part(name)}/retry", {})).document)
