"""The analyzer's configuration."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.one_server.config import OneServerConfig
from tacit.service.base.config_files import ConfigPath


class AnalyzerConfig(OneServerConfig):
    """Configuration of the analyzer, or of one of its processes."""

    state_keys: tuple[ConfigPath, ...] = Field(min_length=1)
    """Files (0600) with the private keys that decrypt the state devices keep encrypted; keep old keys while their
    recipes run."""
    collector_token: ConfigPath
    """File (0600) with the collector's bearer token, with which released sums are fetched."""
    shuffler_token: ConfigPath | None = None
    """File (0600) with the shuffler's bearer token, with which it forwards messages; without it, and without a
    certificate for "shuffler" in ``listen.client_names``, no recipe of model ``shuffled`` can be counted."""
    max_body: int = Field(default=1 << 20, gt=0)
    """Largest request body in bytes: of a report, or of a chunk of a shuffler's messages."""
