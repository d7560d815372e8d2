"""Configuration of the recipe server."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from tacit.recipe.policy import Policy
from tacit.service.backends import AnnouncerConfig
from tacit.service.config import ConfigPath, Frozen, ServiceConfig


class WitnessConfig(Frozen):
    """A witness of this log: the base URL of its ``add-checkpoint``, and its verifier key (type 0x04)."""

    url: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]*[^/\s]$", max_length=512)]
    key: str


class RecipeServerConfig(ServiceConfig):
    """``log_name`` is the log's origin in checkpoints, ``log_key`` the 0600 file with the Ed25519 key that signs
    them (base64url of 32 bytes).

    ``policy`` is the operator's: its analysts, issuers and gateways are the only ones whose leaves are admitted
    (none of a kind named: none admitted). ``collector_token`` is the 0600 file with the bearer token that may
    publish results; without it nobody may. ``accept_late_directories`` admits the directory of an epoch also
    after the epoch before it has begun, which a new stack needs for its first epochs. Ended recipes stay in the
    bundle for ``ended_seconds``; checkpoints and bundles may be cached for ``max_age`` seconds. ``announcer`` is the
    broker that is told when the log grew.

    ``witnesses`` cosign the log's checkpoints, and readers are shown what ``witness_quorum`` of them (default: most,
    and as many as ``policy`` demands) have cosigned: it should be at least what readers' policies demand. A cosignature
    is made anew every ``cosign_seconds``, which should be well below the age that policies allow.
    """

    log_name: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")]
    log_key: ConfigPath
    policy: Policy = Policy()
    collector_token: ConfigPath | None = None
    accept_late_directories: bool = False
    ended_seconds: Annotated[int, Field(ge=0)] = 3600
    max_age: Annotated[int, Field(ge=0)] = 5
    announcer: AnnouncerConfig | None = None
    witnesses: Annotated[tuple[WitnessConfig, ...], Field(max_length=16)] = ()
    witness_quorum: Annotated[int, Field(ge=1)] | None = None
    cosign_seconds: Annotated[float, Field(gt=0)] = 3600.0

    @model_validator(mode="after")
    def _quorum_fits(self) -> Self:
        if self.witness_quorum is not None and self.witness_quorum > len(self.witnesses):
            raise ValueError("witness_quorum is more than there are witnesses")
        return self
