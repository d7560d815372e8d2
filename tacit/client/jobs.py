"""The organisation's jobs: unfinished work of the admin service and of the collector."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tacit.client.caller import Caller, part
from tacit.client.documents import Job, read
from tacit.client.pages import items

ROOT = "/v1/jobs"


class AsyncJobs:
    """The jobs: which are stuck, why, and when they are tried again."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[Job]:
        """The service's own jobs, then the collections that have not released a result, fetched page by page. Raises
        ``AwayError`` while the collector cannot be reached."""
        return items(self._caller, ROOT, "jobs", Job)

    async def retry(self, job: Job | str) -> Job:
        """Try a job again now, and return its new state. Raises ``NotFoundError`` if it was finished meanwhile."""
        name = job.id if isinstance(job, Job) else job
        return read(Job, (await self._caller.send("POST", f"{ROOT}/{part(name)}/retry", {})).document)
