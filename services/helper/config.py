"""The Helper's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import AggregatorConfig


class HelperConfig(AggregatorConfig):
    """The Helper. ``max_job`` bounds the reports of one aggregation job."""

    max_job: int = Field(default=4096, ge=1, le=16_384)
