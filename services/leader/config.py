"""The Leader's configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tacit.aggregator.config import AggregatorConfig
from tacit.pauses import LONGEST_PAUSE, Backoff
from tacit.service.backends import RedisConfig
from tacit.service.config import ConfigPath, Frozen


class LeaderLimits(Frozen):
    """Sizes and delays. The more reports a job shuffles, the less its order tells, and the less each of them costs."""

    job_size: int = Field(default=1000, ge=1, le=4096)
    """Pending reports from which a job is formed."""
    min_job_size: int = Field(default=16, ge=1)
    """The same when the task has no other job under way."""
    max_job_delay: float = Field(default=2.0, ge=0, le=3600)
    """Seconds after which a raw share is sub-aggregated with what there is, however little (paper section 4.8). Nor is
    it waited for more once the task's interval is over."""
    max_jobs: int = Field(default=8, ge=1)
    """Unfinished jobs of one task at which no further one is formed."""
    concurrent_jobs: int = Field(default=4, ge=1)
    """Jobs that one process works on at a time; at most half of them wait for the same Helper."""
    lease_seconds: float = Field(default=60.0, gt=0)
    """Silence after which the jobs of a worker are another's. It renews them three times as often."""
    scrub_seconds: float = Field(default=600.0, gt=0)
    """Time within which bytes of reports that were dealt with leave a PostgreSQL table's files."""
    retry_delay: float = Field(default=1.0, gt=0)
    """Seconds after the first exchange with the Helper that failed; each further one waits longer."""
    collection_grace: float = Field(default=7 * 86400.0, ge=0)
    """Seconds after a task's end for which its jobs are still retried."""
    group_size: int = Field(default=256, ge=1)
    """Most uploads that are committed in one transaction."""
    group_delay: float = Field(default=0.02, ge=0)
    """Seconds that an upload waits for company before it is committed; 32 are company enough."""
    idle_seconds: float = Field(default=0.5, gt=0)
    """Pause between two looks for work of which nobody told."""
    pending_floor: int = Field(default=4096, ge=1)
    """Reports of one task that may wait for a job, or twice its recipe's expected contributions where that is more;
    half of them from requests with more than one."""

    @property
    def backoff(self) -> Backoff:
        """The pauses after exchanges with the Helper that failed."""
        return Backoff(self.retry_delay, LONGEST_PAUSE)


class OpenUploads(Frozen):
    """Uploads from anybody: DAP clients that come without a gateway."""

    bytes_per_minute: int = Field(default=4 << 20, ge=1 << 10)
    """Of each source (a client address, or the /64 of an IPv6 address)."""


class LeaderConfig(AggregatorConfig):
    """The Leader, or one of its processes. Any number of processes may share a PostgreSQL database; one of its workers
    at a time coordinates (forms jobs, follows the log, closes batches)."""

    collector_token: ConfigPath
    """File (0600) with the collector's bearer token: it asks for batches, and may read status."""
    roles: tuple[Literal["upload", "worker"], ...] = Field(default=("upload", "worker"), min_length=1)
    """What this process does: take uploads, work on aggregation jobs and collections, or both."""
    queue: RedisConfig | None = None
    """Wakes the workers of every process at once; without it each process wakes its own, and looks now and then."""

    gateway_tokens: tuple[ConfigPath, ...] = ()
    """0600 files with bearer tokens, one of each gateway that may upload: ``listen.client_names`` calls them "gateway",
    "gateway-2" and so on, and may name certificates for "gateway" without a token."""
    open_uploads: OpenUploads | None = None
    """Who else may; a process that takes uploads needs ``gateway_tokens`` or this."""
    max_body: int = Field(default=1 << 20, gt=0)
    """Largest request body in bytes."""
    max_in_flight: int = Field(default=256 << 20, gt=0)
    """Most bytes of uploads at one time, in this process; those beyond are told to come back."""
    limits: LeaderLimits = LeaderLimits()
    """Sizes of jobs and groups, delays and pauses."""
