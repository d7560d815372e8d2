"""The Helper's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import AggregatorConfig


class HelperConfig(AggregatorConfig):
    """The Helper, or one of its processes: any number of them may share a PostgreSQL database, and with
    ``listen.reuse_port`` one address."""

    max_job: int = Field(default=4096, ge=1, le=16_384)
    """Most reports of one aggregation job."""
    max_in_flight: int = Field(default=256 << 20, gt=0)
    """Most bytes of jobs at one time, in this process; those beyond are told to come back."""
