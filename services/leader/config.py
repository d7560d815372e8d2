"""The Leader's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import AggregatorConfig
from tacit.service.config import Frozen


class LeaderLimits(Frozen):
    """Sizes and delays. A job is formed from ``min_job_size`` pending reports, or after ``max_job_delay`` seconds, or
    when a collection waits: the more reports a job shuffles, the less its order tells."""

    job_size: int = Field(default=256, ge=1, le=4096)
    min_job_size: int = Field(default=16, ge=1)
    max_job_delay: float = Field(default=2.0, ge=0)
    max_jobs: int = Field(default=8, ge=1)
    """Unanswered jobs of one task at which no further one is formed."""
    retry_delay: float = Field(default=1.0, gt=0)
    collection_grace: float = Field(default=7 * 86400.0, ge=0)
    """Seconds after a task's end for which its jobs are still retried."""
    group_size: int = Field(default=256, ge=1)
    group_delay: float = Field(default=0.005, ge=0)
    """Seconds that an upload waits for company before it is committed."""
    idle_seconds: float = Field(default=0.5, gt=0)


class LeaderConfig(AggregatorConfig):
    """The Leader. Uploads beyond ``max_in_flight`` bytes at one time are told to come back."""

    max_body: int = Field(default=1 << 20, gt=0)
    max_in_flight: int = Field(default=64 << 20, gt=0)
    limits: LeaderLimits = LeaderLimits()
