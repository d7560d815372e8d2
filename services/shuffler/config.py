"""The shuffler's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.one_server.config import OneServerConfig
from tacit.service.base.config_files import ConfigPath


class ShufflerConfig(OneServerConfig):
    """Configuration of the shuffler, or of one of its processes."""

    max_body: int = Field(default=1 << 18, gt=0)
    """Largest request body in bytes: of a report with the messages of one device."""
    analyzer_token: ConfigPath | None = None
    """File (0600) with the bearer token that is shown to analyzers, to which messages are forwarded; without it recipes
    of model shuffled are refused."""
    leader_token: ConfigPath | None = None
    """File (0600) with the bearer token that is shown to leaders, to which reports are forwarded; without it recipes
    with a shuffler before leader and helper are refused."""
    chunk_messages: int = Field(default=4096, ge=1, le=20_000)
    """Messages that are forwarded in one request, of 50 or 51 bytes each; of reports for a leader as many as have the
    bytes of as many messages together, at least one."""
    most_messages: int = Field(default=20_000_000, ge=1)
    """Most messages of a recipe, or of reports for a leader as many as have their bytes together: all of them are in
    memory while they are permuted, 55 bytes for each. A recipe that has more is closed without anything being
    forwarded."""
