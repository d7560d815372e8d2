"""The analyzer's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import FollowingConfig
from tacit.service.config import ConfigPath


class AnalyzerConfig(FollowingConfig):
    """Configuration of the analyzer, or of one of its processes. Any number of processes may share a PostgreSQL
    database and, with ``listen.reuse_port``, one address."""

    state_keys: tuple[ConfigPath, ...] = Field(min_length=1)
    """Files (0600) with the private keys that decrypt the state devices keep encrypted; keep old keys while their
    recipes run."""
    collector_token: ConfigPath
    """File (0600) with the collector's bearer token, with which released sums are fetched."""
    gateway_tokens: tuple[ConfigPath, ...] = ()
    """0600 files with bearer tokens, one of each gateway that may upload: ``listen.client_names`` calls them "gateway",
    "gateway-2" and so on, and may name certificates for "gateway" without a token."""
    release_grace: float = Field(default=60.0, ge=0)
    """Seconds after the end of a recipe's interval in which reports that were sent in the interval still count; then
    the sum is released."""
    group_size: int = Field(default=256, ge=1)
    """Most reports that are opened and counted in one transaction."""
    group_delay: float = Field(default=0.02, ge=0)
    """Seconds that a report waits for others to share its transaction; no report waits once 32 are gathered."""
    idle_seconds: float = Field(default=1.0, gt=0)
    """Seconds between two checks for recipes whose interval is over."""
    max_body: int = Field(default=1 << 15, gt=0)
    """Largest request body in bytes."""
    max_in_flight: int = Field(default=64 << 20, gt=0)
    """Most bytes of uploads that this process handles at one time; further uploads get 503 and a Retry-After."""
