"""Configuration of the servers of models without aggregators, which take reports through gateways."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import FollowingConfig
from tacit.service.base.config_files import ConfigPath


class OneServerConfig(FollowingConfig):
    """A server that opens each report when it arrives. Any number of processes may share a PostgreSQL database and,
    with ``listen.reuse_port``, one address."""

    gateway_tokens: tuple[ConfigPath, ...] = ()
    """0600 files with bearer tokens, one of each gateway that may upload: ``listen.client_names`` calls them "gateway",
    "gateway-2" and so on, and may name certificates for "gateway" without a token."""
    release_grace: float = Field(default=60.0, ge=0)
    """Seconds after the end of a recipe's interval in which reports that were sent in the interval still count; then
    the batch is complete."""
    group_size: int = Field(default=256, ge=1)
    """Most reports that are opened and counted in one transaction."""
    group_delay: float = Field(default=0.02, ge=0)
    """Seconds that a report waits for others to share its transaction; no report waits once 32 are gathered."""
    idle_seconds: float = Field(default=1.0, gt=0)
    """Seconds between two checks for recipes whose interval is over."""
    max_body: int = Field(default=1 << 16, gt=0)
    """Largest request body in bytes."""
    max_in_flight: int = Field(default=64 << 20, gt=0)
    """Most bytes of uploads that this process handles at one time; further uploads get 503 and a Retry-After."""
