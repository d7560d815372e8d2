"""Configuration of the recipe server."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tacit.recipe.policy import Policy
from tacit.service.backends import AnnouncerConfig
from tacit.service.config import ConfigPath, Frozen, ServiceConfig


class WitnessConfig(Frozen):
    """A witness of this log."""

    url: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]*[^/\s]$", max_length=512)]
    """The base URL of its ``add-checkpoint``."""
    key: str
    """Its verifier key (type 0x04)."""


class RecipeServerConfig(ServiceConfig):
    """The recipe server, which keeps the log."""

    log_name: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")]
    """The log's origin in checkpoints."""
    log_key: ConfigPath
    """File (0600) with the Ed25519 key that signs them (base64url of 32 bytes)."""
    policy: Policy = Policy()
    """The operator's: its analysts, issuers and gateways are the only ones whose leaves are admitted (none of a kind
    named: none admitted)."""
    collector_token: ConfigPath | None = None
    """File (0600) with the bearer token that may publish results; without it nobody may."""
    accept_late_directories: bool = False
    """Admit the directory of an epoch also after the epoch before it has begun, which a new stack needs for its first
    epochs."""
    ended_seconds: Annotated[int, Field(ge=0)] = 3600
    """For how long ended recipes stay in the bundle."""
    max_age: Annotated[int, Field(ge=0)] = 5
    """Seconds for which checkpoints and bundles may be cached."""
    announcer: AnnouncerConfig | None = None
    """The broker that is told when the log grew."""
    witnesses: Annotated[tuple[WitnessConfig, ...], Field(max_length=16)] = ()
    """Who cosigns the log's checkpoints."""
    witness_quorum: Annotated[int, Field(ge=1)] | None = None
    """Readers are shown what so many of the witnesses have cosigned; by default most, and as many as ``policy``
    demands. It should be at least what readers' policies demand."""
    cosign_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """A cosignature is made anew so often, which should be well below the age that policies allow."""

    @model_validator(mode="after")
    def _quorum_fits(self) -> Self:
        if self.witness_quorum is not None and self.witness_quorum > len(self.witnesses):
            raise ValueError("witness_quorum is more than there are witnesses")
        return self
