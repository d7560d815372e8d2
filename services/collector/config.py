"""The collector's configuration. Secrets are in separate files that only their owner can read."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import LogConfig
from tacit.recipe.policy import Policy
from tacit.service.base.backends import AnnouncerConfig
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath, Frozen


class PublishConfig(Frozen):
    """Where releases are published."""

    url: str
    """The recipe server's URL, without a final slash."""
    token: ConfigPath
    """File (0600) with the bearer token that may publish results on the recipe server."""


class CollectorConfig(ServiceConfig):
    """Configuration of the collector."""

    hpke_keys: tuple[ConfigPath, ...] = Field(min_length=1)
    """Files (0600) with the HPKE keys that recipes seal aggregate shares to, the preferred one first, or folders of
    such files, of which the last by name is preferred. They are read again when they change; keep old ones while their
    recipes run."""
    leader_token: ConfigPath
    """File (0600) with the bearer token that is presented to the Leader."""
    analyzer_token: ConfigPath | None = None
    """File (0600) with the bearer token for the analyzer, which holds the sums of recipes with one server; without it
    no such sum is collected."""
    operator_token: ConfigPath
    """File (0600) with the bearer token that the operator has to present."""
    admin_token: ConfigPath | None = None
    """File (0600) with the bearer token that the organisation's admin service has to present; it may ask for the same
    as the operator."""
    log: LogConfig
    """The log whose recipes are collected."""
    policy: Policy = Policy()
    """What the collector demands of a recipe before it collects."""
    publish: PublishConfig | None = None
    """Where results are published; without it they are only stored by the collector."""
    announcer: AnnouncerConfig | None = None
    """The broker that announces growth of the log."""
    idle_seconds: float = Field(default=0.5, gt=0)
    """Seconds between two checks for collections that are due."""
    poll_seconds: float = Field(default=5.0, gt=0)
    """Seconds between polls if the Leader names no pause."""
    max_poll_seconds: float = Field(default=600.0, gt=0)
    """Longest pause in seconds that the Leader may ask for."""
    retry_delay: float = Field(default=1.0, gt=0)
    """Seconds before the retry of a first failed exchange; each further pause is longer."""
    max_body: int = Field(default=1 << 16, gt=0)
    """Largest request body in bytes."""
