"""Configuration of a witness."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath, Frozen


class WitnessedLog(Frozen):
    """A log that this witness watches."""

    key: str
    """The log's signed-note key; the key's name is the log's origin."""
    url: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]*[^/\s]$", max_length=512)]
    """The base URL of the log's tiles."""


class WitnessConfig(ServiceConfig):
    """The witness's configuration file."""

    name: Annotated[str, Field(pattern=r"^[^\s+]{1,200}$")]
    """The witness's own name, which its cosignatures carry."""
    signing_key: ConfigPath
    """File (0600) with the witness's Ed25519 key (base64url of 32 bytes)."""
    logs: Annotated[tuple[WitnessedLog, ...], Field(min_length=1)]
    """The logs whose checkpoints it cosigns."""
    max_step: Annotated[int, Field(ge=1, le=1 << 20)] = 8192
    """Most entries that are read for one request. A log that is further ahead has to ask for a checkpoint in between
    first."""
