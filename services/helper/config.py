"""The Helper's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import AggregatorConfig


class HelperConfig(AggregatorConfig):
    """The Helper, or one of its processes: any number of them may share a PostgreSQL database, and with
    ``listen.reuse_port`` one address. ``max_job`` bounds the reports of one aggregation job. Jobs beyond
    ``max_in_flight`` bytes at one time, in this process, are told to come back."""

    max_job: int = Field(default=4096, ge=1, le=16_384)
    max_in_flight: int = Field(default=256 << 20, gt=0)
