"""Telling Helpers which answers they need not keep (DAP-18 section 4.5): one DELETE for each job that is done.

It costs the job nothing: the transaction that commits the answer stores the job's URL and when to delete it, at least
``FORGET_SECONDS`` later; the process that leads then asks, one job at a time. A job that is done is never sent again,
so no answer that is still needed is deleted (P14). A crash repeats a DELETE, and a Helper that knows the job no more
says so. What a Helper does not delete it keeps until the task's end.

All jobs of one minute are due together. So a Helper learns from the time of a DELETE only that the Leader committed
the job in an earlier minute, of which it knew the answer's time.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from services.leader.records import AnsweredJob
from services.leader.store import LeaderStore
from tacit.errors import DAP_ERROR_PREFIX
from tacit.ports import HttpResponse, TransportError
from tacit.problem import problem_type
from tacit.retry_after import retry_after
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.http.live_tokens import ShownToken

FORGET_SECONDS = 60.0
"""Least seconds between the commit of a job and its DELETE: by then no request for it is under way any more, and a
replica of the Leader's database has the commit, too."""

LOOK_SECONDS = 15.0
"""Seconds between two looks for jobs to delete."""

AT_ONCE = 64
"""Most jobs of one look."""

AGAIN_SECONDS = 600.0
"""Seconds for which a Helper is left alone that cannot be reached, or is busy."""

REFUSED_SECONDS = 86400.0
"""Seconds for which a Helper is not asked again that does not support DELETE."""

_NOT_SUPPORTED = frozenset({404, 405, 410, 501})


def due_after(now: float) -> float:
    """When a job that is committed ``now`` is to be deleted: at the end of a minute, ``FORGET_SECONDS`` to twice that
    later."""
    return (now // FORGET_SECONDS + 2) * FORGET_SECONDS


class HelperJobCleanup:
    """The driver of the process that leads; idle in every other process."""

    def __init__(self, store: LeaderStore, deps: ServiceEnv, helper_token: ShownToken) -> None:
        self._store = store
        self._deps = deps
        self._helper_token = helper_token
        self._refusing: dict[str, float] = {}
        self._log = get_logger("leader")

    async def step(self) -> int:
        """One look; returns for how many jobs nothing is left to do."""
        if not await self._store.leads():
            return 0
        now, past = self._deps.clock.now(), self._deps.vouched.past()
        async with self._store.read() as tx:
            jobs = await tx.answered_jobs(max(past, 0.0), AT_ONCE)
        if not jobs:
            return 0
        self._refusing = {helper: until for helper, until in self._refusing.items() if until > now}
        settled: list[bytes] = []
        silent: dict[str, float] = {}
        for job in jobs:
            helper = urlsplit(job.location).netloc
            if helper in silent:
                continue
            asked = None if helper in self._refusing else await self._delete(helper, job)
            if asked is None:
                settled.append(job.job_id)
            else:
                silent[helper] = asked
        later = {job.task_id for job in jobs if urlsplit(job.location).netloc in silent}
        pause = max(AGAIN_SECONDS, *silent.values()) if silent else AGAIN_SECONDS
        async with self._store.transaction(shared=True) as tx:
            await tx.forget_answers(settled)
            await tx.postpone_answers(later, now, now + pause)
        return len(settled)

    async def _delete(self, helper: str, job: AnsweredJob) -> float | None:
        """Ask the Helper to delete its answer; the seconds for which it asks to be left alone if it should be asked
        again later, else None."""
        try:
            answer = await self._deps.transport.request("DELETE", job.location, headers=self._helper_token.headers())
        except TransportError:
            return 0.0
        if 200 <= answer.status < 300 or _knows_no_job(answer):
            return None
        if answer.status not in _NOT_SUPPORTED:
            self._log.warning("answer_not_deleted", status=answer.status)
            return retry_after(answer.headers, self._deps.clock.now())
        self._log.info("helper_keeps_answers", status=answer.status)
        self._refusing[helper] = self._deps.clock.now() + REFUSED_SECONDS
        return None


def _knows_no_job(answer: HttpResponse) -> bool:
    """Whether a Helper says in DAP's terms that it has no such job or task."""
    return answer.status == 404 and problem_type(answer.body).startswith(DAP_ERROR_PREFIX)
