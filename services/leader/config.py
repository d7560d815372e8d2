"""The Leader's configuration."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from tacit.aggregator.config import AggregatorConfig
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.recipe.policy import UPLOADS
from tacit.service.base.config_files import ConfigPath, Frozen

RELEASE_SECONDS = 86400.0
"""Least seconds between the end of the grace for a task's jobs and the task's becoming void, in which what counts can
be released."""


class LeaderLimits(Frozen):
    """Sizes and delays. A larger job hides the order of its reports better, and costs less per report."""

    job_size: int = Field(default=1000, ge=1, le=4096)
    """Pending reports at which a job is formed."""
    job_bytes: int = Field(default=128 << 20, ge=1 << 20)
    """Most bytes of reports in a job, each counted as the largest that its task allows. A job holds a report alone if
    that is larger."""
    min_job_size: int = Field(default=16, ge=1)
    """Pending reports at which a job is formed while the task has no other job under way."""
    max_job_delay: float = Field(default=2.0, ge=0, le=3600)
    """Seconds after which a pending report is put in a job, however few reports there are (paper section 4.8). After
    the end of the task's interval, jobs are formed at once."""
    max_jobs: int = Field(default=8, ge=1)
    """Unfinished jobs of one task at which no further job is formed."""
    concurrent_jobs: int = Field(default=4, ge=1)
    """Jobs that one process works on at a time; at most half of them may wait for the same Helper."""
    lease_seconds: float = Field(default=60.0, gt=0)
    """Seconds for which a worker takes a job. It renews the lease three times as often; when a lease runs out, another
    worker may take the job."""
    scrub_seconds: float = Field(default=600.0, gt=0)
    """Seconds within which the bytes of processed reports leave the files of a PostgreSQL table."""
    retry_delay: float = Field(default=1.0, gt=0)
    """Seconds before the retry of a first failed exchange with the Helper; each further pause is longer."""
    collection_grace: float = Field(default=4 * 86400.0, ge=0)
    """Seconds after a task's end for which its jobs are still retried. Then a job that is stuck ends, and the rest is
    released without it. At least a day before ``void_seconds`` and ``retention`` are over: this leader makes a recipe
    void no earlier than a day after this, but the helper knows only its own ``void_seconds``."""
    group_size: int = Field(default=256, ge=1)
    """Most uploads that are committed in one transaction."""
    group_delay: float = Field(default=0.02, ge=0)
    """Seconds that an upload waits for others to share its transaction; no upload waits once 32 are gathered."""
    idle_seconds: float = Field(default=0.5, gt=0)
    """Seconds between two checks for work that no event announced."""
    pending_floor: int = Field(default=4096, ge=1)
    """Least limit on the reports of one task that wait for a job, or as many as have 1 GiB. The limit is twice the
    recipe's expected contributions if that is more; requests with more than one report may fill only half of it."""

    @property
    def backoff(self) -> Backoff:
        """The pauses after failed exchanges with the Helper."""
        return Backoff(self.retry_delay, LONGEST_PAUSE)


class OpenUploads(Frozen):
    """Uploads from anybody: DAP clients that come without a gateway."""

    bytes_per_minute: int = Field(default=4 << 20, ge=1 << 10)
    """Most bytes per minute from each source (a client address, or the /64 of an IPv6 address)."""


class LeaderConfig(AggregatorConfig):
    """Configuration of the Leader, or of one of its processes. Any number of processes may share a PostgreSQL database;
    one of its workers at a time coordinates (forms jobs, follows the log, closes batches)."""

    collector_token: ConfigPath
    """File (0600) with the collector's bearer token. The collector asks for batches, and may read status."""
    roles: tuple[Literal["upload", "worker"], ...] = Field(default=("upload", "worker"), min_length=1)
    """What this process does: take uploads (``upload``), work on aggregation jobs and collections (``worker``), or
    both."""

    gateway_tokens: tuple[ConfigPath, ...] = ()
    """0600 files with bearer tokens, one of each gateway that may upload: ``listen.client_names`` calls them "gateway",
    "gateway-2" and so on, and may name certificates for "gateway" without a token."""
    shuffler_token: ConfigPath | None = None
    """File (0600) with the bearer token of the shuffler that uploads to tasks whose recipe names it; without it (and
    without a certificate in ``listen.client_names`` for "shuffler") such recipes are refused."""
    open_uploads: OpenUploads | None = None
    """Limits for uploads that come without a gateway; without it they are refused. A process that takes uploads needs
    ``gateway_tokens``, ``shuffler_token`` or this."""
    max_body: int = Field(default=1 << 20, gt=0)
    """Largest request body in bytes. Not below the policy's ``max_upload`` where that is above the default."""
    max_in_flight: int = Field(default=256 << 20, gt=0)
    """Most bytes of uploads that this process handles at one time; further uploads get 503 and a Retry-After."""
    limits: LeaderLimits = LeaderLimits()
    """Sizes of jobs and groups, delays and pauses."""

    @property
    def void_after(self) -> float:
        """Seconds after a task's end from which it is void: never while a stuck job may still hold up its release."""
        return max(self.void_seconds, self.limits.collection_grace + RELEASE_SECONDS)

    @model_validator(mode="after")
    def _check_uploads(self) -> Self:
        if self.policy.max_upload > max(self.max_body, UPLOADS[0]):
            raise ValueError(f"max_body must be at least policy.max_upload, {self.policy.max_upload}")
        return self

    @model_validator(mode="after")
    def _check_retention(self) -> Self:
        if self.retention < self.limits.collection_grace + RELEASE_SECONDS:
            raise ValueError(
                "retention must be a day longer than limits.collection_grace: jobs would lose their tables"
            )
        return self
