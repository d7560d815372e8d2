"""The collector's configuration. Secrets stand in files of their own, readable by their owner only."""

from __future__ import annotations

from pydantic import Field

from tacit.aggregator.config import LogConfig
from tacit.recipe.policy import Policy
from tacit.service.backends import AnnouncerConfig
from tacit.service.config import ConfigPath, Frozen, ServiceConfig


class PublishConfig(Frozen):
    """Where releases are reported: the recipe server's URL and the bearer token for it."""

    url: str
    token: ConfigPath


class CollectorConfig(ServiceConfig):
    """The collector. ``hpke_keys``: what recipes seal aggregate shares to; keep old ones while their recipes run.

    ``leader_token`` is presented to the Leader, ``operator_token`` demanded from callers. Without ``publish``
    results stay here.
    """

    hpke_keys: tuple[ConfigPath, ...] = Field(min_length=1)
    leader_token: ConfigPath
    operator_token: ConfigPath
    log: LogConfig
    policy: Policy = Policy()
    publish: PublishConfig | None = None
    announcer: AnnouncerConfig | None = None
    """The broker that says when the log grew."""
    idle_seconds: float = Field(default=0.5, gt=0)
    poll_seconds: float = Field(default=5.0, gt=0)
    """Pause between polls when the Leader names none."""
    max_poll_seconds: float = Field(default=600.0, gt=0)
    """Longest pause that the Leader may ask for."""
    retry_delay: float = Field(default=1.0, gt=0)
    max_body: int = Field(default=1 << 16, gt=0)
    """Largest request body in bytes."""
