"""The collector's configuration. Secrets stand in files of their own, readable by their owner only."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import LogConfig
from tacit.recipe.policy import Policy
from tacit.service.backends import AnnouncerConfig
from tacit.service.config import ConfigPath, Frozen, ServiceConfig


class PublishConfig(Frozen):
    """Where releases are reported."""

    url: str
    """The recipe server's URL, without a final slash."""
    token: ConfigPath
    """File (0600) with the bearer token that may publish results there."""


class CollectorConfig(ServiceConfig):
    """The collector."""

    hpke_keys: tuple[ConfigPath, ...] = Field(min_length=1)
    """Files (0600) with the HPKE keys that recipes seal aggregate shares to, the preferred one first, or folders of
    such files, of which the last by name is preferred. They are read again when they change; keep old ones while their
    recipes run."""
    leader_token: ConfigPath
    """File (0600) with the bearer token that is presented to the Leader."""
    analyzer_token: ConfigPath | None = None
    """File (0600) with the bearer token that is presented to the analyzer, which has what recipes with one server gave;
    without it none is collected."""
    operator_token: ConfigPath
    """File (0600) with the bearer token that is demanded from callers."""
    admin_token: ConfigPath | None = None
    """File (0600) with the bearer token that is demanded from the organisation's admin service, which may ask for the
    same as the operator."""
    log: LogConfig
    """The log whose recipes are collected."""
    policy: Policy = Policy()
    """What the collector demands of a recipe before it collects."""
    publish: PublishConfig | None = None
    """Where results are published; without it they stay here."""
    announcer: AnnouncerConfig | None = None
    """The broker that says when the log grew."""
    idle_seconds: float = Field(default=0.5, gt=0)
    """Pause between two looks for collections that are due."""
    poll_seconds: float = Field(default=5.0, gt=0)
    """Pause between polls when the Leader names none."""
    max_poll_seconds: float = Field(default=600.0, gt=0)
    """Longest pause that the Leader may ask for."""
    retry_delay: float = Field(default=1.0, gt=0)
    """Seconds after the first exchange that failed; each further one waits longer."""
    max_body: int = Field(default=1 << 16, gt=0)
    """Largest request body in bytes."""
