"""Configuration of the recipe server."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tacit.recipe.policy import Policy
from tacit.service.base.backends import AnnouncerConfig
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath, Frozen


class WitnessConfig(Frozen):
    """A witness that is to cosign this log."""

    url: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]*[^/\s]$", max_length=512)]
    """The base URL of the witness's ``add-checkpoint``."""
    key: str
    """The witness's verifier key (type 0x04)."""


class RecipeServerConfig(ServiceConfig):
    """Configuration of the recipe server, which keeps the log."""

    log_name: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")]
    """The log's origin in checkpoints."""
    log_key: ConfigPath
    """File (0600) with the Ed25519 key that signs the checkpoints (base64url of 32 bytes)."""
    policy: Policy = Policy()
    """The operator's policy. Only leaves of the analysts, issuers and gateways that it names are admitted; if it names
    none of a kind, none of that kind is admitted."""
    collector_token: ConfigPath | None = None
    """File (0600) with the bearer token that may publish results; without it, nobody may."""
    accept_late_directories: bool = False
    """Admit an epoch's directory also after the previous epoch has begun; a new stack needs this for its first
    epochs."""
    ended_seconds: Annotated[int, Field(ge=0)] = 3600
    """Seconds for which ended recipes stay in the bundle, and, while there is room, the model files that they name."""
    model_bytes: Annotated[int, Field(ge=1)] = 256 << 20
    """Most bytes of all stored model files together, of which each analyst that ``policy`` names has its share; the
    largest has 4 MiB."""
    max_age: Annotated[int, Field(ge=0)] = 5
    """Seconds for which checkpoints and bundles may be cached."""
    announcer: AnnouncerConfig | None = None
    """The broker that is told when the log grows."""
    witnesses: Annotated[tuple[WitnessConfig, ...], Field(max_length=16)] = ()
    """The witnesses that cosign the log's checkpoints."""
    witness_quorum: Annotated[int, Field(ge=1)] | None = None
    """Number of witnesses that must have cosigned a checkpoint before readers are shown it; by default a majority, or
    as many as ``policy`` demands if that is more. It should be at least what readers' policies demand."""
    cosign_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds after which a cosignature is renewed; this should be well below the age that policies allow."""

    @model_validator(mode="after")
    def _quorum_fits(self) -> Self:
        if self.witness_quorum is not None and self.witness_quorum > len(self.witnesses):
            raise ValueError("witness_quorum is larger than the number of witnesses")
        return self
