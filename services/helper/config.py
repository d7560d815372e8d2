"""The Helper's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import AggregatorConfig


class HelperConfig(AggregatorConfig):
    """Configuration of the Helper, or of one of its processes. Any number of processes may share a PostgreSQL database
    and, with ``listen.reuse_port``, one address."""

    max_job: int = Field(default=4096, ge=1, le=16_384)
    """Most reports of one aggregation job."""
    max_in_flight: int = Field(default=256 << 20, gt=0)
    """Most bytes of jobs that this process handles at one time; further jobs get 503 and a Retry-After."""
