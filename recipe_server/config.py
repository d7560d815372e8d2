"""Configuration of the recipe server."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.recipe.policy import Policy
from tacit.service.backends import AnnouncerConfig
from tacit.service.config import ConfigPath, ServiceConfig


class RecipeServerConfig(ServiceConfig):
    """``log_name`` is the log's origin in checkpoints, ``log_key`` the 0600 file with the Ed25519 key that signs
    them (base64url of 32 bytes).

    ``policy`` is the operator's: its analysts, issuers and gateways are the only ones whose leaves are admitted
    (none of a kind named: none admitted). ``collector_token`` is the 0600 file with the bearer token that may
    publish results; without it nobody may. ``accept_late_directories`` admits the directory of an epoch also
    after the epoch before it has begun, which a new stack needs for its first epochs. Ended recipes stay in the
    bundle for ``ended_seconds``; checkpoints and bundles may be cached for ``max_age`` seconds. ``announcer`` is the
    broker that is told when the log grew.
    """

    log_name: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")]
    log_key: ConfigPath
    policy: Policy = Policy()
    collector_token: ConfigPath | None = None
    accept_late_directories: bool = False
    ended_seconds: Annotated[int, Field(ge=0)] = 3600
    max_age: Annotated[int, Field(ge=0)] = 5
    announcer: AnnouncerConfig | None = None
